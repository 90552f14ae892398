import assert from "node:assert/strict";
import { LIST, McpHttpFixture } from "../testing/mcp_http_fixture.ts";
import { accepts } from "./mcp_http.ts";

/** The challenge for a missing token comes after the checks of Host and Origin. */
async function statusOf(headers: Record<string, string>): Promise<number | string> {
  await using frontend = new McpHttpFixture();
  return await frontend.send({ headers, body: LIST }).then(({ status }) => status, ({ message }) => message);
}

Deno.test.each([
  { headers: { host: "gateway.example" } },
  { headers: { host: "gateway.example:8443" } },
  { headers: { host: "GATEWAY.example" } },
  { headers: { host: "localhost:8443" } },
  { headers: { host: "127.0.0.1:8443" } },
  { headers: { host: "[::1]:8443" } },
  { headers: { origin: "https://gateway.example:8443" } },
  { headers: { origin: "http://localhost:6274" } },
])("createMcpHttp() lets $headers pass", async ({ headers }) => {
  assert.equal(await statusOf(headers), 401);
});

Deno.test.each([
  { host: "evil.example" },
  { host: "gateway.example.evil.example" },
  { host: "evil.example@gateway.example.evil" },
  { host: "127.0.0.1.nip.example" },
  { host: "gateway.example, evil.example" },
  { host: "" },
])("createMcpHttp() refuses the Host '$host'", async ({ host }) => {
  assert.equal(await statusOf({ host }), "Forbidden: invalid Host header");
});

Deno.test.each([
  { origin: "https://evil.example" },
  { origin: "null" },
  { origin: "https://gateway.example.evil.example" },
  { origin: "chrome-extension://abcdef" },
  { origin: "not a URL" },
])("createMcpHttp() refuses the Origin $origin", async ({ origin }) => {
  assert.equal(await statusOf({ origin }), "Forbidden: invalid Origin header");
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
  { version: undefined, refused: false },
  { version: "2025-03-26", refused: false },
  { version: "2025-06-18", refused: true },
  { version: "2025-11-25", refused: true },
  { version: "2026-07-28", refused: true },
])("createMcpHttp() on a batch of version $version: refused is $refused", async ({ version, refused }) => {
  await using frontend = new McpHttpFixture();
  const headers = version === undefined ? {} : { "mcp-protocol-version": version };
  const { code, message } = await frontend.refusalOf({ token: "alice", headers, body: [LIST] });
  assert.equal(code, "invalid_request");
  assert.equal(/know no batches$/.test(message), refused, message);
});
