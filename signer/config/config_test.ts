import assert from "node:assert/strict";
import fc from "fast-check";
import { wholeCharacter } from "@gateway/shared/testing";
import * as z from "@zod/zod";
import { AppError } from "@gateway/shared/errors";
import { parseConfig, parseConfigSteps } from "@gateway/shared/config";
import { LARGE_SIGNER_KEYS, signerConfig, UNSUPPORTED_SIGNER_KEYS } from "./config.ts";
import { finish } from "@gateway/shared/clock";

const SIGNER = { what: "signer config", source: "signer.json", schema: signerConfig } as const;
const REQUIRED =
  `"server_cert":"a","server_key":"b","client_ca":"c","ca_key":"d","audit_log":"e","audit_key":"f"`;
const HOST = `"addr":"h:22","user":"u","host_key":"k"`;

function parseSigner(members: string) {
  const text = `{ ${REQUIRED} ${members === "" ? "" : `, ${members}`} }`;
  return parseConfig({ ...SIGNER, text, unsupported: ["later", ...UNSUPPORTED_SIGNER_KEYS] });
}

function problemsOf(run: () => unknown): readonly string[] {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof AppError && error.code === "invalid_config", String(error));
    const [head, ...lines] = error.message.split("\n");
    const first = head?.replace(/^Cannot load [a-z ]+ "[^"]+": /, "") ?? "";
    if (lines.length === 0) return [first];
    assert.equal(first, `${lines.length} problems`);
    return lines.map((line) => line.replace(/^ {2}/, ""));
  }
  return [];
}

Deno.test("parseConfig() applies defaults to the values", () => {
  const config = parseSigner(`"hosts": { "web01": { ${HOST}, "command_policy": { "mode": "allowlist" } } }`);
  assert.equal(config.listen, ":9443");
  assert.equal(config.audit_fail_mode, "closed");
  assert.equal(config.hosts["web01"]?.command_policy?.mode, "allowlist");
});

Deno.test.each([
  ["nothing", "", "the file is empty"],
  ["blanks", " \n\t", "the file is empty"],
  ["a byte order mark", "\uFEFF{}", /byte order mark/],
  ["null", "null", "expected an object { … }"],
  ["an open object", '{\n  "a": 1', /^line 2, column \d+: close brace expected$/],
  ["deep nesting", '{"a":'.repeat(100_000), "nested too deeply"],
])("parseConfig() rejects %s", (_name, text, problem) => {
  const [found, ...more] = problemsOf(() => parseConfig({ ...SIGNER, text }));
  assert.deepEqual(more, []);
  if (typeof problem === "string") assert.equal(found, problem);
  else assert.match(found ?? "", problem);
});

