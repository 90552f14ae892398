import assert from "node:assert/strict";
import { serialize } from "./sbom.ts";

const LOCK = {
  npm: { "@hono/x@1.0.0_zod@4.0.0": { integrity: `sha512-${btoa("\x01".repeat(64))}` }, "zod@4.0.0": {} },
};

Deno.test("serialize() names a package by its purl, with the hash that deno.lock pins, peers or not", () => {
  const packages = [{ name: "@hono/x", version: "1.0.0" }];
  const bill = JSON.parse(serialize({ version: "0.1.0", epoch: 0, packages, lock: LOCK }));
  assert.equal(bill.metadata.component.version, "0.1.0");
  assert.equal(bill.metadata.timestamp, "1970-01-01T00:00:00.000Z");
  const [hono, deno] = bill.components;
  assert.equal(deno.name, "deno");
  assert.equal(hono.purl, "pkg:npm/%40hono/x@1.0.0");
  assert.deepEqual(hono.hashes, [{ alg: "SHA-512", content: "01".repeat(64) }]);
});

Deno.test("serialize() refuses a package without a hash", () => {
  const packages = [{ name: "zod", version: "4.0.0" }];
  assert.throws(() => serialize({ version: "0.1.0", epoch: 0, packages, lock: LOCK }), /no hash/);
});
