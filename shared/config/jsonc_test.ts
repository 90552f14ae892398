import assert from "node:assert/strict";
import fc from "fast-check";
import { type Node, parse, type ParseError, parseTree, printParseErrorCode } from "jsonc-parser";
import { finish } from "../clock.ts";
import { escapeKey } from "../testing/escaped_key.ts";
import { LargeMap, parseJsonc } from "./jsonc.ts";
import { nearMiss, shapeOf } from "./problems.ts";
import * as z from "@zod/zod";
import { describeShape, parseConfigSteps } from "./mod.ts";
import { AppError } from "../errors.ts";

/** Reads a text whose `hosts` are a large map, and inserts the parsed map into the value. */
function read(text: string) {
  const hosts = new LargeMap({ text, check: (name, entry) => ({ [name]: entry }) });
  const result = finish(parseJsonc(text, new Map([["hosts", hosts]])));
  if (result.kind === "ok" && hosts.written !== undefined) result.value["hosts"] = hosts.written.entries;
  return result;
}

const gap = fc.oneof(
  {
    weight: 30,
    arbitrary: fc.constantFrom(
      ...["", "", "", " ", "\n", "\r", '// , } " :\n', "/* ] , */", "// x\r\n\t"],
      ...["/*/ */", "/***/", "/* // */", "// /*\r", "/*\u2028\ud800*/"],
    ),
  },
  { weight: 1, arbitrary: fc.constantFrom("\u00a0", "\f", "/**", "//", "/*/", "\u2028", "\ufeff") },
);
const key = fc.oneof(
  {
    weight: 30,
    arbitrary: fc.constantFrom(
      ...["a", "b", "c", "hosts", "hosts", "\\u0061", 'q\\"', "\\\\", "//", "/*", ":", "{", ""],
      ...["10", "2", "-1", "constructor", "😀", "\u2028"],
    ),
  },
  { weight: 1, arbitrary: fc.constantFrom("__proto__", "\\ud800", "\ud800", "\\u005f_proto__") },
);
const word = fc.oneof(
  { weight: 20, arbitrary: fc.constantFrom("0", "-1.5e3", "true", "null", "[]", "{}", '{"a":[[]]}') },
  { weight: 10, arbitrary: fc.constantFrom("1e999", "-1e999", "-0", "1E-400", "123456789012345678901") },
  {
    weight: 20,
    arbitrary: fc.constantFrom('""', '"x"', '"\\\\"', '"a\\"b"', '"// {"', '"/*"', '"\\u00e9"', '"[0]"'),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      ...['"\\ud800"', '"\ud800"', '"', "'x'", '"\t"', '"\\x"', '"\\u12"', "nul", "NaN", "1 2", "{} {}"],
      ...["01", "1.", "-", "+1", "0x1", ",", ":", "]", "}", "/", "[,]", "{,}", '{"a":,}', ""],
    ),
  },
);
const { value } = fc.letrec<{ value: string }>((tie) => {
  const inner = fc.oneof({ weight: 2, arbitrary: word }, { weight: 1, arbitrary: tie("value") });
  const trailing = fc.oneof({ weight: 30, arbitrary: fc.constantFrom("", "", ",") }, fc.constant(",,"));
  const list = (open: string, entry: fc.Arbitrary<string>, close: string) =>
    fc.tuple(fc.array(entry, { maxLength: 3 }), gap, trailing, gap)
      .map(([entries, before, comma, after]) => open + entries.join(",") + before + comma + after + close);
  const member = fc.tuple(gap, key, gap, gap, inner, gap)
    .map(([a, name, b, c, text, d]) => `${a}"${name}"${b}:${c}${text}${d}`);
  const entry = fc.tuple(gap, inner, gap).map((parts) => parts.join(""));
  const object = list("{", member, "}");
  return { value: fc.oneof({ maxDepth: 4 }, object, object, list("[", entry, "]")) };
});
const document = fc.tuple(gap, value, gap, fc.constantFrom("", "", "", "", "", "// end", "{}", ","))
  .map((parts) => parts.join(""));