Deno.test.each([
  ["an unknown key (C1)", `"x": 1`, 'unknown key "x"'],
  ["a misspelled key", `"audit_failmod": 1`, 'unknown key "audit_failmod" (did you mean "audit_fail_mode"?)'],
  [
    "a nested unknown key",
    `"hosts": {"web01": {${HOST}, "command_policy": {"alow": []}}}`,
    'unknown key "hosts.web01.command_policy.alow" (did you mean "allow"?)',
  ],
  [
    "an unknown key in a list (C1)",
    `"redact": {"patterns": [{"name": "a", "regex": "b", "regx": "c"}]}`,
    'unknown key "redact.patterns[0].regx" (did you mean "regex"?)',
  ],
  ["a key of a struct in other case", `"Listen": ":1"`, 'unknown key "Listen" (did you mean "listen"?)'],
  ["_default in a struct", `"_default": 1`, 'unknown key "_default"'],
  ["a missing key", `"hosts": {"web.example": {"addr": "a"}}`, 'missing key "hosts["web.example"].user"'],
  ["a wrong type", `"listen": 1`, "listen: must be a string, is a whole number"],
  ["null for a text", `"listen": null`, "listen: must be a string, is null"],
  ["null for a host", `"hosts": {"a": null}`, "hosts.a: must be an object, is null"],
  ["a text for a list", `"reload_callers": "a"`, "reload_callers: must be an array, is a string"],
  [
    "a text for true",
    `"hosts": {"a": {${HOST}, "allow_sudo": "yes"}}`,
    "hosts.a.allow_sudo: must be true or false, is a string",
  ],
  ["a fraction", `"max_ttl_seconds": 1.5`, "max_ttl_seconds: must be a whole number, is a number"],
  ["a number too large", `"max_ttl_seconds": 901`, "max_ttl_seconds: must be at most 900, is 901"],
  ["a negative number", `"max_ttl_seconds": -1`, "max_ttl_seconds: must be at least 0, is -1"],
  ["an empty path", `"hosts": {"a": {"user": ""}}`, "hosts.a.user: must not be empty"],
  [
    "an unknown choice",
    `"audit_fail_mode": "Closed"`,
    'audit_fail_mode: must be "" or "closed" or "open", is "Closed"',
  ],
  [
    "a text with a rule of its own",
    `"redact": {"patterns": [{"name": "a b", "regex": "c"}]}`,
    "redact.patterns[0].name: must be 1 to 64 of a-z A-Z 0-9 . _ -",
  ],
  ["an unsupported key", `"later": {}`, '"later": not supported yet by this version'],
  ["a duplicate key (C3)", `"listen": ":1",\n"listen": ":2"`, 'duplicate key "listen" in line 2'],
  ["a duplicate comment (C3)", `"_comment": 1, "_comment": 2`, 'duplicate key "_comment" in line 1'],
  [
    "a typo in a _ host (C2)",
    `"hosts": {"_web": {${HOST}, "alow_sudo": true}}`,
    'unknown key "hosts._web.alow_sudo" (did you mean "allow_sudo"?)',
  ],
  [
    "a typo in _default (C2)",
    `"callers": {"_default": {"allowed_group": []}}`,
    'unknown key "callers._default.allowed_group" (did you mean "allowed_groups"?)',
  ],
  [
    "a text as _default (C2)",
    `"callers": {"_default": "x"}`,
    "callers._default: must be an object, is a string",
  ],
  ["an empty _ host (C2)", `"hosts": {"_web": []}`, "hosts._web: must be an object, is an array"],
  ["a state_db URL without user", `"state_db": "postgres://db/x"`, "state_db: it names no user"],
  [
    "two passwords, and shows neither",
    `"state_db": "postgres://a:s3cret@db/x", "state_db_password_file": "p"`,
    "state_db_password_file: is set, and the URL in state_db has a password as well",
  ],
  [
    "a password for a file",
    `"state_db": "s.db", "state_db_password_file": "p"`,
    "state_db_password_file: is for a state_db that is a postgres: URL",
  ],
  [
    "a CA without TLS",
    `"state_db": "postgres://a@localhost/x", "state_db_ca": "p"`,
    "state_db_ca: is set, and no host of state_db is used with TLS",
  ],
])("parseConfig() rejects %s", (_name, members, problem) => {
  assert.deepEqual(problemsOf(() => parseSigner(members)), [problem]);
});

Deno.test("parseConfig() reports all problems, one per line", () => {
  const run = () =>
    parseSigner(`"x": 1, "listen": 1, "listen": 2, "later": {}, "hosts": {"a": {"user": ""}}`);
  assert.deepEqual(problemsOf(run), [
    'duplicate key "listen" in line 1',
    '"later": not supported yet by this version',
    "listen: must be a string, is a whole number",
    "hosts.a.user: must not be empty",
    'unknown key "x"',
  ]);
});

Deno.test("parseConfig() drops every _ key of a struct regardless of its value", () => {
  const config = parseSigner(`
    "_comment": "x", "_note": { "listen": 1 }, "_": [1],
    "hosts": { "a": { ${HOST}, "_why": ["x"], "command_policy": { "_example": { "mode": "off" } } } }
  `);
  assert.deepEqual(Object.keys(config.hosts["a"] ?? {}).sort(), [
    "addr",
    "command_policy",
    "host_key",
    "user",
  ]);
  assert.deepEqual(Object.keys(config.hosts["a"]?.command_policy ?? { x: 1 }), []);
});

