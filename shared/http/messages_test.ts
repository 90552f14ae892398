import assert from "node:assert/strict";
import * as z from "@zod/zod";
import { AppError, ERROR_CODES, type ErrorCode, STATUS } from "../errors.ts";
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

async function refusalOf(request: Request): Promise<{ readonly code: ErrorCode; readonly message: string }> {
  const error = await readJsonBody(request, { maxBytes: MAX, schema }).then(
    () => undefined,
    (reason) => reason,
  );
  assert.ok(error instanceof AppError, String(error));
  return { code: error.code, message: error.message };
}

Deno.test("readJsonBody() gives what the schema makes of the body, unknown fields dropped", async () => {
  const body = await readJsonBody(post('{"host":"web01","x":1}'), { maxBytes: MAX, schema });
  assert.deepEqual(body, { host: "web01", ttl: 0, tags: [] });
});

Deno.test("readJsonBody() accepts a body of exactly the limit, in one piece or many", async () => {
  const text = JSON.stringify({ host: "a".repeat(MAX - '{"host":""}'.length) });
  assert.equal(text.length, MAX);
  const pieces = () => ReadableStream.from([...text].map(bytesOf));
  for (const body of [text, pieces()]) {
    assert.equal((await readJsonBody(post(body), { maxBytes: MAX, schema })).host.length, MAX - 11);
  }
});

Deno.test("readJsonBody() joins characters that were split between chunks", async () => {
  const bytes = bytesOf('{"host":"ä€😀"}');
  const stream = ReadableStream.from([...bytes].map((byte) => Uint8Array.of(byte)));
  assert.equal((await readJsonBody(post(stream), { maxBytes: MAX, schema })).host, "ä€😀");
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
  assert.equal((await readJsonBody(request, { maxBytes: MAX, schema })).host, "a");
});

Deno.test.each([
  ["is absent where the schema has no null", '{"host":"a","ttl":null,"tags":null}', undefined],
  ["keeps its meaning where the schema has null", '{"host":"a","groups":null}', null],
])("readJsonBody(): a null member %s", async (_name, text, groups) => {
  const { groups: read, ...rest } = await readJsonBody(post(text), { maxBytes: MAX, schema });
  assert.deepEqual(rest, { host: "a", ttl: 0, tags: [] });
  assert.equal(read, groups);
});

Deno.test.each<
  {
    readonly name: string;
    readonly body: () => BodyInit | null;
    readonly code?: ErrorCode;
    readonly message?: RegExp;
  }
>([
  { name: "no body", body: () => null },
  { name: "an empty body", body: () => "" },
  {
    name: "one byte more than the limit",
    body: () => `{"host":"${"a".repeat(MAX - 10)}"}`,
    code: "payload_too_large",
  },
  {
    name: "an endless body (R1)",
    body: () => new ReadableStream({ pull: (controller) => controller.enqueue(bytesOf(" ".repeat(10))) }),
    code: "payload_too_large",
    message: /^Request body is larger than 64 bytes$/,
  },
  {
    name: "a body that breaks off",
    body: () =>
      new ReadableStream({ pull: (controller) => controller.error(new Error("reset by 10.0.0.1")) }),
    message: /^Request body broke off$/,
  },
  {
    name: "half a body",
    body: () => '{"host":"a"',
    message: /^Request body is not valid JSON, or repeats a key$/,
  },
  ...['{"host":"a","host":"b"}', '{"host":"a","h\\u006fst":"a"}', '{"host":"a","x":[{"y":1,"y":1}]}'].map((
    text,
  ) => ({
    name: `a repeated key: ${text}`,
    body: () => text,
  })),
  {
    name: "null for a key that must be there",
    body: () => '{"host":null}',
    message: /^Invalid host: expected string, received null$/,
  },
  { name: "bytes that are not UTF-8", body: () => Uint8Array.of(0x22, 0xff, 0x22), message: /UTF-8/ },
  { name: "a byte order mark", body: () => Uint8Array.of(0xef, 0xbb, 0xbf, ...bytesOf("{}")) },
  { name: "null", body: () => "null", message: /^Invalid request body: / },
  { name: "a list", body: () => "[]", message: /^Invalid request body: / },
  { name: "a missing key", body: () => "{}", message: /^Invalid host: / },
  { name: "a fraction", body: () => '{"host":"a","ttl":1.5}', message: /^Invalid ttl: / },
  {
    name: "a large integer",
    body: () => '{"host":"a","ttl":12345678901234567890}',
    message: /^Invalid ttl: /,
  },
  { name: "a wrong entry", body: () => '{"host":"a","tags":["x",1]}', message: /^Invalid tags\[1\]: / },
])("readJsonBody() refuses $name", async ({ body, code = "invalid_request", message }) => {
  const refusal = await refusalOf(post(body()));
  assert.equal(refusal.code, code, refusal.message);
  if (message !== undefined) assert.match(refusal.message, message);
});