/** The result of jsonc-parser for a text: the value, or its first error in our words. */
function readByLibrary(text: string) {
  const errors: ParseError[] = [];
  const value: unknown = parse(text, errors, { allowTrailingComma: true });
  const [first] = errors;
  if (first === undefined) return { value, tree: parseTree(text, [], { allowTrailingComma: true }) };
  const lines = text.slice(0, first.offset).split(/\r\n|\r|\n/);
  const words = printParseErrorCode(first.error).replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();
  return { problem: `line ${lines.length}, column ${(lines.at(-1) ?? "").length + 1}: ${words}` };
}

/** Whether a value has duplicate keys or a key `__proto__`. */
function hasBadKeys({ type, children = [] }: Node): boolean {
  const keys = type === "object" ? children.map((member) => String(member.children?.[0]?.value)) : [];
  return new Set(keys).size < keys.length || keys.includes("__proto__") || children.some(hasBadKeys);
}

/** Compares the parser with JSON.parse for a text. @returns the outcome */
function check(text: string): "value" | "problem" | "malformed" {
  const result = read(text);
  const expected = readByLibrary(text);
  if (result.kind === "malformed") {
    if (!/half of a surrogate pair$/.test(result.problem)) {
      const isEmpty = text.trim() === "" || text.startsWith("\ufeff");
      assert.ok(isEmpty || result.problem === (expected.problem ?? "expected an object { … }"), text);
    }
    return "malformed";
  }
  assert.ok(expected.tree !== undefined, text);
  assert.equal(result.problems.length > 0, hasBadKeys(expected.tree), text);
  if (result.problems.length > 0) return "problem";
  // An empty large map leaves no trace.
  const { hosts, ...others } = JSON.parse(JSON.stringify(expected.value));
  const isEmpty = typeof hosts === "object" && !Array.isArray(hosts) &&
    Object.keys(hosts ?? { a: 1 }).length === 0;
  const expectedValue = hosts === undefined || isEmpty ? others : { ...others, hosts };
  assert.deepEqual(JSON.parse(JSON.stringify(result.value)), expectedValue, text);
  return "value";
}

Deno.test("parseJsonc() agrees with the library on values and error messages of any text", () => {
  const seen = { value: 0, problem: 0, malformed: 0 };
  fc.assert(fc.property(document, (text) => void seen[check(text)]++), { numRuns: 4000 });
  assert.ok(Math.min(...Object.values(seen)) > 20, JSON.stringify(seen));
});

Deno.test("parseJsonc() agrees with the library on any text with one character changed", () => {
  const change = fc.record({
    at: fc.nat(),
    drop: fc.nat(1),
    insert: fc.constantFrom(...'{}[]":,/*\\ \n0a', ""),
  });
  fc.assert(
    fc.property(document, change, (text, { at, drop, insert }) => {
      const start = at % (text.length + 1);
      check(text.slice(0, start) + insert + text.slice(start + drop));
    }),
    { numRuns: 4000 },
  );
});

Deno.test.each([
  ["a key", '{"a": 1,\n"a": 2}', 'duplicate key "a" in line 2'],
  ["a key in a list", '{"a": [0, {"b": {"c": 1, "c": 2}}]}', 'duplicate key "a[1].b.c" in line 1'],
  ["a large map", '{"hosts": {"x": {}}, "hosts": {"y": {}}}', 'duplicate key "hosts" in line 1'],
  [
    "an entry of a large map",
    '{"hosts": {"x": {}, "x": {"allow_sudo": true}}}',
    'duplicate key "hosts.x" in line 1',
  ],
  [
    "a key in different spellings",
    '{"hosts": {"x": {"a": 1, "\\u0061": 2}}}',
    'duplicate key "hosts.x.a" in line 1',
  ],
])("parseJsonc() reports %s that occurs twice", (_name, text, problem) => {
  const result = read(text);
  assert.deepEqual(result.kind === "ok" && result.problems, [problem]);
});

Deno.test.each([
  ["__proto__", '{"hosts": {"x": {"__proto__": {}}}}', 'key "hosts.x.__proto__" is not allowed'],
])("parseJsonc() rejects %s as a key", (_name, text, problem) => {
  const result = read(text);
  assert.deepEqual(result.kind === "ok" && result.problems, [problem]);
});

