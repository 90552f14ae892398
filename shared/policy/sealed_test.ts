import assert from "node:assert/strict";
import { compileSample, decideSample, sampleConfig, sampleHost } from "../testing/sample_policy.ts";
import { compilePolicy } from "./compile.ts";
import { type HostPolicy, hostPolicy } from "./model.ts";
import { finish } from "../clock.ts";
import { describeSharedPrincipals, describeUnsealedTwins, findUnsharedPrincipals } from "./warnings.ts";
import { toWireDecision } from "./ssh.ts";

const SEALED: Partial<HostPolicy> = { sealed_exec: true };
const EXEC = { purpose: "session", sessionMode: "exec", command: "" };

Deno.test.each<{ name: string; keys: Partial<HostPolicy>; path: string }>([
  { name: "a domain without a format", keys: { envelope_domain: "x" }, path: "hosts.web01.envelope_domain" },
  {
    name: "a domain for v2",
    keys: { envelope: "v2", envelope_domain: "x" },
    path: "hosts.web01.envelope_domain",
  },
  {
    name: "a domain for v3",
    keys: { envelope: "v3", envelope_domain: "x" },
    path: "hosts.web01.envelope_domain",
  },
])("compilePolicy() refuses $name", ({ keys, path }) => {
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
  { name: "a session", host: SEALED, intent: EXEC, forced: "gateway-shim web01" },
  {
    name: "a session, whatever command is sent with it",
    host: SEALED,
    intent: { ...EXEC, command: "uptime" },
    forced: "gateway-shim web01",
  },
  {
    name: "a session, elevated",
    host: { ...SEALED, allow_sudo: true },
    intent: { ...EXEC, sudo: true },
    forced: "gateway-shim web01",
  },
  {
    name: "a session under another build's shim",
    host: { ...SEALED, envelope: "v1", shim_command: "other-shim" } as const,
    intent: EXEC,
    forced: "other-shim web01",
  },
  { name: "a one-shot", host: SEALED, intent: {}, forced: "uptime" },
  {
    name: "a bastion",
    host: { ...SEALED, allow_as_bastion: true },
    intent: { role: "bastion" },
    forced: "gateway-shim web01",
  },
  { name: "an unsealed session", host: { sealed_exec: false }, intent: EXEC, forced: undefined },
])("the certificate of $name is locked to $forced", ({ host, intent, forced }) => {
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
  { name: "nothing", host: {}, intent: {}, stdin: "none" },
  {
    name: "nothing, where a digest comes without a transfer",
    host: {},
    intent: { contentSha256: "ab" },
    stdin: "none",
  },
  { name: "nothing in a transfer without a digest", host: {}, intent: { fileTransfer: true }, stdin: "none" },
  {
    name: "the content that a transfer says",
    host: {},
    intent: { fileTransfer: true, contentSha256: "ab" },
    stdin: "ab",
  },
  { name: "the end of its connection", host: { stop_on_disconnect: true }, intent: {}, stdin: "watch" },
])("the envelope lets a command read $name", ({ host, intent, stdin }) => {
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
  { name: "as it is", host: SEALED, intent: {}, sealed: "ls\nid" },
  {
    name: "elevated",
    host: { ...SEALED, allow_sudo: true },
    intent: { sudo: true, command: "systemctl restart nginx" },
    sealed: "sudo -n -- systemctl restart nginx",
  },
  { name: "not at a session's opening", host: SEALED, intent: { command: "" }, sealed: "" },
  { name: "not of a one-shot", host: SEALED, intent: { purpose: "oneshot", command: "ls" }, sealed: "" },
  {
    name: "not for a bastion",
    host: { ...SEALED, allow_as_bastion: true },
    intent: { role: "bastion" },
    sealed: "",
  },
  { name: "not on an unsealed host", host: {}, intent: {}, sealed: "" },
])("the command goes into an envelope $name", ({ host, intent, sealed }) => {
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
  { name: "different ones", hosts: { a: owned("p"), b: owned("q") }, paths: [], warnings: 0 },
  { name: "none at all", hosts: { a: owned(""), b: owned(""), c: {} }, paths: [], warnings: 0 },
  { name: "one", hosts: { a: owned("p"), b: owned("p") }, paths: ["a", "b"], warnings: 1 },
  {
    name: "one that a single host wants to share",
    hosts: { a: owned("p", true), b: owned("p") },
    paths: ["b"],
    warnings: 1,
  },
  {
    name: "one that a host does not want to share",
    hosts: { a: owned("p", true), b: owned("p", false), c: owned("p", true) },
    paths: ["b"],
    warnings: 1,
  },
  {
    name: "one that all want to share",
    hosts: { a: owned("p", true), b: owned("p", true), c: owned("q") },
    paths: [],
    warnings: 1,
  },
  { name: "one but for its case", hosts: { a: owned("p"), b: owned("P") }, paths: [], warnings: 0 },
])("hosts whose principals are $name", ({ hosts, paths, warnings }) => {
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
  { name: "another account", web: account("10.0.0.1:22", "app"), warned: [] },
  { name: "another address", web: account("10.0.0.2:22", "deploy"), warned: [] },
  { name: "the same account, sealed", web: account("10.0.0.1:22", "deploy", true), warned: [] },
  {
    name: "the same account, not sealed",
    web: account("10.0.0.1:22", "deploy", false),
    warned: ["hosts.web"],
  },
  { name: "no address, like another", web: account("", "deploy", false), warned: [] },
])("a name of $name beside a sealed host's: warned of $warned", ({ web, warned }) => {
  const sealed = { web01: account("10.0.0.1:22", "deploy", true), db01: account("", "deploy", true) };
  const found = finish(describeUnsealedTwins({ ...sealed, web }));
  assert.deepEqual(found.map((text) => text.split(":")[0]), warned);
});
