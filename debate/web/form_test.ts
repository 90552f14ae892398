import { AppError } from "@gateway/shared/errors";
import assert from "node:assert/strict";
import fc from "fast-check";
import { readForm } from "./form.ts";

const LIMITS = 100;

function* chunksOf(bytes: Uint8Array, size: number): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.slice(at, at + size);
}

function post(body: Iterable<Uint8Array> | AsyncIterable<Uint8Array>, boundary = "b"): Request {
  return new Request("http://x/", {
    method: "POST",
    headers: { "content-type": `multipart/form-data; boundary=${boundary}` },
    body: ReadableStream.from(body),
  });
}

function read(text: string | Uint8Array, size = 1000, limits = LIMITS) {
  const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
  return readForm(post(chunksOf(bytes, size)), limits);
}

function latin1(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

function part(disposition: string, content: string): string {
  return `--b\r\ncontent-disposition: form-data; ${disposition}\r\n\r\n${content}\r\n`;
}

async function codeOf(reading: Promise<unknown>): Promise<string> {
  try {
    await reading;
  } catch (error) {
    assert.ok(error instanceof AppError);
    return `${error.code}: ${error.message}`;
  }
  return assert.fail("accepted");
}

Deno.test("readForm() reads what the platform writes, however it is cut", async () => {
  const line = fc.string({ unit: fc.constantFrom("a", "\r", "\n", "-", "ü", " "), maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(line, line, fc.integer({ min: 1, max: 40 }), async (field, content, size) => {
      const form = new FormData();
      form.append("topic", field);
      form.append("file", new File([content], "a.txt"));
      const request = new Request("http://x/", { method: "POST", body: form });
      const boundary = /boundary=(.*)$/.exec(request.headers.get("content-type") ?? "")?.[1];
      const bytes = new Uint8Array(await request.arrayBuffer());
      const { fields, files } = await readForm(post(chunksOf(bytes, size), boundary), LIMITS);
      // A browser writes every line end of a field as CR LF.
      assert.equal(fields.get("topic")?.replace(/\r\n?/g, "\n"), field.replace(/\r\n?/g, "\n"));
      assert.equal(new TextDecoder().decode(files.get("file")?.[0]?.bytes), content);
    }),
    { numRuns: 200 },
  );
});

Deno.test.each([
  { name: "the last part of a path", given: 'filename="C:\\\\temp\\\\..\\\\a.txt"', expected: "a.txt" },
  { name: "the last part of a climb", given: 'filename="../../etc/passwd"', expected: "passwd" },
  { name: "escaped quotes", given: 'filename="a%22b.txt"', expected: 'a"b.txt' },
  { name: "no line ends", given: 'filename="a%0D%0Ab.txt"', expected: "a  b.txt" },
])("readForm() keeps of a file's name $name", async ({ given, expected }) => {
  const { files } = await read(`${part(`name="f"; ${given}`, "x")}--b--\r\n`);
  assert.equal(files.get("f")?.[0]?.name, expected);
});

Deno.test("readForm() leaves out a file field in which nothing was chosen", async () => {
  const { files } = await read(`${part('name="f"; filename=""', "")}--b--`);
  assert.equal(files.size, 0);
});

Deno.test.each([
  { name: "a body that is empty", text: "", error: /^invalid_request: .*broke off/ },
  {
    name: "a part that breaks off",
    text: part('name="a"', "x").slice(0, -8),
    error: /^invalid_request: .*broke off/,
  },
  { name: "a missing last boundary", text: part('name="a"', "x"), error: /^invalid_request: .*broke off/ },
  { name: "a part without a name", text: `${part("x=1", "x")}--b--`, error: /^invalid_request: .*no name/ },
  { name: "a part that is not form data", text: "--b\r\nx: y\r\n\r\nz\r\n--b--", error: /form-data/ },
  { name: "a part without a head", text: "--b\r\n\r\nx\r\n--b--", error: /form-data/ },
  { name: "a head that the boundary cuts short", text: "--b\r\nx: y\r\n--b--", error: /no head/ },
  {
    name: "a boundary with something behind it",
    text: `--bXX\r\n${part('name="a"', "x").slice(5)}--b--`,
    error: /form-data/,
  },
  { name: "a name that is not UTF-8", text: latin1(`${part('name="\xff"', "x")}--b--`), error: /not UTF-8/ },
  { name: "a text that is not UTF-8", text: latin1(`${part('name="a"', "\xff")}--b--`), error: /not UTF-8/ },
  { name: "an endless head", text: `--b\r\nx: ${"y".repeat(9000)}`, error: /^invalid_request: .*broke off/ },
  { name: "an endless preamble", text: "x".repeat(9000), error: /^invalid_request: .*broke off/ },
  { name: "too many parts", text: `${part('name="a"', "x").repeat(101)}--b--`, error: /more than 100 parts/ },
  {
    name: "too many files",
    text: `${part('name="a"; filename="f"', "x").repeat(21)}--b--`,
    error: /more than 20 files/,
  },
  {
    name: "a file over the limit",
    text: `${part('name="a"; filename="f.txt"', "x".repeat(101))}--b--`,
    error: /^payload_too_large: File "f.txt" is larger than 100 bytes/,
  },
])("readForm() refuses $name", async ({ text, error }) => {
  for (const size of [1, 7, 100_000]) assert.match(await codeOf(read(text, size)), error);
});

Deno.test("readForm() stops reading where a file is over its limit", async () => {
  let given = 0;
  async function* endless(): AsyncGenerator<Uint8Array> {
    yield new TextEncoder().encode('--b\r\ncontent-disposition: form-data; name="a"; filename="f"\r\n\r\n');
    for (;;) {
      given += 50;
      yield new Uint8Array(50);
    }
  }
  assert.match(await codeOf(readForm(post(endless()), LIMITS)), /^payload_too_large/);
  assert.ok(given <= 200, String(given));
});

Deno.test("readForm() bounds all text fields together", async () => {
  const half = part('name="a"', "x".repeat(600_000));
  const limits = 10_000_000;
  assert.match(
    await codeOf(read(`${half}${half}--b--`, 65_536, limits)),
    /^payload_too_large: The text fields/,
  );
});

Deno.test("readForm() comes to an end whatever it is given", async () => {
  const pieces = fc.constantFrom(
    "--b",
    "--b--",
    "\r\n",
    "\r",
    "\n",
    "-",
    "x",
    " ",
    "\0",
    'content-disposition: form-data; name="a"',
    'content-disposition: form-data; name="a"; filename="f"',
    "content-type: text/plain",
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(pieces, { maxLength: 25 }),
      fc.integer({ min: 1, max: 60 }),
      async (list, size) => {
        const form = await read(list.join(""), size).catch((error) => error);
        assert.ok(form instanceof AppError || form.fields instanceof Map);
      },
    ),
    { numRuns: 1000 },
  );
});
