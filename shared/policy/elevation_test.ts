import assert from "node:assert/strict";
import {
  canonicalSudoUser,
  elevateCommand,
  elevationLabel,
  elevationPrefix,
  isSudoUser,
  resolveElevation,
} from "./shell.ts";
import { compileSample, sampleConfig, sampleHost } from "../testing/sample_policy.ts";
import type { ClusterRule, HostPolicy } from "./model.ts";
import { rulesOf, visibleRules } from "./host_rules.ts";
import { compileSampleCluster, sampleCluster } from "../testing/sample_cluster.ts";
import { findListGaps } from "./warnings.ts";

Deno.test.each([
  { name: "one command", command: "systemctl restart nginx", text: "systemctl restart nginx" },
  { name: "decoded words", command: `r"m" 'a b' "c"`, text: "rm 'a b' c" },
  { name: "an empty word", command: "echo ''", text: "echo ''" },
  { name: "an argument with =", command: "make A=b", text: "make 'A=b'" },
  { name: "a single quote", command: `echo "it's"`, text: `echo 'it'\\''s'` },
  { name: "a trailing ;", command: "id ;", text: "id" },
  { name: "a comment", command: "id # x", text: "id" },
  { name: "a wrapper that does not elevate", command: "bash -c id", text: "bash -c id" },
  { name: "other scripts", command: "echo é", text: "echo 'é'" },
  { name: "every bare character", command: "a@%_+:,./-Z9 x", text: "a@%_+:,./-Z9 x" },
])("elevateCommand() prefixes $name directly", ({ command, text }) => {
  assert.equal(elevateCommand("sudo -n", command), `sudo -n -- ${text}`);
});

Deno.test.each([
  "id; id",
  "id | cat",
  "id && id",
  "id || id",
  "id &",
  "! id",
  "(id)",
  "{ id; }",
  "if id; then id; fi",
  "time id",
  "A=b id",
  "A=b",
  "=x id",
  "9A=b id",
  "'A=b' id",
  "id > x",
  "id 2>&1",
  "id >&-",
  "id <<< x",
  "echo *",
  "echo {a,b}",
  "echo ~",
  "r\\m x",
  "echo $x",
  "echo $(id)",
  'echo "$x"',
  "$'id'",
  "'' x",
  "echo 'it'\\''s'",
  "id\nid",
  "echo 'a",
  "# id",
  ". x",
  ": x",
  "cd /tmp",
  "umask 077",
  "export A",
  "exec id",
  "eval id",
  "command id",
  "ulimit -n",
  "times",
  "wait",
  "'cd' /tmp",
  "-x",
].map((command) => ({ command })))("elevateCommand() wraps $command", ({ command }) => {
  const quoted = `'${command.replaceAll("'", "'\\''")}'`;
  assert.equal(elevateCommand("sudo -n -u db", command), `sudo -n -u db -- /bin/sh -c ${quoted}`);
});

Deno.test("elevateCommand() replaces a lone surrogate with U+FFFD", () => {
  assert.equal(elevateCommand("sudo -n", "echo \ud800"), "sudo -n -- echo '\ufffd'");
});

Deno.test.each([
  { name: "an empty user as root", user: "", prefix: "sudo -n" },
  { name: "root by name", user: "root", prefix: "sudo -n" },
  { name: "another user", user: "deploy", prefix: "sudo -n -u deploy" },
])("elevationPrefix() supports $name", ({ user, prefix }) => {
  assert.equal(elevationPrefix(user), prefix);
});

Deno.test("elevationPrefix() throws for an invalid account name", () => {
  assert.throws(() => elevationPrefix("a; id"), RangeError);
});

Deno.test.each([
  { user: "deploy", valid: true },
  { user: "_www-data.1", valid: true },
  { user: "a".repeat(32), valid: true },
  { user: "a".repeat(33), valid: false },
  { user: "-u", valid: false },
  { user: ".a", valid: false },
  { user: "", valid: false },
  { user: "a b", valid: false },
  { user: "a\n", valid: false },
  { user: "#0", valid: false },
  { user: "é", valid: false },
  { user: "ALL=(ALL)", valid: false },
])("isSudoUser() of $user is $valid", ({ user, valid }) => {
  assert.equal(isSudoUser(user), valid);
});

const HOST = { name: "web01", allow_sudo: true, allowed_sudo_users: ["db"] };

