import assert from "node:assert/strict";
import { AppError, ERROR_CODES } from "../errors.ts";
import {
  entityTagOf,
  isStrongEntityTag,
  namesEntityTag,
  problemResponse,
  readIfNoneMatch,
  readProblem,
  STATUS,
} from "./problem.ts";

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
