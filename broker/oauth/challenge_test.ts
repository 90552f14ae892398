import assert from "node:assert/strict";
import { type BearerRefusal, challengeResponse } from "./challenge.ts";

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
    refusal: { code: "invalid_request", reason: "a token must not stand in the URL" },
    status: 400,
    detail: "a token must not stand in the URL",
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
  const response = challengeResponse({ metadataUrl: METADATA_URL, scopes: ["mcp", "ssh"] }, refusal);
  assert.equal(response.status, status);
  assert.equal(response.headers.get("www-authenticate"), header);
  assert.equal((await response.json()).detail, detail);
});

Deno.test("challengeResponse() names no scope where none is required", () => {
  const response = challengeResponse({ metadataUrl: METADATA_URL, scopes: [] }, { code: "no_token" });
  assert.equal(response.headers.get("www-authenticate"), `Bearer ${METADATA}`);
});
