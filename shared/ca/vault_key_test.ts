import assert from "node:assert/strict";
import type { JsonWebKey } from "@azure/keyvault-keys";
import { generateKeyPairSync } from "node:crypto";
import { AppError } from "../errors.ts";
import { encodeKeyBlob } from "../ssh/keys.ts";
import { SshReader } from "../ssh/wire_format.ts";
import { sshKeyOf, sshSignatureOf, vaultAlgorithm } from "./vault_answer.ts";

const bytes = (text: string | undefined) => Uint8Array.fromBase64(text ?? "", { alphabet: "base64url" });

function ecKey(
  namedCurve: string,
): Required<Pick<JsonWebKey, "kty" | "crv" | "x" | "y">> {
  const { crv = "", x, y } = generateKeyPairSync("ec", { namedCurve }).publicKey.export({ format: "jwk" });
  return { kty: "EC-HSM", crv, x: bytes(x), y: bytes(y) };
}

Deno.test.each([
  { curve: "P-256", algorithm: "ES256", hash: "sha256", bytes: 32 },
  { curve: "P-384", algorithm: "ES384", hash: "sha384", bytes: 48 },
  { curve: "P-521", algorithm: "ES512", hash: "sha512", bytes: 66 },
])("a key on $curve signs with $algorithm", ({ curve, algorithm, hash, bytes }) => {
  const parts = sshKeyOf(ecKey(curve));
  assert.deepEqual(vaultAlgorithm(parts), { hash, name: algorithm });
  assert.ok(parts.kind === "ecdsa");
  assert.equal(parts.point.length, 1 + 2 * bytes);
});

Deno.test("numbers of a key count, not the zeros before them", () => {
  const key = ecKey("P-256");
  const longer = { ...key, x: Uint8Array.of(0, 0, ...key.x), y: Uint8Array.of(0, ...key.y) };
  assert.deepEqual(encodeKeyBlob(sshKeyOf(longer)), encodeKeyBlob(sshKeyOf(key)));
  // One key in 256 has a number that begins with a zero; some encoders leave it out.
  const short = findShort();
  const trimmed = { ...short, x: short.x.subarray(1) };
  assert.deepEqual(encodeKeyBlob(sshKeyOf(trimmed)), encodeKeyBlob(sshKeyOf(short)));
});

function findShort(): ReturnType<typeof ecKey> {
  for (;;) {
    const key = ecKey("P-256");
    if (key.x[0] === 0) return key;
  }
}

Deno.test("an EC signature becomes two numbers, without zeros and never negative", () => {
  const parts = sshKeyOf(ecKey("P-256"));
  const value = new Uint8Array(64);
  value.set([1, 2], 30);
  value[32] = 0x80;
  const outer = new SshReader(sshSignatureOf(parts, value));
  assert.equal(outer.text(), "ecdsa-sha2-nistp256");
  const inner = outer.nested();
  outer.end();
  assert.deepEqual(inner.string(), Uint8Array.of(1, 2));
  assert.deepEqual(inner.string(), Uint8Array.of(0, 0x80, ...new Uint8Array(31)));
  inner.end();
});

Deno.test.each([{ length: 0 }, { length: 63 }, { length: 65 }, { length: 72 }])(
  "an EC signature of $length bytes is refused",
  ({ length }) => {
    const parts = sshKeyOf(ecKey("P-256"));
    assert.throws(
      () => sshSignatureOf(parts, new Uint8Array(length)),
      (error) => error instanceof AppError && error.code === "upstream_failure",
    );
  },
);

Deno.test("a coordinate that is longer than its curve is refused", () => {
  const key = ecKey("P-256");
  assert.throws(() => sshKeyOf({ ...key, x: Uint8Array.of(1, ...key.x) }), /its numbers do not form a key/);
});
