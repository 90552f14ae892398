import assert from "node:assert/strict";
import fc from "fast-check";
import { type Answer, AnswerParser, AnswerTooLarge, MalformedAnswer } from "./answer_parser.ts";

const encode = (text: string) => Uint8Array.from(text, (character) => character.charCodeAt(0));
const OK = "HTTP/1.1 200 OK\r\n";

function parse(text: string, maxBytes = 1000): Answer | undefined {
  return new AnswerParser({ maxBytes }).push(encode(text));
}

function bodyOf(answer: Answer | undefined): string {
  return new TextDecoder("latin1").decode(answer?.body);
}

Deno.test.each<{ name: string; text: string; body: string; status?: number; isReusable?: boolean }>([
  { name: "a body of a length", text: `${OK}Content-Length: 2\r\n\r\n{}`, body: "{}" },
  { name: "no body", text: `${OK}content-length: 0\r\n\r\n`, body: "" },
  { name: "no content", text: "HTTP/1.1 204 No Content\r\n\r\n", body: "", status: 204 },
  {
    name: "a status without a phrase",
    text: "HTTP/1.1 404\r\ncontent-length: 1\r\n\r\nx",
    body: "x",
    status: 404,
  },
  {
    name: "a status with an empty phrase",
    text: "HTTP/1.1 429 \r\ncontent-length: 0\r\n\r\n",
    body: "",
    status: 429,
  },
  { name: "blanks around a value", text: `${OK}content-length: \t 2 \t\r\n\r\n{}`, body: "{}" },
  {
    name: "chunks",
    text: `${OK}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n`,
    body: "abc0123456789",
  },
  { name: "no chunk but the last", text: `${OK}transfer-encoding: Chunked\r\n\r\n000\r\n\r\n`, body: "" },
  {
    name: "the end of a connection",
    text: `${OK}Connection: foo, Close\r\ncontent-length: 0\r\n\r\n`,
    body: "",
    isReusable: false,
  },
])("AnswerParser reads $name, whole or byte by byte", ({ text, body, status = 200, isReusable = true }) => {
  const whole = parse(text);
  assert.deepEqual([whole?.status, bodyOf(whole), whole?.isReusable], [status, body, isReusable]);
  const parser = new AnswerParser({ maxBytes: 1000 });
  const bytes = encode(text);
  bytes.slice(0, -1).forEach((byte) => assert.equal(parser.push(Uint8Array.of(byte)), undefined));
  assert.deepEqual(bodyOf(parser.push(bytes.slice(-1))), body);
});

Deno.test("AnswerParser gives headers by lowercase name, several of one name joined", () => {
  const { headers } = parse(`${OK}Retry-After: 7\r\nX-A: 1\r\nx-a: \xe9 2\r\ncontent-length: 0\r\n\r\n`) ??
    {};
  assert.deepEqual({ ...headers }, { "retry-after": "7", "x-a": "1, \xe9 2", "content-length": "0" });
  assert.equal(Object.getPrototypeOf(headers), null, "a header named __proto__ is a header");
});

