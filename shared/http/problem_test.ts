import assert from "node:assert/strict";
import { AppError, ERROR_CODES } from "../errors.ts";
import { problemResponse, STATUS } from "./problem.ts";

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
      ...(response.status >= 500 ? { request_id: "r1" } : {}),
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
