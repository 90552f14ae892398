import assert from "node:assert/strict";
import { compileSample, sampleConfig, sampleHost } from "../testing/sample_policy.ts";
import type { CommandPolicy, HostPolicy } from "./model.ts";
import { rulesOf, visibleRules } from "./host_rules.ts";

function rules(command_policy: CommandPolicy | undefined, host: Partial<HostPolicy> = {}) {
  const policies = command_policy === undefined ? {} : { command_policy };
  const policy = compileSample(
    sampleConfig({}, { hosts: { web01: sampleHost({ ...host, ...policies }) }, group_command_policies: {} }),
  );
  return rulesOf(policy.hosts.get("web01")!);
}

Deno.test("rulesOf() tells what is allowed and what needs approval, and nothing that is denied", () => {
  const shown = rules({
    mode: "allowlist",
    allow: ["^a$", "^b$", "^a$"],
    deny: ["^secret"],
    require_approval: ["^b$"],
  }, {
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

Deno.test.each<
  { name: string; policy: CommandPolicy | undefined; host?: Partial<HostPolicy>; shown: object }
>([
  {
    name: "no rules",
    policy: undefined,
    shown: { commands: "any", shell_parse: false, session_modes: ["exec", "shell"], file_transfer: false },
  },
  {
    name: "a terminal and files without rules",
    policy: undefined,
    host: { allow_pty: true, allow_file_transfer: true },
    shown: { session_modes: ["exec", "shell", "pty"], file_transfer: true },
  },
  {
    name: "a seal, which only sessions of mode exec go through",
    policy: undefined,
    host: { allow_pty: true, sealed_exec: true },
    shown: { session_modes: ["exec"] },
  },
  {
    name: "a denylist, without what is in it",
    policy: { mode: "denylist", deny: ["^rm"] },
    shown: { commands: "denylist", some_denied: true, allow: undefined, session_modes: ["exec"] },
  },
  {
    name: "approval alone",
    policy: { require_approval: ["^reboot$"] },
    shown: { commands: "any", require_approval: ["^reboot$"], session_modes: ["exec"], shell_parse: true },
  },
  {
    name: "patterns that are off: not",
    policy: { mode: "off", deny: ["^x"], allow: ["^y"] },
    shown: { commands: "any", some_denied: undefined, allow: undefined },
  },
  {
    name: "an audit: files pass with a warning",
    policy: { mode: "allowlist", allow: [], enforcement: "audit" },
    host: { allow_file_transfer: true },
    shown: { enforcement: "audit", allow: [], file_transfer: true },
  },
  {
    name: "an unparsed list: files as far as it allows",
    policy: { mode: "allowlist", allow: ["^cat"], shell_parse: false },
    host: { allow_file_transfer: true },
    shown: { shell_parse: false, file_transfer: true },
  },
])("rulesOf() tells of $name", ({ policy, host, shown }) => {
  const all: Readonly<Record<string, unknown>> = { ...rules(policy, host) };
  const asked = Object.keys(shown).map((key) => [key, all[key]]);
  assert.deepEqual(Object.fromEntries(asked), shown);
});

Deno.test("rulesOf() bounds what it tells, and says how much is left out", () => {
  const allow = Array.from({ length: 1000 }, (_, number) => `^command ${`${number}`.padStart(20, "0")}$`);
  const shown = rules({ mode: "allowlist", allow });
  const count = shown.allow?.length ?? 0;
  assert.ok(count > 100 && count < 1000);
  assert.equal(shown.allow_omitted, 1000 - count);
});

Deno.test("visibleRules() tells a caller of the hosts that it may use, and of no other", () => {
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