Deno.test.each([
  { name: "root, implied in addition to a list", sudoUser: "", user: "root" },
  { name: "root by name", sudoUser: "root", user: "root" },
  { name: "a listed user", sudoUser: "db", user: "db" },
])("resolveElevation() allows $name", ({ sudoUser, user }) => {
  const elevation = resolveElevation(HOST, { sudo: true, sudoUser });
  assert.deepEqual(elevation, { kind: "elevated", user, prefix: elevationPrefix(user) });
});

Deno.test.each([
  { name: "an unlisted user", sudoUser: "www", reason: 'sudo_user "www" is not allowed on "web01"' },
  { name: "an invalid account", sudoUser: "a b", reason: 'invalid sudo_user: "a b"' },
  {
    name: "a host without sudo",
    allow_sudo: false,
    reason: 'host "web01" does not allow elevation (allow_sudo=false)',
  },
])("resolveElevation() denies $name", ({ sudoUser = "", allow_sudo = true, reason }) => {
  const elevation = resolveElevation({ ...HOST, allow_sudo }, { sudo: true, sudoUser });
  assert.deepEqual(elevation, { kind: "denied", reason });
});

Deno.test("resolveElevation() ignores the user if sudo is not requested", () => {
  assert.equal(resolveElevation({ ...HOST, allow_sudo: false }, { sudo: false, sudoUser: "a b" }), undefined);
});

Deno.test.each([
  { name: "no sudo", sudo: false, user: "", canonical: "", label: "" },
  { name: "a user without sudo", sudo: false, user: "db", canonical: "", label: "" },
  { name: "a wire object without elevation", sudo: undefined, user: undefined, canonical: "", label: "" },
  { name: "sudo without user", sudo: true, user: "", canonical: "root", label: "sudo:root" },
  { name: "sudo with an absent user", sudo: true, user: undefined, canonical: "root", label: "sudo:root" },
  { name: "sudo to root", sudo: true, user: "root", canonical: "root", label: "sudo:root" },
  { name: "sudo to another", sudo: true, user: "db", canonical: "db", label: "sudo:db" },
])("canonicalSudoUser() of $name is '$canonical' (I25)", ({ sudo, user, canonical, label }) => {
  assert.equal(canonicalSudoUser(sudo, user), canonical);
  assert.equal(elevationLabel(sudo, user), label);
});

function rules(host: Partial<HostPolicy>) {
  return rulesOf(compileSample(sampleConfig(host)).hosts.get("web01")!);
}

Deno.test("rulesOf() shows allowed commands and required approvals, and no denied commands", () => {
  const list = { allow: ["^a$", "^b$", "^a$"], deny: ["^secret"], require_approval: ["^b$"] };
  const shown = rules({
    command_policy: { mode: "allowlist", ...list },
    allow_sudo: true,
    allowed_sudo_users: ["db", "root"],
    allow_file_transfer: true,
    max_ttl_seconds: 60,
  });
  assert.deepEqual(shown, {
    commands: "allowlist",
    enforcement: "enforce",
    shell_parse: true,
    allow: ["^a$", "^b$"],
    some_denied: true,
    require_approval: ["^b$"],
    sudo_users: ["root", "db"],
    session_modes: ["exec"],
    file_transfer: false,
    max_ttl_seconds: 60,
  });
});

const FILES = { allow_file_transfer: true };

Deno.test.each<[name: string, host: Partial<HostPolicy>, shown: object]>([
  [
    "no rules",
    {},
    { commands: "any", shell_parse: false, session_modes: ["exec", "shell"], file_transfer: false },
  ],
  [
    "a terminal and files without rules",
    { allow_pty: true, ...FILES },
    { session_modes: ["exec", "shell", "pty"], file_transfer: true },
  ],
  [
    "a seal, which only sessions of mode exec go through",
    { allow_pty: true, sealed_exec: true },
    { session_modes: ["exec"] },
  ],
  [
    "a denylist, without what is in it",
    { command_policy: { mode: "denylist", deny: ["^rm"] } },
    { commands: "denylist", some_denied: true, allow: undefined, session_modes: ["exec"] },
  ],
  [
    "approval alone",
    { command_policy: { require_approval: ["^reboot$"] } },
    { commands: "any", require_approval: ["^reboot$"], session_modes: ["exec"], shell_parse: true },
  ],
  [
    "patterns that are off: not",
    { command_policy: { mode: "off", deny: ["^x"], allow: ["^y"] } },
    { commands: "any", some_denied: undefined, allow: undefined },
  ],
  [
    "an audit: files pass with a warning",
    { command_policy: { mode: "allowlist", allow: [], enforcement: "audit" }, ...FILES },
    { enforcement: "audit", allow: [], file_transfer: true },
  ],
  [
    "an unparsed list: files as far as it allows",
    { command_policy: { mode: "allowlist", allow: ["^cat"], shell_parse: false }, ...FILES },
    { shell_parse: false, file_transfer: true },
  ],
])("rulesOf() shows %s", (_name, host, shown) => {
  const all: Readonly<Record<string, unknown>> = { ...rules(host) };
  const asked = Object.keys(shown).map((key) => [key, all[key]]);
  assert.deepEqual(Object.fromEntries(asked), shown);
});

