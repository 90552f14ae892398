import assert from "node:assert/strict";
import { compileSample, decideSample, sampleConfig } from "../testing/sample_policy.ts";
import { visibleHosts } from "./host_rules.ts";
import type { SshIntent } from "./ssh.ts";
import type { HostPolicy } from "./model.ts";
import { stopOnDisconnect } from "./stop_on_disconnect.ts";

const STOPS: Partial<HostPolicy> = {
  stop_on_disconnect: true,
  allow_sudo: true,
  allow_pty: true,
  allow_file_transfer: true,
};

function forceCommand(host: Partial<HostPolicy>, fields: Partial<SshIntent>): string {
  const decision = decideSample(host, fields);
  assert(decision.kind === "allowed", decision.kind === "denied" ? decision.reason : "");
  return decision.forceCommand;
}

Deno.test("stopOnDisconnect() quotes the command as one word, its last", () => {
  for (const command of ["uptime", "echo 'a' # b", "a; b & c", "$(x) `y`", "", "x'", "-x", "\\"]) {
    const word = `'${command.replaceAll("'", "'\\''")}'`;
    assert.ok(stopOnDisconnect("", command).endsWith(` stop_on_disconnect ${word}`), command);
  }
});

Deno.test("stopOnDisconnect() has the same text in front of every command", () => {
  const [front] = stopOnDisconnect("", "MARK").split("'MARK'");
  assert.equal(stopOnDisconnect("", "exit 1; $1"), `${front}'exit 1; $1'`);
  assert.ok(!front?.includes("\n"));
});

Deno.test.each([
  { name: "a command", fields: {}, begins: "exec /bin/sh -c '" },
  { name: "sudo", fields: { sudo: true }, begins: "exec sudo -n -- /bin/sh -c '" },
])("decideSsh() bakes in what stops $name with its connection (K16)", ({ fields, begins }) => {
  const baked = forceCommand(STOPS, fields);
  assert.ok(baked.startsWith(begins), baked);
  assert.ok(baked.endsWith(" stop_on_disconnect 'uptime'"), baked);
});

Deno.test.each<[name: string, host: Partial<HostPolicy>, fields: Partial<SshIntent>, baked: string]>([
  ["without the key", { allow_sudo: true }, {}, "uptime"],
  ["without the key, elevated", { allow_sudo: true }, { sudo: true }, "sudo -n -- uptime"],
  ["with the key off", { stop_on_disconnect: false }, {}, "uptime"],
  ["for a terminal", STOPS, { pty: true }, "uptime"],
  ["for a terminal, elevated", STOPS, { pty: true, sudo: true }, "sudo -n -- uptime"],
  ["for a file transfer", STOPS, { fileTransfer: true }, "uptime"],
  ["for a session", STOPS, { purpose: "session", sessionMode: "exec", command: "" }, ""],
])("decideSsh() changes nothing %s", (_name, host, fields, baked) => {
  assert.equal(forceCommand(host, fields), baked);
});

Deno.test("decideSsh() decides on the command and not on what it is baked into", () => {
  const command_policy = { mode: "allowlist", allow: ["^uptime$"], deny: ["kill", "sh", "exec"] } as const;
  assert.ok(forceCommand({ ...STOPS, command_policy }, {}).endsWith("'uptime'"));
  const denied = decideSample({ ...STOPS, command_policy }, { command: "kill 1" });
  assert.equal(denied.kind, "denied");
});

Deno.test.each([
  { host: { stop_on_disconnect: true }, shown: true },
  { host: { stop_on_disconnect: false }, shown: undefined },
  { host: {}, shown: undefined },
])("visibleHosts() tells the broker of stop_on_disconnect: $shown", ({ host, shown }) => {
  const hosts = visibleHosts(compileSample(sampleConfig(host)), "broker-1");
  assert.equal(hosts["web01"]?.stop_on_disconnect, shown);
});