Deno.test("readJsonBody() refuses an announced size without reading (R1)", async () => {
  let pulled = 0;
  const body = new ReadableStream({ pull: () => void pulled++ }, { highWaterMark: 0 });
  const headers = { "content-type": "application/json", "content-length": "65" };
  assert.equal((await refusalOf(post(body, headers))).code, "payload_too_large");
  assert.equal(pulled, 0);
});

Deno.test("readJsonBody() survives nesting as deep as the limit allows", async () => {
  const maxBytes = 65_536;
  for (const text of [`{"host":"a","x":${"[".repeat(32_000)}${"]".repeat(32_000)}}`, "[".repeat(maxBytes)]) {
    await readJsonBody(post(text), { maxBytes, schema }).catch((error) => {
      assert.ok(error instanceof AppError && error.code === "invalid_request", String(error));
    });
  }
});

Deno.test("readJsonBody() makes strings well formed", async () => {
  const body = await readJsonBody(post(String.raw`{"host":"a\ud800"}`), { maxBytes: MAX, schema });
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
    assert.deepEqual(body, {
      type: "about:blank",
      status: STATUS[code],
      detail: "What went wrong",
      code,
      request_id: "r1",
    });
  },
);

Deno.test.each([
  { name: "an Error", error: new Error("/etc/gateway/ca_key") },
  { name: "a TypeError", error: new TypeError("/etc/gateway/ca_key") },
  { name: "an imitation", error: { name: "AppError", code: "denied", message: "/etc/gateway/ca_key" } },
  { name: "a string", error: "/etc/gateway/ca_key" },
  { name: "nothing", error: undefined },
])("problemResponse() tells nothing of $name (I19)", async ({ error }) => {
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

Deno.test("problemResponse() names the allowed methods only for 405", () => {
  const allow = ["GET", "HEAD"];
  assert.equal(
    problemResponse(new AppError("method_not_allowed", "No"), { allow }).headers.get("allow"),
    "GET, HEAD",
  );
  assert.equal(problemResponse(new AppError("not_found", "No"), { allow }).headers.get("allow"), null);
});

Deno.test.each<
  [name: string, reply: Partial<Parameters<typeof readProblem>[0]>, detail: string, more: { code?: string }]
>([
  ["a problem", { body: { detail: "no", code: "denied" } }, "no", { code: "denied" }],
  ["a code of another status", { body: { detail: "no", code: "rate_limited" } }, "no", {}],
  ["a code that nobody knows", { body: { detail: "no", code: "teapot" } }, "no", {}],
  ["a code that is not a text", { body: { detail: "no", code: 7 } }, "no", {}],
  ["a code without words", { body: { code: "denied" }, text: '{"code":"denied"}' }, '{"code":"denied"}', {
    code: "denied",
  }],
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

Deno.test("entityTagOf() is the SHA-256 of the text, as RFC 9110 writes a strong tag", () => {
  // printf abc | sha256sum | xxd -r -p | base64 | tr +/ -_
  assert.equal(entityTagOf("abc"), '"ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"');
  assert.ok(isStrongEntityTag(entityTagOf("")));
});

Deno.test.each([
  { name: "nothing", header: null, names: false },
  { name: "the tag", header: '"a"', names: true },
  { name: "the tag, weak", header: 'W/"a"', names: true },
  { name: "another tag", header: '"b"', names: false },
  { name: "a tag that begins like it", header: '"ab"', names: false },
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
])("namesEntityTag() in $name: $names", ({ header, names }) => {
  assert.equal(namesEntityTag(header, '"a"'), names);
});

Deno.test("readIfNoneMatch() gives back what it understands as it is", () => {
  assert.equal(readIfNoneMatch('"a", W/"b"'), '"a", W/"b"');
  assert.equal(readIfNoneMatch("a"), undefined);
  assert.equal(readIfNoneMatch(`${'"a", '.repeat(100_000)}a`), undefined, "at once");
});

Deno.test.each(["", "a", 'W/"a"', '"a', '""', '"a", "b"', '"\u00e4"', `"${"a".repeat(129)}"`])(
  "isStrongEntityTag() refuses %o",
  (value) => assert.equal(isStrongEntityTag(value), false),
);
