import assert from "node:assert/strict";
import { join } from "node:path";
import { SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { createFolder, run, SIGNER_KEYS, words } from "./ctl_fixture.ts";

const HOST = {
  addr: "10.0.0.1:22",
  user: "deploy",
  host_key: SAMPLE_HOST_KEY,
  principal: "host:x",
  shared_principal: true,
};

const CONFIG = {
  ...SIGNER_KEYS,
  callers: { "broker-1": { allowed_groups: ["web"] } },
  command_policies: {
    base: { mode: "denylist", deny: ["^rm "] },
    nginx: { mode: "allowlist", allow: ["^systemctl status nginx$", "^ps "], require_approval: ["^ps -ef"] },
    watch: { mode: "allowlist", enforcement: "audit", allow: ["^uptime$"], require_approval: ["^reboot"] },
    raw: { mode: "allowlist", allow: ["^uptime"], shell_parse: false },
  },
  group_command_policies: { web: ["nginx", "base"], all: ["base"], watched: ["watch"], raw: ["raw"] },
  hosts: {
    web01: {
      ...HOST,
      groups: ["web", "all"],
      allow_sudo: true,
      allowed_callers: ["broker-1"],
      command_policy: { mode: "allowlist", allow: ["^grep "] },
    },
    free: { ...HOST, command_policy: { mode: "off", allow: ["x"] } },
    watched: { ...HOST, groups: ["watched"] },
    raw: { ...HOST, groups: ["raw"], allow_pty: true },
  },
};

async function createConfig(keys: object = {}) {
  const folder = await createFolder();
  await Deno.writeTextFile(join(folder.path, "signer.json"), JSON.stringify({ ...CONFIG, ...keys }));
  return folder;
}

Deno.test("policy explain prints the policies of a host", async () => {
  await using folder = await createConfig();
  assert.deepEqual(await run(folder.path, "policy", "explain", "--host", "web01"), {
    out: [
      "Host:      web01 (deploy at 10.0.0.1:22)",
      "Groups:    web, all",
      "Command policies:",
      "  nginx             [web]       allowlist(allow:2) approval:1",
      "  base              [web,all]   denylist(deny:1)",
      "  <inline>          [host]      allowlist(allow:1)",
      "Sessions:  exec only, and each command is decided before it runs; shell and pty are denied",
      "",
    ].join("\n"),
    err: "",
    exit: 0,
  });
  assert.deepEqual(
    JSON.parse((await run(folder.path, "policy", "explain", "--host", "web01", "--json")).out),
    {
      host: "web01",
      groups: ["web", "all"],
      policies: [
        { name: "nginx", sources: ["web"], label: "allowlist(allow:2) approval:1" },
        { name: "base", sources: ["web", "all"], label: "denylist(deny:1)" },
        { name: "<inline>", sources: ["host"], label: "allowlist(allow:1)" },
      ],
      sessions: "exec",
    },
  );
});

Deno.test("policy explain reports a host without restrictions", async () => {
  await using folder = await createConfig();
  const { out } = await run(folder.path, "policy", "explain", "--host", "free");
  assert.match(out, /Groups: {4}—\nCommand policies:\n {2}\(no restrictions: .*\)\nSessions: {2}allowed\n$/);
});

Deno.test("policy explain prints decision, rule and policies of each simple command, and the changes that allow all", async () => {
  await using folder = await createConfig();
  const command = "ps aux | grep 'nginx'; rm -rf /; id";
  const args = ["policy", "explain", "--host", "web01", "--command", command];
  const { out, err, exit } = await run(folder.path, ...args);
  assert.deepEqual([err, exit], ["", 0]);
  assert.equal(
    out.split("\n\n")[1],
    [
      `Command:   ${command}`,
      "  1.  ps aux      allowed  allow:^ps           in nginx",
      "  2.  grep nginx  allowed  allow:^grep         in <inline>",
      "  3.  rm -rf /    denied   deny:^rm            in base",
      "  4.  id          denied   allowlist:no-match  in nginx, <inline>",
      "Decision:  DENIED (deny:^rm )",
      'Reason:    command not allowed on "web01" by command_policy (deny:^rm )',
      'To allow:  deny rule "^rm " of policy base always wins: narrow or remove it',
      '           add allow "^rm -rf /$" to policy nginx or <inline>',
      '           add allow "^id$" to policy nginx or <inline>',
      "",
    ].join("\n").replaceAll(/ $/gm, ""),
  );
  const json = JSON.parse((await run(folder.path, ...args, "--json")).out);
  const denied = { command: "rm -rf /", verdict: "denied", rule: "deny:^rm ", policies: ["base"] };
  assert.deepEqual([json.steps[2], json.changes.length], [denied, 3]);
  assert.deepEqual([json.decision.allowed, json.decision.matched_rule], [false, "deny:^rm "]);
});

interface Row {
  readonly name: string;
  readonly host?: string;
  readonly flags: string | string[];
  readonly shows: RegExp;
}

Deno.test.each<Row>([
  {
    name: "an allowed command",
    flags: ["--command", "systemctl status nginx"],
    shows:
      /Decision: {2}ALLOWED \(allow:\^systemctl status nginx\$\)\nRuns: {6}systemctl status nginx\nValid for: 300s\n$/,
  },
  {
    name: "a command that needs approval",
    flags: ["--command", "ps -ef"],
    shows:
      /1\. {2}ps -ef {2}approval {2}require_approval:\^ps -ef {2}in nginx\nDecision: {2}ALLOWED, requires approval/,
  },
  {
    name: "a denied shell structure",
    flags: ["--command", "id $(id)"],
    shows:
      /denied {2}shell-parse:command substitution\nDecision: {2}DENIED \(shell-parse:command substitution\)[^]*To allow: {2}no change of the config is enough\n$/,
  },
  {
    name: "a command with escape sequences",
    flags: ["--command", "ps \x1b[2J"],
    shows: /ps \\x1b\[2J/,
  },
  {
    name: "elevation",
    flags: ["--command", "systemctl status nginx", "--sudo"],
    shows: /Runs: {6}sudo -n -- systemctl status nginx\n/,
  },
  {
    name: "a caller outside the host's groups",
    flags: ["--command", "ps aux", "--caller", "broker-2"],
    shows:
      /DENIED \(—\)\nReason: {4}host not authorised\nTo allow: {2}the caller is missing from group web or all: add it to callers\.broker-2\.allowed_groups\n/,
  },
  {
    name: "a caller outside the groups of a host without a list of callers",
    host: "raw",
    flags: ["--command", "uptime", "--caller", "broker-1"],
    shows:
      /To allow: {2}the caller is missing from group raw: add it to callers\.broker-1\.allowed_groups\n$/,
  },
  {
    name: "an end user in no group",
    flags: ["--command", "ps aux", "--end-user", "ann", "--end-user-groups", ""],
    shows: /user "ann" not authorised[^]*To allow: {2}the end user is missing from group web or all\n$/,
  },
  {
    name: "a new shell session on a host with rules",
    flags: "--session-mode shell",
    shows: /sessions require mode="exec"/,
  },
  {
    name: "a command allowed by audit mode",
    host: "watched",
    flags: ["--command", "reboot now"],
    shows:
      /denied {2}allowlist:no-match {2}in watch\nDecision: {2}ALLOWED with audit warning \(would deny and would require approval\)/,
  },
])("policy explain evaluates $name", async ({ host = "web01", flags, shows }) => {
  await using folder = await createConfig();
  const result = await run(folder.path, "policy explain", "--host", host, ...words(flags));
  assert.match(result.out, shows);
  assert.match(result.out, /^(?:\P{C}|\n)*$/u);
  assert.deepEqual([result.err, result.exit], ["", 0], "whatever the decision");
});

Deno.test.each<{ name: string; flags: string | string[]; error: RegExp; exit?: number }>([
  {
    name: "an unknown host",
    flags: "--host nowhere",
    error: /Cannot find host "nowhere" .*\nfix: .*host list/,
    exit: 1,
  },
  { name: "an inherited name", flags: "--host constructor", error: /Cannot find host/, exit: 1 },
  { name: "an empty command", flags: ["--host web01 --command", ""], error: /empty command/ },
  {
    name: "--caller without --command",
    flags: "--host web01 --caller x",
    error: /'--caller' has no effect without --command/,
  },
  { name: "no host", flags: "", error: /--host/ },
])("policy explain rejects $name", async ({ flags, error, exit = 2 }) => {
  await using folder = await createConfig();
  const result = await run(folder.path, "policy explain", ...words(flags));
  assert.match(result.err, error);
  assert.deepEqual([result.out, result.exit], ["", exit]);
});

Deno.test("policy explain rejects a config with an unknown key", async () => {
  await using folder = await createConfig({ host: {} });
  const result = await run(folder.path, "policy explain --host web01");
  assert.match(result.err, /unknown key "host"/);
  assert.deepEqual([result.out, result.exit], ["", 1]);
});

const CONFIG_CLUSTER = {
  ...SIGNER_KEYS,
  callers: { "broker-1": { allowed_groups: ["ops"] }, "broker-2": { allowed_groups: [] } },
  kubernetes: {
    clusters: {
      prod: {
        api_server: "https://10.0.0.5:6443/",
        ca_cert: "ca.crt",
        token_file: "token",
        groups: ["ops"],
        allowed_callers: ["broker-1"],
        token_ttl_seconds: 900,
        token_binding: { namespace: "gateway" },
        sa_bindings: [
          { groups: ["dba"], namespace: "gateway", service_account: "dba" },
          { namespace: "gateway", service_account: "agent" },
        ],
        rules: [
          { verbs: ["get", "list"], namespaces: ["web"], effect: "allow" },
          { verbs: ["apply"], resources: ["deployments"], namespaces: ["web"], effect: "require_approval" },
          { resources: ["secrets"], effect: "deny" },
          { verbs: ["get"], resources: ["configmaps"], effect: "allow", reveal: true },
        ],
      },
    },
  },
};

async function explain(...flags: string[]) {
  await using folder = await createFolder();
  await Deno.writeTextFile(join(folder.path, "signer.json"), JSON.stringify(CONFIG_CLUSTER));
  return await run(folder.path, "policy", "explain", ...flags);
}

Deno.test("policy explain prints rules, accounts and tokens of a cluster", async () => {
  assert.deepEqual(await explain("--cluster", "prod"), {
    out: [
      "Cluster:   prod (https://10.0.0.5:6443)",
      "Groups:    ops",
      "Rules:",
      "  EFFECT            VERBS     RESOURCES    NAMESPACES  NAMES",
      "  allow             get,list  *            web         *",
      "  require_approval  apply     deployments  web         *",
      "  deny              *         secrets      *           *",
      "  allow             get       configmaps   *           *      reveal",
      "Accounts:",
      "  gateway/dba  for dba",
      "  gateway/agent  for everyone",
      "Tokens:    900s, revoked by a freeze",
      "",
    ].join("\n"),
    err: "",
    exit: 0,
  });
});

Deno.test.each<{ name: string; flags: string[]; lines: readonly string[] }>([
  {
    name: "an allowed action",
    flags: ["--action", "get pods web/shop-1"],
    lines: [
      "Action:    get pods web/shop-1",
      String.raw`Decision:  ALLOWED (allow:^(?:get|list) (?:[^ ]+) (?:web)/(?:[^ ]+)$)`,
      "Rule:      kubernetes.clusters.prod.rules[0]",
      "Account:   gateway/agent",
      "Valid for: 900s",
    ],
  },
  {
    name: "an action that requires approval, with the account of the end user's group",
    flags: ["--action", "apply deployments web/shop", "--end-user-groups", "dba,ops"],
    lines: [
      "Action:    apply deployments.apps web/shop",
      String
        .raw`Decision:  ALLOWED, requires approval (require_approval:^(?:apply) (?:deployments\.apps) (?:web)/(?:[^ ]+)$)`,
      "Rule:      kubernetes.clusters.prod.rules[1]",
      "Account:   gateway/dba",
      "Valid for: 900s",
    ],
  },
  {
    name: "a denied action, with the rule hidden from agents",
    flags: ["--action", "list secrets web"],
    lines: [
      "Action:    list secrets web/-",
      String.raw`Decision:  DENIED (deny:^(?:[a-z]+) (?:secrets) (?:[^ /]+)/(?:[^ ]+)$)`,
      "Rule:      kubernetes.clusters.prod.rules[2]",
      "Reason:    not allowed by cluster policy",
    ],
  },
  {
    name: "an action without a rule",
    flags: ["--action", "get pods db/a", "--end-user-groups", ""],
    lines: [
      "Action:    get pods db/a",
      "Decision:  DENIED (—)",
      'Reason:    user "" not authorised for "prod" (groups)',
    ],
  },
  {
    name: "an action on an unknown resource",
    flags: ["--action", "get gizmos web/a"],
    lines: [
      "Action:    get gizmos web/a",
      "Decision:  DENIED (—)",
      `Reason:    unknown k8s resource "gizmos": not in the core table nor this cluster's extra_resources`,
    ],
  },
])("policy explain evaluates for a cluster: $name", async ({ flags, lines }) => {
  const { out, err, exit } = await explain("--cluster", "prod", ...flags);
  assert.deepEqual([err, exit], ["", 0]);
  assert.deepEqual(out.trimEnd().split("\n").slice(13), lines);
});

Deno.test("policy explain lists all changes that a denied request needs", async () => {
  const nginx = { ...CONFIG.command_policies.nginx, require_approval: ["^ls "] };
  const host = { ...CONFIG.hosts.web01, allow_sudo: false };
  const command = [
    "--command",
    "id; ls /a.b",
    "--caller",
    "x",
    "--sudo",
    "--sudo-user",
    "db",
    "--end-user-groups",
    "ops",
  ];
  const ask = async (keys: object) => {
    await using folder = await createConfig(keys);
    return (await run(folder.path, "policy explain", "--host", "web01", ...command)).out;
  };
  const denied = await ask({
    hosts: { web01: host },
    command_policies: { ...CONFIG.command_policies, nginx },
  });
  assert.deepEqual(denied.trimEnd().split("\n").slice(-8).map((line) => line.slice(11)), [
    "the caller is missing from group web or all: add it to callers.x.allowed_groups",
    "add the caller to hosts.web01.allowed_callers",
    "the end user is missing from group web or all",
    "set hosts.web01.allow_sudo to true",
    'add "db" to hosts.web01.allowed_sudo_users',
    'add allow "^id$" to policy nginx or <inline>',
    'add allow "^ls /a\\\\.b$" to policy nginx or <inline>',
    "get an approval",
  ]);
  command[command.length - 1] = "web";
  const allowed = await ask({
    callers: { x: { allowed_groups: ["web"] } },
    hosts: { web01: { ...host, allowed_callers: ["x"], allow_sudo: true, allowed_sudo_users: ["db"] } },
    command_policies: { ...CONFIG.command_policies, nginx: { ...nginx, allow: ["^id$", "^ls /a\\.b$"] } },
  });
  assert.match(allowed, /Decision: {2}ALLOWED, requires approval \(require_approval:/);
  assert.doesNotMatch(allowed, /To allow/);
});

Deno.test("policy explain --json prints the signer's decision on a cluster action and the rule", async () => {
  const { out } = await explain("--cluster", "prod", "--action", "list secrets web", "--json");
  const { cluster, action, decision } = JSON.parse(out);
  assert.deepEqual([cluster, action], ["prod", "list secrets web/-"]);
  assert.equal(decision.allowed, false);
  assert.match(decision.matched_rule, /^deny:/);
});

Deno.test.each<{ name: string; flags: string | string[]; error: RegExp; exit?: number }>([
  {
    name: "an unknown cluster",
    flags: "--cluster dev",
    error: /"dev" in the config\nfix: broker-ctl cluster list/,
    exit: 1,
  },
  { name: "an inherited name", flags: "--cluster constructor", error: /Cannot find cluster/, exit: 1 },
  {
    name: "a command on a cluster",
    flags: "--cluster prod --command id",
    error: /'--command' has no effect with --cluster/,
  },
  { name: "an action that can't be read", flags: "--cluster prod --action get", error: /Cannot read action/ },
])("policy explain rejects $name", async ({ flags, error, exit = 2 }) => {
  const result = await explain(...words(flags));
  assert.match(result.err, error);
  assert.deepEqual([result.out, result.exit], ["", exit]);
});
