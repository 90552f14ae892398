import assert from "node:assert/strict";
import { reasonOf } from "./exchange.ts";

Deno.test.each([
  {
    message: "error sending request for url (http://a/): client error (Connect): dns error: failed to lookup",
    reason: ": dns error: failed to lookup",
  },
  { message: "http://a/secret", reason: "" },
])("reasonOf() returns no part of a URL: $message", ({ message, reason }) => {
  assert.equal(reasonOf(new TypeError("fetch failed", { cause: new Error(message) })), reason);
});