Deno.test("parseConfig() keeps valid _ entries of a map and drops comments (C2)", () => {
  const config = parseSigner(`
    "hosts": { "_note": "text", "_n": 1, "_null": null, "_a_comment": {"x": 1}, "_b_example": {${HOST}}, "_web": {${HOST}} },
    "callers": { "_default": { "allowed_groups": [] }, "_comment": "x" },
    "group_command_policies": { "_default": ["base"], "_note": "x", "_ops": ["ops"] }
  `);
  assert.deepEqual(Object.keys(config.hosts), ["_web"]);
  assert.deepEqual(Object.keys(config.callers), ["_default"]);
  assert.deepEqual(Object.keys(config.group_command_policies), ["_default", "_ops"]);
});

Deno.test("parseConfig() keeps _ entries of a map of strings, except *_comment", () => {
  const schema = z.strictObject({ users: z.record(z.string(), z.string()) });
  const text = '{ "users": { "_ops": "root", "_ops_comment": "x" } }';
  const { users } = parseConfig({ what: "x", source: "x.json", schema, text });
  assert.deepEqual({ ...users }, { _ops: "root" });
});

Deno.test("parseConfig() treats a null map as absent", () => {
  const config = parseSigner(`"hosts": null, "callers": null, "command_policies": null`);
  assert.deepEqual(Object.keys(config.hosts), []);
});

Deno.test.each(['"kubernetes": null', '"envelope_key": ""', '"end_user_oidc": null'])(
  "parseConfig() treats %s as not configured",
  (members) => assert.deepEqual(parseSigner(members), parseSigner("")),
);

Deno.test("parseConfig() returns maps that contain only the configured keys", () => {
  const config = parseSigner(`"hosts": { "constructor": {${HOST}}, "toString": {${HOST}} }`);
  assert.equal(config.hosts["constructor"]?.addr, "h:22");
  assert.equal(config.hosts["hasOwnProperty"], undefined);
  assert.equal(config.hosts["__proto__"], undefined);
  assert.equal(config.callers["constructor"], undefined);
});

Deno.test("parseConfig() rejects unsupported nested keys and unsupported keys in maps (I23)", () => {
  const schema = z.strictObject({ hosts: z.record(z.string(), z.strictObject({ addr: z.string() })) });
  const text =
    '{ "hosts": { "a": { "addr": "x", "sealed_exec": true }, "b.c": { "addr": "y", "sealed_exec": {} }, "d": { "addr": "z", "sealed_exec": false } } }';
  const unsupported = ["hosts.*.sealed_exec", "signer.approval_wait_seconds"];
  const run = () => parseConfig({ what: "x config", source: "x.json", schema, text, unsupported });
  assert.deepEqual(problemsOf(run), [
    '"hosts.a.sealed_exec": not supported yet by this version',
    '"hosts["b.c"].sealed_exec": not supported yet by this version',
  ]);
});

Deno.test("parseConfig() does not repeat a value that may be a secret", () => {
  const found = problemsOf(() => parseSigner(`"max_ttl_seconds": "hunter2", "hosts": "hunter2"`));
  assert.doesNotMatch(found.join(), /hunter2/);
});

Deno.test("parseConfig() throws only AppError for any text", () => {
  const token = fc.constantFrom(...'{}[],:"\\\n', ...'// /* */ "hosts" "__proto__" null 1 _a'.split(" "));
  fc.assert(fc.property(fc.array(token).map((tokens) => tokens.join("")), (text) => {
    problemsOf(() => parseConfig({ ...SIGNER, text }));
  }));
  fc.assert(fc.property(fc.json(), (text) => {
    problemsOf(() => parseConfig({ ...SIGNER, text }));
  }));
});

Deno.test("parseConfig() reads a value of any type like JSON.parse, including _ keys", () => {
  const schema = z.strictObject({ value: z.unknown() });
  const value = fc.jsonValue({ stringUnit: wholeCharacter(fc) }).map((any) => JSON.stringify({ value: any }))
    .filter((text) => !text.includes("__proto__"));
  fc.assert(fc.property(value, (text) => {
    const parsed = parseConfig({ what: "x", source: "x", schema, text });
    assert.equal(JSON.stringify(parsed), text);
  }));
});