Deno.test.each([
  ["half of a surrogate pair", '{"a": "\\ud800"}', "line 1, column 7: half of a surrogate pair"],
  ["65 levels", `{"a": ${"[".repeat(64)}${"]".repeat(64)}}`, "nested too deeply"],
  ["a million levels", `{"a": ${"[".repeat(1e6)}`, "nested too deeply"],
  ["a list", "[{}]", "expected an object { … }"],
  ["comments alone", "// nothing", "line 1, column 11: value expected"],
])("parseJsonc() reports the position and problem of %s", (_name, text, problem) => {
  assert.deepEqual(read(text), { kind: "malformed", problem });
});

Deno.test("parseJsonc() accepts 64 levels of nesting", () => {
  assert.equal(read(`{"a": ${"[".repeat(63)}${"]".repeat(63)}}`).kind, "ok");
});

Deno.test("parseJsonc() pauses repeatedly in a long text", () => {
  const members = Array.from({ length: 1000 }, (_, n) => `"k${n}": 1`);
  const steps = parseJsonc(`{${members.join(",")}}`, new Map());
  let pauses = 0;
  while (steps.next().done !== true) pauses++;
  assert.ok(pauses > 10, `${pauses}`);
});

Deno.test("parseJsonc() reads an escaped key correctly whatever was parsed before", () => {
  const host = '{"user":"web","allow_sudo":false}';
  const { before, text } = escapeKey(host, "allow_sudo");
  const valueOf = (entry: string) => {
    const result = read(`{"a":${entry},"hosts":{"x":${entry}}}`);
    return result.kind === "ok" ? JSON.stringify(result.value) : assert.fail(result.problem);
  };
  JSON.parse(before);
  valueOf(before);
  assert.equal(valueOf(text), valueOf(host));
});

Deno.test.each([
  { name: "host", candidates: ["hosts", "callers"], expected: "hosts" },
  { name: "calers", candidates: ["hosts", "callers"], expected: "callers" },
  { name: "auditLog", candidates: ["audit_log", "audit_key"], expected: "audit_log" },
  { name: "audit-key", candidates: ["audit_log", "audit_key"], expected: "audit_key" },
  { name: "something", candidates: ["hosts", "callers"], expected: undefined },
  { name: "x", candidates: ["ca", "url"], expected: undefined },
  { name: "cs", candidates: ["url", "ca"], expected: "ca" },
  { name: "", candidates: ["hosts"], expected: undefined },
  { name: "h".repeat(100_000), candidates: ["hosts"], expected: undefined },
])("nearMiss() of $name is $expected", ({ name, candidates, expected }) => {
  assert.equal(nearMiss(name, candidates), expected);
});

Deno.test("describeShape() writes a row for every key at every depth", () => {
  const schema = z.strictObject({
    listen: z.string().default(":1").describe("address"),
    mode: z.enum(["", "a|b"]).exactOptional().describe("one <of> two"),
    count: z.int().min(0).max(9).describe("0 to\n9"),
    hosts: z.record(z.string(), z.strictObject({ port: z.int() })).default({}).describe("hosts"),
    rules: z.array(z.strictObject({ name: z.string() })).describe("rules"),
    size: z.int().default(1).transform((value) => value + 1).describe("size"),
  });
  assert.equal(
    describeShape(shapeOf(schema)),
    `| Key | Type | Default | Meaning |
|---|---|---|---|
| \`listen\` | string | \`":1"\` | address |
| \`mode\` | \`""\` \`"a\\|b"\` |  | one &lt;of> two |
| \`count\` | integer, 0 to 9 | required | 0 to 9 |
| \`hosts\` | object of object | \`{}\` | hosts |
| \`hosts.<name>.port\` | integer | required |  |
| \`rules\` | array of object | required | rules |
| \`rules[].name\` | string | required |  |
| \`size\` | integer | \`1\` | size |`,
  );
});

const HOSTS = z.record(
  z.string(),
  z.strictObject({ addr: z.string(), tags: z.array(z.string()).default([]), note: z.unknown().optional() }),
);
const SCHEMA = z.strictObject({ listen: z.string().default(""), hosts: HOSTS.default({}) });
type Config = z.infer<typeof SCHEMA>;

function parseLargeMap(text: string, previous?: Config, schema: z.ZodType<Config> = SCHEMA): Config {
  const large = { hosts: HOSTS };
  return finish(parseConfigSteps({ what: "config", source: "c", text, schema, large, previous }));
}

function outcome(text: string, previous?: Config): unknown {
  try {
    return parseLargeMap(text, previous);
  } catch (error) {
    assert.ok(error instanceof AppError, String(error));
    return error.message;
  }
}

