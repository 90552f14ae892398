import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import fc from "fast-check";
import { type ChainHead, createAuditKey, GENESIS, hashLine, seal } from "./record.ts";
import { type ChainProblem, checkLog } from "./verify.ts";

const KEY = createAuditKey(new Uint8Array(32).fill(5));

function chain(count: number, head: ChainHead = GENESIS): readonly string[] {
  const lines: string[] = [];
  for (let index = 0; index < count; index++) {
    const { line, next } = seal(
      // Of a last record nothing covers the ext yet.
      { body: `{"outcome":"r${index} é"`, ext: index === 0 ? '{"request_id":"r-1"}' : "" },
      head,
      KEY,
    );
    lines.push(line);
    head = next;
  }
  return lines;
}

async function check(content: string | Uint8Array, options: { expectedHash?: string; key?: boolean } = {}) {
  const problems: ChainProblem[] = [];
  const result = await checkLog([Buffer.from(content)], {
    publicKey: options.key === false ? undefined : KEY.publicKey,
    expectedHash: options.expectedHash,
    onProblem: (problem) => problems.push(problem),
  });
  assert.equal(result.problems, problems.length);
  return { ...result, found: problems.map(({ line, kind }) => `${line} ${kind}`), problems };
}

const [A, B, C, D] = chain(4) as [string, string, string, string];
const text = (...lines: readonly string[]) => lines.map((line) => `${line}\n`).join("");

Deno.test("checkLog() accepts a whole chain", async () => {
  const result = await check(text(A, B, C), { expectedHash: "" });
  assert.deepEqual([result.entries, result.problems.length, result.lastHash], [3, 0, hashLine(C)]);
});

Deno.test.each([
  { name: "nothing", content: "" },
  { name: "a last record without newline", content: text(A, B) + C },
  { name: "blank lines", content: `${A}\n\n${B}\n` },
  { name: "a first record that is linked to something unseen", content: text(B, C) },
])("checkLog() accepts $name", async ({ content }) => {
  assert.deepEqual((await check(content)).found, []);
});

Deno.test.each([
  {
    name: "an altered record",
    content: text(A, B.replace("r1", "r7"), C),
    found: ["2 signature", "3 prev_hash"],
  },
  { name: "a removed record", content: text(A, C), found: ["2 gap", "2 prev_hash"] },
  {
    name: "swapped records",
    content: text(A, C, B, D),
    found: ["2 gap", "2 prev_hash", "3 gap", "3 prev_hash", "4 gap", "4 prev_hash"],
  },
  { name: "a repeated record", content: text(A, B, B, C), found: ["3 gap", "3 prev_hash"] },
  { name: "a malformed line", content: text(A, "x", B), found: ["2 malformed", "3 prev_hash"] },
  { name: "a last line that is cut off", content: text(A) + B.slice(0, 30), found: ["2 malformed"] },
  {
    name: "a line over the cap, and what follows it",
    content: text(A, "x".repeat(300_000), B.replace("r1", "r7")),
    found: ["2 too_long", "3 signature"],
  },
  {
    name: "a record of another key",
    content: text(seal({ body: '{"x":1', ext: "" }, GENESIS, createAuditKey(new Uint8Array(32))).line),
    found: ["1 signature"],
  },
  {
    name: "a removed beginning, where one is expected",
    content: text(B, C),
    hash: "",
    found: ["1 prev_hash"],
  },
  { name: "a first record linked elsewhere", content: text(A, B), hash: "00", found: ["1 prev_hash"] },
])("checkLog() reports $name", async ({ content, hash, found }) => {
  assert.deepEqual((await check(content, hash === undefined ? {} : { expectedHash: hash })).found, found);
});

Deno.test("checkLog() names defects in fixed words", async () => {
  const { problems } = await check(text(A, C, "x", "y".repeat(300_000), B.replace("r1", "r7")));
  const words = [
    "gap or reorder",
    "prev_hash mismatch",
    "malformed JSON",
    "line too long",
    "signature invalid",
  ];
  assert.deepEqual(problems.map(({ message }) => message.split(":")[0]), words);
});

Deno.test("checkLog() can't tell who wrote a log without the key", async () => {
  const forged =
    seal({ body: '{"outcome":"forged"', ext: "" }, GENESIS, createAuditKey(new Uint8Array(32))).line;
  assert.deepEqual((await check(text(forged), { key: false })).found, []);
});

Deno.test("checkLog() notices any byte that was changed, wherever it is", async () => {
  const content = Buffer.from(text(A, B, C));
  const position = fc.integer({ min: 0, max: content.length - 1 });
  await fc.assert(
    fc.asyncProperty(position, fc.integer({ min: 1, max: 255 }), async (at, change) => {
      const altered = Buffer.from(content);
      altered[at]! ^= change;
      assert.notDeepEqual((await check(altered, { expectedHash: "" })).found, []);
    }),
    { numRuns: 1000 },
  );
});

Deno.test("checkLog() notices every single bit that was flipped", async () => {
  const content = Buffer.from(text(A, B));
  for (let bit = 0; bit < content.length * 8; bit++) {
    const altered = Buffer.from(content);
    altered[bit >> 3]! ^= 1 << (bit & 7);
    const { found } = await check(altered, { expectedHash: "" });
    if (found.length === 0) assert.fail(`bit ${bit} was not noticed`);
  }
});