Deno.test.each([
  { name: "another protocol", text: "SSH-2.0-OpenSSH_9.2\r\n\r\n" },
  { name: "HTTP/1.0", text: "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n" },
  { name: "an interim answer", text: "HTTP/1.1 100 Continue\r\n\r\n" },
  { name: "a status of two digits", text: "HTTP/1.1 20 OK\r\ncontent-length: 0\r\n\r\n" },
  { name: "a blank line first", text: "\r\n\r\n" },
  { name: "no length", text: `${OK}\r\n` },
  { name: "two lengths", text: `${OK}content-length: 1\r\ncontent-length: 1\r\n\r\nx` },
  { name: "a list of lengths", text: `${OK}content-length: 1, 1\r\n\r\nx` },
  { name: "a negative length", text: `${OK}content-length: -1\r\n\r\n` },
  { name: "a length in words", text: `${OK}content-length: 0x1\r\n\r\nx` },
  { name: "a length with a sign", text: `${OK}content-length: +1\r\n\r\nx` },
  {
    name: "length and chunks",
    text: `${OK}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
  },
  { name: "another coding", text: `${OK}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n` },
  {
    name: "chunks twice",
    text: `${OK}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
  },
  { name: "a blank before a colon", text: `${OK}content-length : 0\r\n\r\n` },
  { name: "a folded header", text: `${OK}content-length: 0\r\n x: y\r\n\r\n` },
  { name: "a header without a name", text: `${OK}: 0\r\ncontent-length: 0\r\n\r\n` },
  { name: "a NUL in a header", text: `${OK}x: \0\r\ncontent-length: 0\r\n\r\n` },
  { name: "a bare line feed", text: `${OK}x: y\ncontent-length: 0\r\n\r\n` },
  { name: "a bare carriage return", text: `${OK}x: y\rcontent-length: 0\r\n\r\n` },
  { name: "bytes after the end", text: `${OK}content-length: 1\r\n\r\nxHTTP/1.1 200 OK` },
  { name: "bytes after the last chunk", text: `${OK}transfer-encoding: chunked\r\n\r\n0\r\n\r\nx` },
  { name: "bytes after no content", text: "HTTP/1.1 204 No Content\r\n\r\nx" },
  { name: "a trailer", text: `${OK}transfer-encoding: chunked\r\n\r\n0\r\nx: y\r\n\r\n` },
  { name: "a chunk that is longer", text: `${OK}transfer-encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n` },
  { name: "a chunk without size", text: `${OK}transfer-encoding: chunked\r\n\r\n\r\n` },
  { name: "a chunk with a negative size", text: `${OK}transfer-encoding: chunked\r\n\r\n-1\r\n` },
  { name: "a chunk with an absurd size", text: `${OK}transfer-encoding: chunked\r\n\r\n100000000\r\n` },
  { name: "a chunk line without end", text: `${OK}transfer-encoding: chunked\r\n\r\n1;${"x".repeat(2000)}` },
  { name: "a head without end", text: `${OK}x: ${"y".repeat(17_000)}` },
  { name: "a head that is too long", text: `${OK}x: ${"y".repeat(17_000)}\r\ncontent-length: 0\r\n\r\n` },
])("AnswerParser refuses $name", ({ text }) => {
  assert.throws(() => parse(text), MalformedAnswer);
});

Deno.test.each([
  { name: "announced", text: `${OK}content-length: 1001\r\n\r\n` },
  { name: "that comes", text: `${OK}transfer-encoding: chunked\r\n\r\n3e9\r\n${"x".repeat(1001)}` },
])("AnswerParser refuses a body beyond the limit as soon as it is $name", ({ text }) => {
  assert.throws(() => parse(text), AnswerTooLarge);
});

Deno.test("AnswerParser reads an answer whatever pieces it comes in", () => {
  const chunk = fc.string({ minLength: 1, maxLength: 40, unit: "binary-ascii" });
  fc.assert(
    fc.property(fc.array(chunk), fc.infiniteStream(fc.integer({ min: 1, max: 50 })), (chunks, sizes) => {
      const body = chunks.map((text) => `${text.length.toString(16)}\r\n${text}\r\n`).join("");
      let rest = encode(`${OK}transfer-encoding: chunked\r\n\r\n${body}0\r\n\r\n`);
      const parser = new AnswerParser({ maxBytes: 1 << 20 });
      let answer: Answer | undefined;
      for (const size of sizes) {
        if (rest.length === 0) break;
        assert.equal(answer, undefined);
        answer = parser.push(rest.slice(0, size));
        rest = rest.slice(size);
      }
      assert.equal(bodyOf(answer), chunks.join(""));
    }),
  );
});

Deno.test("AnswerParser gives an answer, asks for more or refuses, whatever the bytes are", () => {
  fc.assert(fc.property(fc.array(fc.uint8Array({ maxLength: 60 })), fc.boolean(), (pieces, isHeaded) => {
    const parser = new AnswerParser({ maxBytes: 100 });
    try {
      if (isHeaded) parser.push(encode(`${OK}transfer-encoding: chunked\r\n\r\n`));
      for (const piece of pieces) if (parser.push(piece) !== undefined) break;
    } catch (error) {
      assert.ok(error instanceof MalformedAnswer || error instanceof AnswerTooLarge);
    }
  }));
});
