import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { accepts, allowedHostnames, checkBatch, checkHost, checkOrigin } from "./http_headers.ts";

const ALLOWED = allowedHostnames("https://gateway.example:8443/mcp");
const isForbidden = (error: unknown) => error instanceof AppError && error.code === "forbidden";

Deno.test.each([
  { host: "gateway.example" },
  { host: "gateway.example:8443" },
  { host: "GATEWAY.example" },
  { host: "localhost:8443" },
  { host: "127.0.0.1:8443" },
  { host: "[::1]:8443" },
])("checkHost() lets $host pass", ({ host }) => {
  checkHost(new Headers({ host }), ALLOWED);
});

Deno.test.each([
  { host: "evil.example" },
  { host: "gateway.example.evil.example" },
  { host: "evil.example@gateway.example.evil" },
  { host: "127.0.0.1.nip.example" },
  { host: "gateway.example, evil.example" },
  { host: "" },
])("checkHost() refuses '$host'", ({ host }) => {
  assert.throws(() => checkHost(new Headers({ host }), ALLOWED), isForbidden);
});

Deno.test("checkHost() refuses a request that names no host", () => {
  assert.throws(() => checkHost(new Headers(), ALLOWED), isForbidden);
});

Deno.test.each([
  { name: "no origin", headers: {} },
  { name: "the resource's own", headers: { origin: "https://gateway.example:8443" } },
  { name: "a page on this machine", headers: { origin: "http://localhost:6274" } },
])("checkOrigin() lets pass $name", ({ headers }) => {
  checkOrigin(new Headers(headers), ALLOWED);
});

Deno.test.each([
  { origin: "https://evil.example" },
  { origin: "null" },
  { origin: "https://gateway.example.evil.example" },
  { origin: "chrome-extension://abcdef" },
  { origin: "not a URL" },
])("checkOrigin() refuses $origin", ({ origin }) => {
  assert.throws(() => checkOrigin(new Headers({ origin }), ALLOWED), isForbidden);
});

const BOTH = ["application/json", "text/event-stream"];
Deno.test.each([
  { header: "application/json, text/event-stream", expected: true },
  { header: "text/event-stream;q=0.5,APPLICATION/JSON", expected: true },
  { header: "*/*", expected: true },
  { header: "application/*, text/*", expected: true },
  { header: "application/json", expected: false },
  { header: "text/event-stream", expected: false },
  { header: "application/jsonx, text/event-stream", expected: false },
  { header: null, expected: false },
])("accepts() of '$header' is $expected for both", ({ header, expected }) => {
  assert.equal(accepts(header, BOTH), expected);
});

Deno.test.each([
  { name: "a batch without a version", version: undefined, body: [] },
  { name: "a batch of an old version", version: "2025-03-26", body: [] },
  { name: "one message of a new version", version: "2025-11-25", body: {} },
])("checkBatch() lets pass $name", ({ version, body }) => {
  checkBatch(new Headers(version === undefined ? {} : { "mcp-protocol-version": version }), body);
});

Deno.test.each([{ version: "2025-06-18" }, { version: "2025-11-25" }, { version: "2026-07-28" }])(
  "checkBatch() refuses a batch of version $version",
  ({ version }) => {
    assert.throws(
      () => checkBatch(new Headers({ "mcp-protocol-version": version }), []),
      (error) => error instanceof AppError && error.code === "invalid_request",
    );
  },
);
