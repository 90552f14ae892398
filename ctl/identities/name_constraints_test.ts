import assert from "node:assert/strict";
import { encodeNameConstraints, permits } from "./der.ts";

const der = encodeNameConstraints(["gw.example.org", "10.1.2.3", "fd00::5"]);

Deno.test.each(
  ["localhost", "127.0.0.1", "127.9.9.9", "::1", "gw.example.org", "a.GW.example.org", "10.1.2.3", "fd00::5"]
    .map((name) => ({ name })),
)("a CA for a name may vouch for $name", ({ name }) => {
  assert.equal(permits(der, name), true);
});

Deno.test.each(
  ["example.org", "xgw.example.org", "gw.example.org.evil", "10.1.2.4", "::2", "fd00::6"]
    .map((name) => ({ name })),
)("a CA for a name may not vouch for $name", ({ name }) => {
  assert.equal(permits(der, name), false);
});

Deno.test("a constraint that is cut off permits nothing", () => {
  assert.throws(() => permits(der.subarray(0, 20), "localhost"), RangeError);
});
