import assert from "node:assert/strict";
import { compileSample, decideSample, sampleConfig, sampleHost } from "../testing/sample_policy.ts";
import { compilePolicy } from "./compile.ts";
import { type HostPolicy, hostPolicy } from "./model.ts";
import { finish } from "../clock.ts";
import { describeSharedPrincipals, describeUnsealedTwins, findUnsharedPrincipals } from "./warnings.ts";
import { toWireDecision } from "./ssh.ts";

const SEALED: Partial<HostPolicy> = { sealed_exec: true };
const EXEC = { purpose: "session", sessionMode: "exec", command: "" };

Deno.test.each<[name: string, keys: Partial<HostPolicy>, path: string]>([
  ["a domain without a format", { envelope_domain: "x" }, "hosts.web01.envelope_domain"],
  ["a domain for v2", { envelope: "v2", envelope_domain: "x" }, "hosts.web01.envelope_domain"],
  ["a domain for v3", { envelope: "v3", envelope_domain: "x" }, "hosts.web01.envelope_domain"],
])("compilePolicy() refuses %s", (_name, keys, path) => {
  const compiled = compilePolicy(sampleConfig({ ...SEALED, ...keys }));
  assert(compiled.kind === "invalid");
  assert.deepEqual(compiled.problems.map((problem) => problem.split(":")[0]), [path]);
});

Deno.test.each([
  { name: "web01", valid: true },
  { name: "Web.01_a-b", valid: true },
  { name: "0", valid: true },
  { name: "x".repeat(64), valid: true },
  { name: "x".repeat(65), valid: false },
  { name: "-web01", valid: false },
  { name: ".web01", valid: false },
  { name: "web01;id", valid: false },
  { name: "$(id)", valid: false },
  { name: "wéb", valid: false },
])("compilePolicy() takes $name as a sealed host's name: $valid", ({ name, valid }) => {
  const compiled = compilePolicy({ ...sampleConfig(), hosts: { [name]: sampleHost(SEALED) } });
  assert.equal(compiled.kind, valid ? "ok" : "invalid");
});

Deno.test.each([
  { keys: { envelope: "v3" }, valid: true },
  { keys: { envelope: "v4" }, valid: false },
  { keys: { sealed_exec: false }, valid: true },
  { keys: { sealed_exec: "yes" }, valid: false },
  { keys: { envelope: "v1", envelope_domain: "other product v1" }, valid: true },
  { keys: { envelope: "v1", envelope_domain: "" }, valid: false },
  { keys: { envelope: "v1", envelope_domain: "a\u0000b" }, valid: false },
  { keys: { envelope: "v1", envelope_domain: "a\nb" }, valid: false },
  { keys: { shim_command: "/usr/local/bin/other-shim" }, valid: true },
  { keys: { shim_command: "gateway shim" }, valid: false },
  { keys: { shim_command: "" }, valid: false },
  { keys: { shim_command: "-c" }, valid: false },
  { keys: { shim_command: "shim;id" }, valid: false },
  { keys: { shim_command: "A=b" }, valid: false },
])("a host with $keys is valid: $valid", ({ keys, valid }) => {
  assert.equal(hostPolicy.safeParse({ ...sampleHost(), ...keys }).success, valid);
});

Deno.test.each([
  ["a session", "gateway-shim web01", SEALED, EXEC],
  ["a session, whatever command is sent with it", "gateway-shim web01", SEALED, {
    ...EXEC,
    command: "uptime",
  }],
  ["a session, elevated", "gateway-shim web01", { ...SEALED, allow_sudo: true }, { ...EXEC, sudo: true }],
  [
    "a session under another build's shim",
    "other-shim web01",
    { ...SEALED, envelope: "v1", shim_command: "other-shim" } as const,
    EXEC,
  ],
  ["a one-shot", "uptime", SEALED, {}],
  ["a bastion", "gateway-shim web01", { ...SEALED, allow_as_bastion: true }, { role: "bastion" }],
  ["an unsealed session", undefined, { sealed_exec: false }, EXEC],
])("the certificate of %s is locked to %s", (_name, forced, host, intent) => {
  assert.equal(toWireDecision(decideSample(host, intent)).force_command, forced);
});

Deno.test.each([{ mode: "shell" }, { mode: "pty" }, { mode: "" }, { mode: "other" }])(
  "a sealed host refuses a session of mode '$mode', also without rules",
  ({ mode }) => {
    const decision = decideSample({ ...SEALED, allow_pty: true }, { ...EXEC, sessionMode: mode });
    assert(decision.kind === "denied");
    assert.equal(decision.reason, 'host "web01" has sealed_exec: sessions require mode="exec"');
  },
);

Deno.test("a sealed host refuses a terminal in its sessions, which a program reads past any envelope", () => {
  const decision = decideSample({ ...SEALED, allow_pty: true }, {
    ...EXEC,
    command: "less /etc/motd",
    pty: true,
  });
  assert(decision.kind === "denied");
  assert.equal(
    decision.reason,
    'host "web01" has sealed_exec: sessions have no PTY; use a one-shot command',
  );
});