Deno.test("rulesOf() limits the shown rules and reports how many are omitted", () => {
  const allow = Array.from({ length: 1000 }, (_, number) => `^command ${`${number}`.padStart(20, "0")}$`);
  const shown = rules({ command_policy: { mode: "allowlist", allow } });
  const count = shown.allow?.length ?? 0;
  assert.ok(count > 100 && count < 1000);
  assert.equal(shown.allow_omitted, 1000 - count);
});

Deno.test("visibleRules() shows a caller only the hosts that it may use", () => {
  const policy = compileSample(sampleConfig({}, {
    callers: { a: { allowed_groups: ["web"] } },
    hosts: {
      web01: sampleHost({ groups: ["web"] }),
      web02: sampleHost({ groups: ["web"], allowed_callers: ["b"] }),
      db01: sampleHost({ groups: ["db"] }),
    },
  }));
  const names = ["db01", "web02", "web01", "web01", "none", "constructor"];
  assert.deepEqual(Object.keys(visibleRules(policy, "a", names)), ["web01"]);
  assert.deepEqual(Object.keys(visibleRules(policy, "stranger", names)), []);
});

const ALL = { effect: "allow" } as const;
const IN_WEB = { namespaces: ["web"], effect: "allow" } as const;

Deno.test.each<{ name: string; rules: readonly ClusterRule[]; gaps: readonly string[] }>([
  {
    name: "a list across all namespaces shows the denied namespace",
    rules: [ALL, { verbs: ["get", "list"], namespaces: ["vault"], effect: "deny" }],
    gaps: ["1 list pods -/-"],
  },
  {
    name: "a list of the namespace shows the denied object",
    rules: [IN_WEB, { resources: ["secrets"], namespaces: ["web"], names: ["db"], effect: "deny" }],
    gaps: ["1 list secrets web/-"],
  },
  {
    name: "a list shows objects whose get is denied",
    rules: [ALL, { verbs: ["get"], resources: ["secrets"], effect: "deny" }],
    gaps: ["1 list secrets -/-"],
  },
  {
    name: "a list of a resource without a namespace",
    rules: [ALL, { verbs: ["get"], resources: ["nodes"], names: ["n1"], effect: "deny" }],
    gaps: ["1 list nodes -/-"],
  },
  {
    name: "a list that requires approval is not denied",
    rules: [{ effect: "require_approval" }, { namespaces: ["vault"], effect: "deny" }],
    gaps: ["1 list pods -/-"],
  },
  {
    name: "none if the rule also denies the list across all namespaces",
    rules: [ALL, { verbs: ["get", "list"], namespaces: ["vault", "-"], effect: "deny" }],
    gaps: [],
  },
  {
    name: "none if no rule allows that list",
    rules: [IN_WEB, { namespaces: ["vault"], effect: "deny" }],
    gaps: [],
  },
  {
    name: "none if the rule denies only verbs that do not read",
    rules: [ALL, { verbs: ["delete"], namespaces: ["vault"], effect: "deny" }],
    gaps: [],
  },
  { name: "none where the rule denies everything", rules: [ALL, { verbs: ["*"], effect: "deny" }], gaps: [] },
])("findListGaps(): $name", ({ rules, gaps }) => {
  const found = findListGaps(sampleCluster({ rules }), compileSampleCluster({ rules }));
  assert.deepEqual(found.map(({ index, list }) => `${index} ${list}`), gaps);
});