const name = fc.constantFrom("a", "b", "c", "\\u0061", "_comment", "_example", "constructor", "__proto__");
const entry = fc.oneof(
  {
    weight: 20,
    arbitrary: fc.constantFrom(
      ...[`{"addr":"h"}`, `{"addr":"h","tags":["}"]}`, `{"addr":"h" /* } */}`, `{"addr":"h", // "\n}`],
      ...[`{\r\n"addr":"h",\n"note":{"a":{}}\n}`, `{"addr":"h","_note":1}`, `{"addr":"\\u0068"}`],
    ),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      ...[`{"addr":1}`, `{"addr":"h","addr":"i"}`, `{"addr":"h"}}`, `{"addr":"h"`, `{}`, `null`, `"x"`, `[]`],
      ...[`{"addr":"h"}{}`, `{"addr":"h"} {"addr":"h"}`, `{"addr":"h"}1`],
    ),
  },
);
const gapLargeMap = fc.constantFrom("", "", " ", "\n", "\r\n", " /* { */ ", " // }\n");
const text = fc.tuple(
  fc.array(fc.tuple(gapLargeMap, name, gapLargeMap, entry, gapLargeMap), { maxLength: 5 }),
  gapLargeMap,
  fc.boolean(),
)
  .map(([members, before, isLast]) => {
    const hosts = members.map(([a, name, b, entry, c]) => `${a}"${name}":${b}${entry}${c}`).join(",");
    return `{${before}"hosts":{${hosts}}${isLast ? "" : `, "listen": ":1"`}}`;
  });

Deno.test("a config is parsed to the same result whatever config it replaces", () => {
  fc.assert(
    fc.property(text, text, (before, after) => {
      const previous = outcome(before);
      if (typeof previous === "string") return;
      assert.deepEqual(outcome(after, previous as Config), outcome(after));
      // Also for an unchanged text, and for changes only at its start or end.
      for (const next of [before, `${before}x`, before.slice(0, -1), ` ${before}`]) {
        assert.deepEqual(outcome(next, previous as Config), outcome(next));
      }
    }),
    { numRuns: 500 },
  );
});

const ONE = `"a": { "addr": "h" }`;
const TWO = `"b": { "addr": "i", "tags": ["t"] }`;

Deno.test("unchanged entries are reused from the previous config wherever they are, and no others", () => {
  const first = parseLargeMap(`{ "hosts": { ${ONE}, ${TWO} } }`);
  const second = parseLargeMap(
    `{ "hosts": { // moved\n ${TWO.replace('"t"', '"u"')}, ${ONE}, "c": { "addr": "h" } } }`,
    first,
  );
  assert.equal(second.hosts["a"], first.hosts["a"]);
  assert.deepEqual(second.hosts["b"]?.tags, ["u"]);
  assert.notEqual(second.hosts["c"], first.hosts["a"]);
  const third = parseLargeMap(`{ "hosts": { ${ONE}, ${TWO} } }`, second);
  assert.equal(third.hosts["a"], first.hosts["a"]);
  assert.notEqual(third.hosts["b"], first.hosts["b"]);
});

Deno.test("an entry that was checked with another schema is checked again", () => {
  const first = parseLargeMap(`{ "hosts": { ${ONE} } }`);
  const strict = z.strictObject({ listen: z.string().default(""), hosts: HOSTS.default({}) });
  assert.notEqual(parseLargeMap(`{ "hosts": { ${ONE} } }`, first, strict).hosts["a"], first.hosts["a"]);
});

Deno.test("an error after a reused entry is reported with the correct line number", () => {
  const first = parseLargeMap(`{ "hosts": {\n"a": {\n"addr": "h"\n},\n"b": {"addr": "h"} } }`);
  assert.throws(
    () => parseLargeMap(`{ "hosts": {\n"a": {\n"addr": "h"\n},\n"a": {"addr": "h"} } }`, first),
    { message: `Cannot load config "c": duplicate key "hosts.a" in line 5` },
  );
  assert.throws(
    () => parseLargeMap(`{ "hosts": {\n"a": {\n"addr": "h"\n}, ! } }`, first),
    { message: `Cannot load config "c": line 4, column 4: invalid symbol` },
  );
});
