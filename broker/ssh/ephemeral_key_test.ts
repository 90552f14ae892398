import assert from "node:assert/strict";
import { createPublicKey, verify } from "node:crypto";
import { inspect } from "node:util";
import { parseEd25519PublicKey } from "@gateway/shared/ssh";
import { createEphemeralKey } from "./certificate_auth.ts";

Deno.test("createEphemeralKey() signs with the key that it shows", () => {
  const key = createEphemeralKey();
  const x = parseEd25519PublicKey(key.publicKeyLine).toBase64({ alphabet: "base64url", omitPadding: true });
  const publicKey = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
  const data = Uint8Array.of(1, 2, 3);
  assert.ok(verify(null, data, publicKey, key.sign(data)));
  assert.equal(key.sign(data).length, 64);
});

Deno.test("createEphemeralKey() makes another key each time", () => {
  assert.notEqual(createEphemeralKey().publicKeyLine, createEphemeralKey().publicKeyLine);
});

Deno.test("createEphemeralKey() shows no private half", () => {
  const key = createEphemeralKey();
  assert.deepEqual(JSON.parse(JSON.stringify(key)), { publicKeyLine: key.publicKeyLine });
  assert.doesNotMatch(inspect(key, { depth: null, showHidden: true }), /private/i);
});
