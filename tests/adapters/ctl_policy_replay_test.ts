import assert from "node:assert/strict";
import type { AuditEntry } from "@gateway/shared/audit";
import { SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { LogFolder, NOW } from "./audit_fixture.ts";
import { run, SIGNER_KEYS, words } from "./ctl_fixture.ts";

const HOST = { addr: "10.0.0.1:22", user: "deploy", host_key: SAMPLE_HOST_KEY, principal: "host:web01" };
const config = (allow: readonly string[], approve: readonly string[] = []) => ({
  ...SIGNER_KEYS,
  audit_log: "audit.log",
  trusted_forwarders: ["control-plane"],
  hosts: { web01: { ...HOST, groups: ["web"] } },
  command_policies: { web: { mode: "allowlist", allow, require_approval: approve, shell_parse: false } },
  group_command_policies: { web: ["web"] },
});
const FILES = {
  "signer.json": config(["^uptime$", "^echo "]),
  "new.json": config(["^uptime$", "^id$"], ["^uptime$"]),
  // The default reads the log of the signer only.
  "config.json": { ...SIGNER_KEYS, audit_log: "broker.log" },
  "unused.json": { ...SIGNER_KEYS, audit_log: "unused.log" },
  "broker.log": { time: "not a record" },
};
const record = (command_line: string, outcome = "allowed"): AuditEntry => ({
  ...{ caller: "broker-1", host: HOST.addr, host_name: "web01", principal: HOST.principal, command_line },
  command: "role=target purpose=oneshot user=alice",
  outcome: outcome === "denied" ? "denied" : "issued",
  decision: JSON.stringify({ outcome, groups: ["web"], via: "control-plane" }),
});

/** An installation with a log of ten days and of now, of which the older part is rotated. */
async function createInstallation() {
  const folder = new LogFolder();
  folder.now = NOW - 10 * 86_400_000;
  const redact = (text: string) => text.replace("s3cret", "[REDACTED:test]");
  const log = await folder.open({ redact });
  for (const command of ["uptime", "uptime", "echo \x1b[2J", "echo s3cret"]) {
    await log.append(record(command));
  }
  await log.close();
  await Deno.rename(folder.path, `${folder.path}.20251223T030405Z`);
  folder.now = NOW;
  const next = await folder.open({ redact });
  await next.append(record("id", "denied"));
  await next.append({ outcome: "reloaded", command: "reload hosts=1" });
  await next.append({ ...record("uptime"), decision: "" });
  await next.close();
  for (const [name, content] of Object.entries(FILES)) {
    await Deno.writeTextFile(`${folder.folder}/${name}`, JSON.stringify(content));
  }
  return folder;
}

Deno.test.each<[line: string, exit: number, out: readonly (string | RegExp)[], err: string]>([
  ["policy replay new.json", 3, [
    /^HOST +CALLER +CHANGE +RECORDS +RULE +EXAMPLE$/,
    /^web01 +broker-1 +approval newly needed +2 +require_approval:\^uptime\$ +uptime$/,
    /^web01 +broker-1 +would have been denied +1 +allowlist:no-match +echo \\x1b\[2J$/,
    /^web01 +broker-1 +newly allowed +1 +allow:\^id\$ +id$/,
    "6 records of requests, from 2025-12-23T03:04:05Z to 2026-01-02T03:04:05Z:",
    "    0 unchanged",
    "    2 approval newly needed",
    "    1 would have been denied",
    "    1 newly allowed",
    /^ {4}1 not judged: .*masked/,
    /^ {4}1 not judged: .*earlier release/,
  ], ""],
  ["policy replay signer.json --until 2025-12-31", 0, [
    "The config decides no judged request differently.",
    /^4 records/,
    "    3 unchanged",
    /^ {4}1 not judged: .*masked/,
  ], ""],
  [
    "policy replay signer.json --host gone",
    0,
    ["No request was found: nothing is known about the config."],
    "",
  ],
  ["policy replay new.json --since 2026-01-01 --json", 3, [
    /"records":2,.*"changes":\[\{"from":"denied","to":"allowed"/,
  ], ""],
  ["policy replay new.json --config unused.json", 1, [], "fix: pass --log <file>"],
  ["policy replay signer.json --log gone.log", 1, [], "no such file"],
  ["policy replay gone.json", 1, [], "no such file"],
  ["policy replay new.json --config config.json", 0, [/^No request/, /^1 malformed/], ""],
  ["policy replay", 2, [], "Missing required argument"],
])("broker-ctl %s exits with %i", async (line, exit, out, err) => {
  await using log = await createInstallation();
  const ran = await run(log.folder, ...words(line));
  assert.equal(ran.exit, exit, ran.err);
  const lines = ran.out.split("\n").slice(0, -1);
  assert.equal(lines.length, out.length, ran.out);
  out.forEach((expected, index) => {
    if (typeof expected === "string") assert.equal(lines[index], expected);
    else assert.match(lines[index] ?? "", expected);
  });
  assert.ok(err === "" ? ran.err === "" : ran.err.includes(err), ran.err);
});
