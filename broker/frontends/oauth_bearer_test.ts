import assert from "node:assert/strict";
import { type BearerRefusal, challengeResponse, readBearer } from "./oauth.ts";

const URL = "https://localhost/mcp";

Deno.test.each([
  { name: "the usual form", value: "Bearer abc.def.ghi" },
  { name: "a scheme in lower case", value: "bearer abc.def.ghi" },
  { name: "a scheme in upper case", value: "BEARER abc.def.ghi" },
  { name: "several blanks and a tab between", value: "Bearer  \tabc.def.ghi" },
])("readBearer() takes $name", ({ value }) => {
  const headers = new Headers({ authorization: value });
  assert.deepEqual(readBearer({ headers, url: URL }), "abc.def.ghi");
});

Deno.test.each<{ name: string; headers: [string, string][]; url?: string }>([
  { name: "no header", headers: [] },
  { name: "an empty header", headers: [["authorization", ""]] },
  { name: "the scheme alone", headers: [["authorization", "Bearer"]] },
  { name: "the token alone", headers: [["authorization", "abc.def.ghi"]] },
  { name: "another scheme", headers: [["authorization", "Basic YTpi"]] },
  { name: "a scheme that only begins alike", headers: [["authorization", "BearerX abc"]] },
  { name: "three fields", headers: [["authorization", "Bearer abc def"]] },
  { name: "two headers", headers: [["authorization", "Bearer abc"], ["authorization", "Bearer def"]] },
  { name: "two headers, the first empty", headers: [["authorization", ""], ["authorization", "Bearer def"]] },
  { name: "a token in another header", headers: [["x-access-token", "abc"], ["cookie", "access_token=abc"]] },
  { name: "a token in the URL", headers: [], url: `${URL}?access_token=abc` },
])("readBearer() finds no token in $name", ({ headers, url = URL }) => {
  assert.deepEqual(readBearer({ headers: new Headers(headers), url }), { code: "no_token" });
});

Deno.test("readBearer() refuses a token that stands in the URL as well", () => {
  const headers = new Headers({ authorization: "Bearer abc" });
  assert.deepEqual(readBearer({ headers, url: `${URL}?access_token=abc` }), {
    code: "invalid_request",
    reason: "a token must not be in the URL",
  });
});

const METADATA_URL = "https://gateway.example/.well-known/oauth-protected-resource/mcp";
const METADATA = `resource_metadata="${METADATA_URL}"`;

Deno.test.each<{ refusal: BearerRefusal; status: number; detail: string; header: string }>([
  {
    refusal: { code: "no_token" },
    status: 401,
    detail: "no bearer token",
    header: `Bearer ${METADATA}, scope="mcp ssh"`,
  },
  {
    refusal: { code: "invalid_request", reason: "a token must not be in the URL" },
    status: 400,
    detail: "a token must not be in the URL",
    header: `Bearer ${METADATA}, scope="mcp ssh", error="invalid_request"`,
  },
  {
    refusal: { code: "invalid_token", reason: "token expired" },
    status: 401,
    detail: "invalid token: token expired",
    header: `Bearer ${METADATA}, scope="mcp ssh", error="invalid_token"`,
  },
  {
    refusal: { code: "insufficient_scope", reason: "insufficient scope" },
    status: 403,
    detail: "insufficient scope",
    header: `Bearer ${METADATA}, scope="mcp ssh", error="insufficient_scope"`,
  },
])("challengeResponse() answers $status to $refusal.code", async ({ refusal, status, detail, header }) => {
  const response = challengeResponse(
    { resourceUrl: "https://gateway.example/mcp", scopes: ["mcp", "ssh"] },
    refusal,
  );
  assert.equal(response.status, status);
  assert.equal(response.headers.get("www-authenticate"), header);
  assert.equal((await response.json()).detail, detail);
});

Deno.test("challengeResponse() names no scope where none is required", () => {
  const response = challengeResponse({ resourceUrl: "https://gateway.example/mcp", scopes: [] }, {
    code: "no_token",
  });
  assert.equal(response.headers.get("www-authenticate"), `Bearer ${METADATA}`);
});
