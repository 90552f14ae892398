import assert from "node:assert/strict";
import { refusedMethods } from "@gateway/shared/testing";
import { SIGNER_ROUTES } from "./app.ts";
import { startSigner } from "./testing/memory_signer.ts";

Deno.test.each([
  { method: "GET", path: "/v1/sign", status: 405, allow: "POST" },
  { method: "PUT", path: "/v1/sign", status: 405, allow: "POST" },
  { method: "POST", path: "/v1/hosts", status: 405, allow: "GET" },
  { method: "GET", path: "/v1/reload", status: 405, allow: "POST" },
  { method: "GET", path: "/v1/nothing", status: 404, allow: null },
  { method: "POST", path: "/v1/sign/", status: 404, allow: null },
])("$method $path answers $status", async ({ method, path, status, allow }) => {
  const answer = await (await startSigner()).send(new Request(`https://signer${path}`, { method }));
  assert.deepEqual([answer.status, answer.headers.get("allow")], [status, allow]);
});

Deno.test.each(refusedMethods(SIGNER_ROUTES))("$method $path is 405 and says $allow", async (row) => {
  const { method, path, allow } = row;
  const answer = await (await startSigner()).send(new Request(`https://signer${path}`, { method }));
  assert.deepEqual([answer.status, answer.headers.get("allow")], [405, allow]);
});
