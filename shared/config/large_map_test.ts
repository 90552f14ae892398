import assert from "node:assert/strict";
import * as z from "@zod/zod";
import fc from "fast-check";
import { AppError } from "../errors.ts";
import { finish } from "../clock.ts";
import { parseConfigSteps } from "./load.ts";

const HOSTS = z.record(
  z.string(),
  z.strictObject({ addr: z.string(), tags: z.array(z.string()).default([]), note: z.unknown().optional() }),
);
const SCHEMA = z.strictObject({ listen: z.string().default(""), hosts: HOSTS.default({}) });
type Config = z.infer<typeof SCHEMA>;

function parse(text: string, previous?: Config, schema: z.ZodType<Config> = SCHEMA): Config {
  const large = { hosts: HOSTS };
  return finish(parseConfigSteps({ what: "config", source: "c", text, schema, large, previous }));
}

function outcome(text: string, previous?: Config): unknown {
  try {
    return parse(text, previous);
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
const gap = fc.constantFrom("", "", " ", "\n", "\r\n", " /* { */ ", " // }\n");
const text = fc.tuple(fc.array(fc.tuple(gap, name, gap, entry, gap), { maxLength: 5 }), gap, fc.boolean())
  .map(([members, before, isLast]) => {
    const hosts = members.map(([a, name, b, entry, c]) => `${a}"${name}":${b}${entry}${c}`).join(",");
    return `{${before}"hosts":{${hosts}}${isLast ? "" : `, "listen": ":1"`}}`;
  });

Deno.test("a config is read the same whatever it replaces", () => {
  fc.assert(
    fc.property(text, text, (before, after) => {
      const previous = outcome(before);
      if (typeof previous === "string") return;
      assert.deepEqual(outcome(after, previous as Config), outcome(after));
      // Also where nothing or all but the end is known.
      for (const next of [before, `${before}x`, before.slice(0, -1), ` ${before}`]) {
        assert.deepEqual(outcome(next, previous as Config), outcome(next));
      }
    }),
    { numRuns: 500 },
  );
});

const ONE = `"a": { "addr": "h" }`;
const TWO = `"b": { "addr": "i", "tags": ["t"] }`;

Deno.test("what is written as before is taken over, wherever it stands, and nothing else", () => {
  const first = parse(`{ "hosts": { ${ONE}, ${TWO} } }`);
  const second = parse(
    `{ "hosts": { // moved\n ${TWO.replace('"t"', '"u"')}, ${ONE}, "c": { "addr": "h" } } }`,
    first,
  );
  assert.equal(second.hosts["a"], first.hosts["a"]);
  assert.deepEqual(second.hosts["b"]?.tags, ["u"]);
  assert.notEqual(second.hosts["c"], first.hosts["a"]);
  const third = parse(`{ "hosts": { ${ONE}, ${TWO} } }`, second);
  assert.equal(third.hosts["a"], first.hosts["a"]);
  assert.notEqual(third.hosts["b"], first.hosts["b"]);
});

Deno.test("what was checked by other rules is checked again", () => {
  const first = parse(`{ "hosts": { ${ONE} } }`);
  const strict = z.strictObject({ listen: z.string().default(""), hosts: HOSTS.default({}) });
  assert.notEqual(parse(`{ "hosts": { ${ONE} } }`, first, strict).hosts["a"], first.hosts["a"]);
});

Deno.test("what is wrong behind a part that was taken over is told with its line", () => {
  const first = parse(`{ "hosts": {\n"a": {\n"addr": "h"\n},\n"b": {"addr": "h"} } }`);
  assert.throws(
    () => parse(`{ "hosts": {\n"a": {\n"addr": "h"\n},\n"a": {"addr": "h"} } }`, first),
    { message: `Cannot load config "c": duplicate key "hosts.a" in line 5` },
  );
  assert.throws(
    () => parse(`{ "hosts": {\n"a": {\n"addr": "h"\n}, ! } }`, first),
    { message: `Cannot load config "c": line 4, column 4: invalid symbol` },
  );
});
