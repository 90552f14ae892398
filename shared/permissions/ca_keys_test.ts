import assert from "node:assert/strict";
import { caKeyFiles } from "./ca_keys.ts";

Deno.test("caKeyFiles() tells the key of a group called ca_key from the one for all others", () => {
  const ca_keys = { ca_key: { type: "pem", path: "group" }, "eu.prod": { type: "pem", path: "eu" } } as const;
  assert.deepEqual(caKeyFiles({ ca_key: "all", ca_keys }), {
    ca_key: "all",
    "ca_keys.ca_key": "group",
    'ca_keys["eu.prod"]': "eu",
  });
});
