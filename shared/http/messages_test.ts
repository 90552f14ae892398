import assert from "node:assert/strict";
import * as z from "@zod/zod";
import { AppError, ERROR_CODES, STATUS } from "../errors.ts";
import { readJsonBody, requireJsonType } from "./messages.ts";
import {
  entityTagOf,
  isStrongEntityTag,
  namesEntityTag,
  problemResponse,
  readIfNoneMatch,
  readProblem,
} from "./problem.ts";

const schema = z.object({
  host: z.string(),
  ttl: z.int().default(0),
  tags: z.array(z.string()).default([]),
  groups: z.array(z.string()).nullable().optional(),
});
const MAX = 64;

function post(body: BodyInit | null, headers: HeadersInit = { "content-type": "application/json" }): Request {
  return new Request("https://localhost/", { method: "POST", body, headers });
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

const read = (request: Request, maxBytes = MAX) => readJsonBody(request, { maxBytes, schema });
const refused = (message: RegExp, code = "invalid_request") => ({ name: "AppError", code, message });

Deno.test("readJsonBody() returns the schema's output and drops unknown fields", async () => {
  const body = await read(post('{"host":"web01","x":1}'));
  assert.deepEqual(body, { host: "web01", ttl: 0, tags: [] });
});

Deno.test("readJsonBody() accepts a body of exactly the limit, in one or many chunks", async () => {
  const text = JSON.stringify({ host: "a".repeat(MAX - '{"host":""}'.length) });
  assert.equal(text.length, MAX);
  const pieces = () => ReadableStream.from([...text].map(bytesOf));
  for (const body of [text, pieces()]) {
    assert.equal((await read(post(body))).host.length, MAX - 11);
  }
});

Deno.test("readJsonBody() joins characters that were split between chunks", async () => {
  const bytes = bytesOf('{"host":"ä€😀"}');
  const stream = ReadableStream.from([...bytes].map((byte) => Uint8Array.of(byte)));
  assert.equal((await read(post(stream))).host, "ä€😀");
});

Deno.test.each([
  "application/json",
  "Application/JSON",
  "application/json; charset=utf-8",
  " application/json ;x=y",
].map((type) => ({ type })))("requireJsonType() accepts content type '$type'", ({ type }) => {
  requireJsonType(post('{"host":"a"}', { "content-type": type }));
});

Deno.test.each<{ readonly name: string; readonly headers: Record<string, string> }>([
  { name: "no content type", headers: {} },
  { name: "text", headers: { "content-type": "text/plain" } },
  { name: "a form", headers: { "content-type": "application/x-www-form-urlencoded" } },
  { name: "a relative of JSON", headers: { "content-type": "application/jsonp" } },
  { name: "a list of types", headers: { "content-type": "application/json, text/plain" } },
  { name: "problem+json", headers: { "content-type": "application/problem+json" } },
])("requireJsonType() rejects $name, readJsonBody() accepts it", async ({ headers }) => {
  const request = post(bytesOf('{"host":"a"}'), headers);
  assert.throws(() => requireJsonType(request), { code: "unsupported_media_type" });
  assert.equal((await read(request)).host, "a");
});

Deno.test.each([
  ["is absent where the schema has no null", '{"host":"a","ttl":null,"tags":null}', undefined],
  ["keeps its meaning where the schema has null", '{"host":"a","groups":null}', null],
])("readJsonBody(): a null member %s", async (_name, text, groups) => {
  const { groups: found, ...rest } = await read(post(text));
  assert.deepEqual(rest, { host: "a", ttl: 0, tags: [] });
  assert.equal(found, groups);
});

const TOO_LARGE = refused(/^Request body is larger than 64 bytes$/, "payload_too_large");
const NO_JSON = refused(/^Request body is not valid JSON, or repeats a key$/);
const INVALID = refused(/^Invalid request body: /);

Deno.test.each<[name: string, body: BodyInit | null, refusal: object]>([
  ["no body", null, NO_JSON],
  ["an empty body", "", NO_JSON],
  ["one byte more than the limit", `{"host":"${"a".repeat(MAX - 10)}"}`, TOO_LARGE],
  [
    "an endless body (R1)",
    new ReadableStream({ pull: (controller) => controller.enqueue(bytesOf(" ".repeat(10))) }),
    TOO_LARGE,
  ],
  [
    "a body that breaks off",
    new ReadableStream({ pull: (controller) => controller.error(new Error("reset by 10.0.0.1")) }),
    refused(/^Request body broke off$/),
  ],
  ["half a body", '{"host":"a"', NO_JSON],
  ["a repeated key", '{"host":"a","host":"b"}', NO_JSON],
  ["a repeated key, escaped", '{"host":"a","h\\u006fst":"a"}', NO_JSON],
  ["a repeated key further down", '{"host":"a","x":[{"y":1,"y":1}]}', NO_JSON],
  [
    "null for a key that must be there",
    '{"host":null}',
    refused(/^Invalid host: expected string, received null$/),
  ],
  ["bytes that are not UTF-8", Uint8Array.of(0x22, 0xff, 0x22), refused(/UTF-8/)],
  ["a byte order mark", Uint8Array.of(0xef, 0xbb, 0xbf, ...bytesOf("{}")), NO_JSON],
  ["null", "null", INVALID],
  ["a list", "[]", INVALID],
  ["a missing key", "{}", refused(/^Invalid host: /)],
  ["a fraction", '{"host":"a","ttl":1.5}', refused(/^Invalid ttl: /)],
  ["a large integer", '{"host":"a","ttl":12345678901234567890}', refused(/^Invalid ttl: /)],
  ["a wrong entry", '{"host":"a","tags":["x",1]}', refused(/^Invalid tags\[1\]: /)],
])("readJsonBody() rejects %s", (_name, body, refusal) => assert.rejects(read(post(body)), refusal));

Deno.test("readJsonBody() rejects an announced size over the limit without reading (R1)", async () => {
  let pulled = 0;
  const body = new ReadableStream({ pull: () => void pulled++ }, { highWaterMark: 0 });
  const headers = { "content-type": "application/json", "content-length": "65" };
  await assert.rejects(read(post(body, headers)), { code: "payload_too_large" });
  assert.equal(pulled, 0);
});

Deno.test("readJsonBody() accepts nesting as deep as the limit allows", async () => {
  const maxBytes = 65_536;
  for (const text of [`{"host":"a","x":${"[".repeat(32_000)}${"]".repeat(32_000)}}`, "[".repeat(maxBytes)]) {
    await read(post(text), maxBytes).catch(({ code }) => assert.equal(code, "invalid_request"));
  }
});

Deno.test("readJsonBody() replaces lone surrogates in strings", async () => {
  const body = await read(post(String.raw`{"host":"a\ud800"}`));
  assert.equal(body.host, "a\ufffd");
});

Deno.test.each(ERROR_CODES.map((code) => ({ code })))(
  "problemResponse() describes $code",
  async ({ code }) => {
    const error = new AppError(code, "What went wrong", { cause: new Error("/etc/gateway") });
    const response = problemResponse(error, { requestId: "r1", allow: ["GET"] });
    assert.equal(response.status, STATUS[code]);
    assert.equal(response.headers.get("content-type"), "application/problem+json");
    assert.equal(response.headers.get("x-content-type-options"), "nosniff");
    assert.equal(response.headers.get("cache-control"), "no-store");
    const { title, ...body } = await response.json();
    assert.match(title, /^[A-Z][A-Za-z ]+$/);
    const told = { status: STATUS[code], detail: "What went wrong", code, request_id: "r1" };
    assert.deepEqual(body, { type: "about:blank", ...told });
  },
);

Deno.test.each([
  { name: "an Error", error: new Error("/etc/gateway/ca_key") },
  { name: "a TypeError", error: new TypeError("/etc/gateway/ca_key") },
  { name: "an imitation", error: { name: "AppError", code: "denied", message: "/etc/gateway/ca_key" } },
  { name: "a string", error: "/etc/gateway/ca_key" },
  { name: "undefined", error: undefined },
])("problemResponse() exposes no detail of $name (I19)", async ({ error }) => {
  const response = problemResponse(error);
  assert.equal(response.status, 500);
  assert.deepEqual(await response.json(), {
    type: "about:blank",
    title: "Internal Server Error",
    status: 500,
    detail: "The request failed because of a fault inside the service",
    code: "internal",
  });
});

Deno.test.each([
  { seconds: 1, header: "1" },
  { seconds: 0.2, header: "1" },
  { seconds: 59.1, header: "60" },
])("problemResponse() rounds Retry-After up: $seconds", ({ seconds, header }) => {
  const response = problemResponse(new AppError("rate_limited", "Too many", { retryAfterSeconds: seconds }));
  assert.equal(response.headers.get("retry-after"), header);
});

Deno.test("problemResponse() includes the allowed methods only for 405", () => {
  const allow = ["GET", "HEAD"];
  for (const [code, named] of [["method_not_allowed", "GET, HEAD"], ["not_found", null]] as const) {
    assert.equal(problemResponse(new AppError(code, "No"), { allow }).headers.get("allow"), named);
  }
});

Deno.test.each<
  [name: string, reply: Partial<Parameters<typeof readProblem>[0]>, detail: string, more: { code?: string }]
>([
  ["a problem", { body: { detail: "no", code: "denied" } }, "no", { code: "denied" }],
  ["a code of another status", { body: { detail: "no", code: "rate_limited" } }, "no", {}],
  ["an unknown code", { body: { detail: "no", code: "teapot" } }, "no", {}],
  ["a code that is not a text", { body: { detail: "no", code: 7 } }, "no", {}],
  ["a code without words", { body: { code: "denied" }, text: "{}" }, "{}", { code: "denied" }],
  ["a detail that is not a text", { body: { detail: 7 }, text: '{"detail":7}' }, '{"detail":7}', {}],
  ["a text", { text: " no\n" }, "no", {}],
  ["a list", { body: [], text: "[]" }, "[]", {}],
  ["nothing", {}, "no reason given", {}],
  ["an empty detail", { body: { detail: "" }, text: "{}" }, "no reason given", {}],
  ["a long detail", { body: { detail: "a".repeat(1001) } }, `${"a".repeat(1000)}…`, {}],
  ["a long text", { text: "a".repeat(1001) }, `${"a".repeat(1000)}…`, {}],
])("readProblem() of %s", (_name, reply, detail, { code }) => {
  assert.deepEqual(readProblem({ status: 403, body: undefined, text: "", ...reply }), { detail, code });
});

Deno.test.each(ERROR_CODES.map((code) => ({ code })))(
  "readProblem() understands $code as it was written",
  async ({ code }) => {
    const response = problemResponse(new AppError(code, "What went wrong"));
    const text = await response.text();
    const reply = { status: response.status, body: JSON.parse(text), text };
    assert.deepEqual(readProblem(reply), { detail: "What went wrong", code });
  },
);

Deno.test("entityTagOf() returns the SHA-256 of the text as a strong tag of RFC 9110", () => {
  // printf abc | sha256sum | xxd -r -p | base64 | tr +/ -_
  assert.equal(entityTagOf("abc"), '"ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"');
  assert.ok(isStrongEntityTag(entityTagOf("")));
});

Deno.test.each([
  { name: "nothing", header: null, names: false },
  { name: "the tag", header: '"a"', names: true },
  { name: "the tag, weak", header: 'W/"a"', names: true },
  { name: "another tag", header: '"b"', names: false },
  { name: "a tag with the same prefix", header: '"ab"', names: false },
  { name: "a list with the tag", header: '"b", W/"c","a"', names: true },
  { name: "a comma within a tag", header: '"b,a"', names: false },
  { name: "anything", header: "*", names: true },
  { name: "anything in a list", header: '*, "a"', names: false },
  { name: "the tag without quotes", header: "a", names: false },
  { name: "the tag with an open quote", header: '"a', names: false },
  { name: "the tag and something else", header: '"a" "b"', names: false },
  { name: "an empty member", header: '"a",', names: false },
  { name: "a line break", header: '"a"\r\nx: y', names: false },
  { name: "a tab", header: '"b",\t"a"', names: false },
])("namesEntityTag() of a header with $name is $names", ({ header, names }) => {
  assert.equal(namesEntityTag(header, '"a"'), names);
});

Deno.test("readIfNoneMatch() returns a valid header unchanged", () => {
  assert.equal(readIfNoneMatch('"a", W/"b"'), '"a", W/"b"');
  assert.equal(readIfNoneMatch("a"), undefined);
  assert.equal(readIfNoneMatch(`${'"a", '.repeat(100_000)}a`), undefined, "at once");
});

Deno.test.each(["", "a", 'W/"a"', '"a', '""', '"a", "b"', '"\u00e4"', `"${"a".repeat(129)}"`])(
  "isStrongEntityTag() refuses %o",
  (value) => assert.equal(isStrongEntityTag(value), false),
);
