import assert from "node:assert/strict";
import { join } from "node:path";
import { SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { run, SIGNER_KEYS, withConfig, words } from "./ctl_fixture.ts";
import { createOperator } from "./ctl_signer_fixture.ts";
import { startServer } from "./mtls_fixture.ts";

const host = (name: string, command_policy: object) => ({
  ...{ addr: "10.0.0.1:22", user: "a", host_key: SAMPLE_HOST_KEY, principal: `host:${name}` },
  groups: ["web"],
  command_policy,
});

/** `web02`, `web03` and the policy of the group have risks that no change below concerns. */
const CONFIG = {
  ...SIGNER_KEYS,
  callers: { "broker-1": { allowed_groups: ["web"] } },
  command_policies: { web: { mode: "allowlist", allow: ["^find "] } },
  group_command_policies: { web: ["web"] },
  hosts: {
    web01: host("web01", { mode: "allowlist", allow: ["^tar ", "^uptime$"], deny: ["^tar "] }),
    web02: host("web02", { mode: "allowlist", allow: ["^sed "] }),
    web03: {
      ...host("web03", { mode: "allowlist", allow: ["^git ", "^sed "], require_approval: ["^rsync "] }),
      jump: "web02",
    },
  },
};

/** The patterns of the warnings of an output, each once, without other lines. */
const warnedOf = (
  out: string,
) => [
  ...new Set(
    Array.from(out.matchAll(/^warning: \S+ "(?<pattern>.*)": /gm), ({ groups }) => groups?.["pattern"]),
  ),
];

const NEW = `host add --name new --addr 10.0.0.9:22 --user a --groups web --host-key`;

Deno.test.each<[name: string, args: readonly (string | readonly string[])[], warned: readonly string[]]>([
  ["a new pattern", ["host edit web01", ["--allow", "^tar ,^uptime$,^awk ,^cp "]], ["^awk ", "^cp "]],
  ["a pattern whose denial is removed", ["host edit web01", ["--deny", ""]], ["^tar "]],
  ["the patterns of a new host", [NEW, [SAMPLE_HOST_KEY, "--policy-mode", "allowlist", "--allow", "^scp "]], [
    "^scp ",
  ]],
  ["a host behind a bastion", ["host edit web03", ["--allow", "^git ,^sed ,^scp "]], ["^scp "]],
  ["nothing about a pattern that needs an approval", ["host edit web03", ["--allow", "^git ,^rsync "]], []],
  [
    "nothing about patterns that have no effect",
    ["host edit web02 --policy-mode off", ["--allow", "^tar "]],
    [],
  ],
  ["nothing about a new host without patterns", [NEW, [SAMPLE_HOST_KEY]], []],
  ["nothing about another field", ["host edit web02 --ttl 60"], []],
  ["nothing about a removed pattern", ["host edit web03", ["--allow", "^sed "]], []],
  ["the rule that decided", ["policy explain --host web03", ["--command", "git log"]], ["^git "]],
  ["nothing about a rule that denied", ["policy explain --host web01", ["--command", "tar x"]], []],
])("host and explain warn about %s", async (_name, args, warned) => {
  await using config = await withConfig(JSON.stringify(CONFIG));
  const [line, more = []] = args;
  const { out, err, exit } = await config.ctl(...words([String(line), ...more]));
  assert.deepEqual([exit, err], [0, ""]);
  assert.deepEqual(warnedOf(out), warned);
  const lines = out.split("\n");
  const shown = lines.filter((line) => /^(?:warning:| {4}(?:allows|instead):)/.test(line));
  assert.ok(shown.length <= 3 * lines.filter((line) => line.startsWith("warning:")).length);
});

/** Runs a command with a signer that answers this, and with its config or without. */
async function ask(answer: object, args: readonly string[], hasConfig = true) {
  await using server = await startServer(() => Response.json(answer));
  await using folder = await createOperator(server);
  if (hasConfig) await Deno.writeTextFile(join(folder.path, "signer.json"), JSON.stringify(CONFIG));
  return await run(folder.path, ...args, "--client-config", join(folder.path, "client.json"));
}

const EDITED = { status: "ok", host: "x", hosts: 1, id: "0", expires_at: "2026-01-02T05:04:05Z" };

Deno.test.each<
  [list: string, name: string, pattern: string, warned: readonly string[], withoutConfig: readonly string[]]
>([
  ["--allow", "web02", "^tar ", ["^tar "], ["^tar "]],
  ["--allow", "web02", "^date$", [], []],
  ["--deny", "web02", "^tar ", [], []],
  // Without the allow rules, an approval cannot be judged.
  ["--require-approval", "web02", "^reboot$", ["^reboot$"], []],
])("policy add %s on %s warns about %s", async (list, name, pattern, warned, withoutConfig) => {
  const args = ["policy", "add", "--host", name, list, pattern];
  const [known, unknown] = [await ask(EDITED, args), await ask(EDITED, args, false)];
  assert.deepEqual([known.exit, unknown.exit], [0, 0], known.err);
  assert.deepEqual([warnedOf(known.out), warnedOf(unknown.out)], [warned, withoutConfig]);
});

Deno.test("policy add warns differently if deny rules of the host reject the pattern", async () => {
  const args = ["policy", "add", "--host", "web01", "--allow", "^tar "];
  assert.match((await ask(EDITED, args)).out, /no command can match it, or deny rules deny them all/);
  assert.match((await ask(EDITED, args, false)).out, /tar runs any command/);
});

Deno.test("policy grant warns about each pattern, and policy remove about none", async () => {
  const grant = ["policy", "grant", "--host", "web02", "--allow", "^tar ", "--allow", "^date$"];
  assert.deepEqual(warnedOf((await ask(EDITED, grant)).out), ["^tar "]);
  assert.deepEqual(JSON.parse((await ask(EDITED, [...grant, "--json"])).out).findings[0].kind, "escape");
  assert.deepEqual(
    warnedOf((await ask(EDITED, ["policy", "remove", "--host", "web02", "--allow", "^sed "])).out),
    [],
  );
});

Deno.test("reload warns about the patterns that it brought, and names those that it cannot analyze", async () => {
  const reload = (new_patterns: readonly string[], hasConfig?: boolean) =>
    ask({ status: "ok", hosts: 3, new_patterns }, ["reload"], hasConfig);
  const { out } = await reload(["^git ", "^uptime$", "^elsewhere$"]);
  assert.deepEqual(warnedOf(out), ["^git "]);
  assert.match(
    out,
    /^warning: hosts\.web03\.command_policy\.allow\[0\] "\^git ": git .*\n {4}allows: {2}git /m,
  );
  assert.match(
    out,
    /new patterns not analyzed: 1; with the signer's config: broker-ctl policy lint --config FILE\n$/,
  );
  assert.match((await reload(["^git "], false)).out, /\(hosts: 3\)\nnew patterns not analyzed: 1;/);
  assert.equal((await reload([])).out, "signer reloaded via HTTP (hosts: 3)\n");
});

Deno.test("doctor reports each risk of the policy with a command", async () => {
  await using config = await withConfig(JSON.stringify(CONFIG));
  const { findings } = JSON.parse((await config.ctl("doctor", "--security", "--json")).out) as {
    findings: readonly { level: string; check: string; fix: string }[];
  };
  const found = findings.filter(({ fix }) => fix.includes("policy lint"));
  assert.deepEqual([...new Set(found.map(({ check }) => check.split(" ")[0]))], [
    "command_policies.web.allow[0]",
    "hosts.web01.command_policy.allow[0]",
    "hosts.web02.command_policy.allow[0]",
    "hosts.web03.command_policy.allow[0]",
    "hosts.web03.command_policy.allow[1]",
    "hosts.web03.command_policy.require_approval[0]",
  ]);
  assert.ok(found.every(({ level }) => level === "warn"));
  const text = (await config.ctl("doctor", "--security")).out;
  assert.match(
    text,
    /(?:\[WARN\] .*\[0\] "\^.*\n){5} {7}and 6 more\n {7}fix: broker-ctl policy lint --config/,
  );
});