Deno.test.each([
  ["nothing", {}, {}, "none"],
  ["nothing, where a digest comes without a transfer", {}, { contentSha256: "ab" }, "none"],
  ["nothing in a transfer without a digest", {}, { fileTransfer: true }, "none"],
  ["the content that a transfer says", {}, { fileTransfer: true, contentSha256: "ab" }, "ab"],
  ["the end of its connection", { stop_on_disconnect: true }, {}, "watch"],
])("the envelope lets a command read %s", (_name, host, intent, stdin) => {
  const keys = { ...SEALED, allow_file_transfer: true, ...host };
  const decision = decideSample(keys, { ...EXEC, command: "cat", ...intent });
  assert(decision.kind === "allowed");
  assert.equal(decision.sealedStdin, stdin);
});

Deno.test("a sealed bastion's hop in front of a session needs no mode", () => {
  const host = { ...SEALED, allow_as_bastion: true };
  assert.equal(decideSample(host, { role: "bastion", purpose: "session", sessionMode: "" }).kind, "allowed");
});

Deno.test.each([
  ["as it is", SEALED, {}, "ls\nid"],
  [
    "elevated",
    { ...SEALED, allow_sudo: true },
    { sudo: true, command: "systemctl restart nginx" },
    "sudo -n -- systemctl restart nginx",
  ],
  ["not at a session's opening", SEALED, { command: "" }, ""],
  ["not of a one-shot", SEALED, { purpose: "oneshot", command: "ls" }, ""],
  ["not for a bastion", { ...SEALED, allow_as_bastion: true }, { role: "bastion" }, ""],
  ["not on an unsealed host", {}, {}, ""],
])("the command goes into an envelope %s", (_name, host, intent, sealed) => {
  const decision = decideSample(host, { ...EXEC, command: "ls\nid", ...intent });
  assert(decision.kind === "allowed");
  assert.equal(decision.sealedCommand, sealed);
});

Deno.test("a command that is to end with its connection watches it from its envelope, too", () => {
  const keys = { stop_on_disconnect: true };
  const session = decideSample({ ...SEALED, ...keys }, { ...EXEC, command: "uptime" });
  const oneshot = decideSample(keys, { command: "uptime" });
  assert(session.kind === "allowed" && oneshot.kind === "allowed");
  assert.equal(session.sealedCommand, oneshot.forceCommand);
});

Deno.test.each([{ host: SEALED, kind: "denied" }, { host: {}, kind: "allowed" }])(
  "a NUL in a session's command on $host is $kind",
  ({ host, kind }) => {
    assert.equal(decideSample(host, { ...EXEC, command: "id\0; reboot" }).kind, kind);
  },
);

Deno.test("half a surrogate pair is what is decided, and sealed, as U+FFFD", () => {
  const decision = decideSample(SEALED, { ...EXEC, command: "echo \ud800" });
  assert(decision.kind === "allowed");
  assert.equal(decision.sealedCommand, "echo \ufffd");
});

const owned = (principal: string, shared_principal?: boolean) => ({
  principal,
  ...(shared_principal !== undefined && { shared_principal }),
});

Deno.test.each([
  ["different ones", { a: owned("p"), b: owned("q") }, [], 0],
  ["none at all", { a: owned(""), b: owned(""), c: {} }, [], 0],
  ["one", { a: owned("p"), b: owned("p") }, ["a", "b"], 1],
  ["one that a single host wants to share", { a: owned("p", true), b: owned("p") }, ["b"], 1],
  [
    "one that a host does not want to share",
    { a: owned("p", true), b: owned("p", false), c: owned("p", true) },
    ["b"],
    1,
  ],
  ["one that all want to share", { a: owned("p", true), b: owned("p", true), c: owned("q") }, [], 1],
  ["one but for its case", { a: owned("p"), b: owned("P") }, [], 0],
])("hosts whose principals are %s", (_name, hosts, paths, warnings) => {
  const problems = finish(findUnsharedPrincipals(hosts));
  assert.deepEqual(
    problems.map((problem) => problem.split(":")[0]),
    paths.map((name) => `hosts.${name}.principal`),
  );
  assert.equal(finish(describeSharedPrincipals(hosts)).length, warnings);
});

Deno.test("compilePolicy() refuses hosts with one principal, and takes them where both say so", () => {
  const config = (shared: boolean) => ({
    ...sampleConfig(),
    hosts: {
      web01: sampleHost({ shared_principal: true }),
      web02: sampleHost({ shared_principal: shared }),
    },
  });
  const refused = compilePolicy(config(false));
  assert(refused.kind === "invalid");
  assert.equal(refused.problems.length, 1);
  assert.match(refused.problems.join(), /^hosts\.web02\.principal: "host:web01" is also that of "web01"/);
  assert.equal(compileSample(config(true)).hosts.size, 2);
});

const account = (addr: string, user: string, sealed_exec?: boolean) => ({
  ...{ addr, user },
  ...(sealed_exec !== undefined && { sealed_exec }),
});

Deno.test.each([
  ["another account", [], account("10.0.0.1:22", "app")],
  ["another address", [], account("10.0.0.2:22", "deploy")],
  ["the same account, sealed", [], account("10.0.0.1:22", "deploy", true)],
  ["the same account, not sealed", ["hosts.web"], account("10.0.0.1:22", "deploy", false)],
  ["no address, like another", [], account("", "deploy", false)],
])("a name of %s beside a sealed host's: warned of %s", (_name, warned, web) => {
  const sealed = { web01: account("10.0.0.1:22", "deploy", true), db01: account("", "deploy", true) };
  const found = finish(describeUnsealedTwins({ ...sealed, web }));
  assert.deepEqual(found.map((text) => text.split(":")[0]), warned);
});