/** Loads a `signer.json` with these members, completely or host by host. Returns the problems, sorted. */
function outcome(members: string, large: Readonly<Record<string, z.ZodType>>) {
  const text =
    `{"server_cert":"a","server_key":"b","client_ca":"c","audit_log":"e","audit_key":"f",${members}}`;
  const kind = { what: "signer config", source: "s", schema: signerConfig };
  try {
    return finish(parseConfigSteps({ ...kind, text, unsupported: UNSUPPORTED_SIGNER_KEYS, large }));
  } catch (error) {
    assert.ok(error instanceof AppError && error.code === "invalid_config", String(error));
    return error.message.split("\n").toSorted();
  }
}

Deno.test.each([
  ["hosts", `"hosts":{"web01":{${HOST},"allow_sudo":true},"db01":{${HOST},"groups":["a"]}}`],
  ["no hosts", `"hosts":{}`],
  ["hosts that are absent", `"listen":":1"`],
  ["hosts that are null", `"hosts":null`],
  ["hosts that are a list", `"hosts":[{${HOST}}]`],
  ["hosts that are a text", `"hosts":"web01"`],
  ["comments among the hosts", `"hosts":{"_comment":"x","_example":{"addr":1},"a":{${HOST}}}`],
  ["comments in a host", `"hosts":{"a":{${HOST},"_note":["x"]}}`],
  ["a host that is a _ name (C2)", `"hosts":{"_a":{"addr":"h:22"}}`],
  ["a host that is null", `"hosts":{"a":null}`],
  ["a host that is a list", `"hosts":{"a":[1]}`],
  ["a host called like a method", `"hosts":{"constructor":{${HOST}},"toString":{}}`],
  ["a typo in a host (C1)", `"hosts":{"web.1":{${HOST},"allow_sudoo":true}}`],
  ["a wrong value deep in a host", `"hosts":{"a":{${HOST},"command_policy":{"mode":"x"}}}`],
  ["a duplicate host (C3)", `"hosts":{"a":{${HOST}},"a":{${HOST}}}`],
  ["a duplicate key of a host (C3)", `"hosts":{"a":{${HOST},"user":"root"}}`],
  ["command policies", `"command_policies":{"a":{"mode":"off"},"_c":{"mode":"x"},"b":{}}`],
  ["command policies that are a list", `"command_policies":[]`],
  ["a typo in a command policy (C1)", `"command_policies":{"a.b":{"alow":[]},"c":{"mode":1}}`],
  ["a duplicate command policy (C3)", `"command_policies":{"a":{},"a":{}}`],
  ["problems everywhere", `"listn":1,"kubernetes":{},"hosts":{"a":{},"b":{${HOST},"x":1}}`],
])("parseConfigSteps() returns the same result for %s entry by entry as in one step", (_name, members) => {
  assert.deepEqual(outcome(members, LARGE_SIGNER_KEYS), outcome(members, {}));
});

Deno.test("parseConfigSteps() reports an unsupported key in an entry of a large map (I23)", () => {
  const hosts = z.record(z.string(), z.strictObject({ addr: z.string() }));
  const schema = z.strictObject({ hosts: hosts.default({}) });
  const config = { what: "x", source: "s", schema, unsupported: ["hosts.*.later"] };
  const text = `{"hosts":{"a":{"addr":"h","later":1}}}`;
  const message = `Cannot load x "s": "hosts.a.later": not supported yet by this version`;
  assert.throws(() => finish(parseConfigSteps({ ...config, text, large: { hosts } })), { message });
});

Deno.test("parseConfigSteps() can pause after each entry of a large map", () => {
  const members = Array.from({ length: 100 }, (_, n) => `"h${n}":{${HOST}}`).join(",");
  const text =
    `{"server_cert":"a","server_key":"b","client_ca":"c","audit_log":"e","audit_key":"f","hosts":{${members}}}`;
  const kind = { what: "signer config", source: "s", schema: signerConfig };
  const steps = parseConfigSteps({ ...kind, text, large: LARGE_SIGNER_KEYS });
  let pauses = 0;
  while (steps.next().done !== true) pauses++;
  assert.ok(pauses >= 100, `${pauses}`);
});
