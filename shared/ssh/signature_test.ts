import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { ECDSA_CURVES, encodeKeyBlob, verifySignature } from "./keys.ts";
import { encodeOpensshPrivateKey } from "./openssh_key.ts";
import { parsePrivateKey } from "../ca/pem.ts";
import { SshReader, SshWriter } from "./wire_format.ts";

// RFC 8032 section 7.1, test 2.
const SEED = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb";
const POINT = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
const MESSAGE = Uint8Array.of(0x72);
const SIGNATURE = "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da" +
  "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00";

const publicKey = encodeKeyBlob({ kind: "ed25519", point: Uint8Array.fromHex(POINT) });
const value = Uint8Array.fromHex(SIGNATURE);
const blob = (algorithm: string, bytes: Uint8Array) => new SshWriter().text(algorithm).string(bytes).bytes();

Deno.test("an Ed25519 signature is that of RFC 8032", () => {
  const key = parsePrivateKey(encodeOpensshPrivateKey(Uint8Array.fromHex(SEED), ""));
  assert.deepEqual(key.publicKey, publicKey);
  const reader = new SshReader(key.sign(MESSAGE));
  assert.equal(reader.text(), "ssh-ed25519");
  assert.equal(reader.string().toHex(), SIGNATURE);
  reader.end();
});

Deno.test.each([
  { name: "Ed25519", key: generateKeyPairSync("ed25519").privateKey },
  { name: "RSA", key: generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey },
  ...ECDSA_CURVES.map(({ jwk }) => ({
    name: `ECDSA on ${jwk}`,
    key: generateKeyPairSync("ec", { namedCurve: jwk }).privateKey,
  })),
])("signing aside makes the same blob as signing does: $name", async ({ key }) => {
  const { publicKey, sign, signAside } = parsePrivateKey(
    String(key.export({ type: "pkcs8", format: "pem" })),
  );
  const [here, aside] = [sign(MESSAGE), await signAside(MESSAGE)];
  assert.equal(new SshReader(aside).text(), new SshReader(here).text());
  assert.ok(verifySignature(publicKey, here, MESSAGE));
  assert.ok(verifySignature(publicKey, aside, MESSAGE));
});

Deno.test("verifySignature() believes it", () => {
  assert.ok(verifySignature(publicKey, blob("ssh-ed25519", value), MESSAGE));
});

Deno.test.each([
  { name: "another message", signature: blob("ssh-ed25519", value), data: Uint8Array.of(0x73) },
  { name: "another algorithm", signature: blob("ssh-rsa", value) },
  { name: "the algorithm of the certificate", signature: blob("ssh-ed25519-cert-v01@openssh.com", value) },
  { name: "a signature cut short", signature: blob("ssh-ed25519", value.subarray(1)) },
  { name: "a longer signature", signature: blob("ssh-ed25519", Uint8Array.of(...value, 0)) },
  { name: "trailing bytes", signature: Uint8Array.of(...blob("ssh-ed25519", value), 0) },
  { name: "nothing", signature: new Uint8Array(0) },
  { name: "an empty signature", signature: blob("ssh-ed25519", new Uint8Array(0)) },
  { name: "a key of another type", signature: blob("ssh-ed25519", value), key: new Uint8Array(3) },
  // A value of S that is too large by the order of the group says the same and must not verify.
  {
    name: "the same signature in another form",
    signature: blob(
      "ssh-ed25519",
      Uint8Array.fromHex(SIGNATURE.slice(0, 64) + addOrder(SIGNATURE.slice(64))),
    ),
  },
])("verifySignature() refuses $name", (row) => {
  const { signature, data = MESSAGE, key = publicKey } = { data: undefined, key: undefined, ...row };
  assert.equal(verifySignature(key, signature, data), false);
});

const [P256] = ECDSA_CURVES;
const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const signer = parsePrivateKey(String(privateKey.export({ type: "sec1", format: "pem" })));
const [name, right] = readBlob(signer.sign(MESSAGE));
const numbers = (r: Uint8Array, s: Uint8Array) => new SshWriter().mpint(r).mpint(s).bytes();
const offCurve = encodeKeyBlob({ kind: "ecdsa", curve: P256, point: new Uint8Array(65).fill(7).with(0, 4) });
const one = Uint8Array.of(1);

Deno.test("verifySignature() believes an ECDSA signature", () => {
  assert.equal(name, "ecdsa-sha2-nistp256");
  assert.ok(verifySignature(signer.publicKey, blob(name, right), MESSAGE));
});

Deno.test.each([
  { name: "zeros", value: numbers(new Uint8Array(0), new Uint8Array(0)) },
  { name: "wrong numbers", value: numbers(one, one) },
  { name: "a number longer than the curve", value: numbers(new Uint8Array(33).fill(1), one) },
  { name: "one number", value: new SshWriter().mpint(one).bytes() },
  { name: "the right numbers and one more", value: new SshWriter().raw(right).mpint(one).bytes() },
  { name: "the right numbers under another curve", algorithm: "ecdsa-sha2-nistp384", value: right },
  { name: "the right numbers under Ed25519", algorithm: "ssh-ed25519", value: right },
  { name: "the right numbers for a point beside the curve", key: offCurve, value: right },
])("verifySignature() refuses an ECDSA signature of $name", (row) => {
  const { key, algorithm, value } = { key: signer.publicKey, algorithm: "ecdsa-sha2-nistp256", ...row };
  assert.equal(verifySignature(key, blob(algorithm, value), MESSAGE), false);
});

function readBlob(signature: Uint8Array): [string, Uint8Array] {
  const reader = new SshReader(signature);
  return [reader.text(), reader.string()];
}

function addOrder(littleEndian: string): string {
  const order = 2n ** 252n + 27_742_317_777_372_353_535_851_937_790_883_648_493n;
  const number = BigInt(`0x${Uint8Array.fromHex(littleEndian).reverse().toHex()}`) + order;
  return Uint8Array.fromHex(number.toString(16).padStart(64, "0")).reverse().toHex();
}
