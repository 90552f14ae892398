import assert from "node:assert/strict";
import { AppError } from "../errors.ts";
import { decodeKeyBlob, ECDSA_CURVES, encodeKeyBlob, keyAlgorithm, type KeyParts } from "./key_blob.ts";
import { SshWriter } from "./wire_format.ts";

const [P256, , P521] = ECDSA_CURVES;
const point = (length: number, first = 4) => new Uint8Array(length).fill(7).with(0, first);
const number = (length: number) => new Uint8Array(length).fill(0xc5);

const PARTS: readonly (KeyParts & { readonly name: string })[] = [
  { name: "ssh-ed25519", kind: "ed25519", point: point(32) },
  { name: "ecdsa-sha2-nistp256", kind: "ecdsa", curve: P256, point: point(65) },
  { name: "ecdsa-sha2-nistp521", kind: "ecdsa", curve: P521, point: point(133) },
  { name: "ssh-rsa", kind: "rsa", exponent: Uint8Array.of(1, 0, 1), modulus: number(256) },
];

Deno.test.each(PARTS)("a key blob is written and read: $name", ({ name, ...parts }) => {
  assert.equal(keyAlgorithm(parts), name);
  assert.deepEqual(decodeKeyBlob(encodeKeyBlob(parts)), parts);
});

const ssh = () => new SshWriter();
Deno.test.each([
  { name: "nothing", blob: new Uint8Array(0) },
  { name: "an unknown type", blob: ssh().text("ssh-dss").string(point(32)).bytes() },
  {
    name: "a certificate",
    blob: ssh().text("ssh-ed25519-cert-v01@openssh.com").string(point(32)).bytes(),
  },
  { name: "a key of 31 bytes", blob: ssh().text("ssh-ed25519").string(point(31)).bytes() },
  { name: "a key of 33 bytes", blob: ssh().text("ssh-ed25519").string(point(33)).bytes() },
  { name: "trailing bytes", blob: ssh().text("ssh-ed25519").string(point(32)).u32(0).bytes() },
  { name: "a missing key", blob: ssh().text("ssh-ed25519").bytes() },
  {
    name: "another curve inside",
    blob: ssh().text("ecdsa-sha2-nistp256").text("nistp384").string(point(65)).bytes(),
  },
  {
    name: "a compressed point",
    blob: ssh().text("ecdsa-sha2-nistp256").text("nistp256").string(point(33, 2)).bytes(),
  },
  {
    name: "a point with a wrong first byte",
    blob: ssh().text("ecdsa-sha2-nistp256").text("nistp256").string(point(65, 2)).bytes(),
  },
  { name: "an RSA exponent of 0", blob: ssh().text("ssh-rsa").text("").mpint(number(256)).bytes() },
  { name: "an RSA modulus of 0", blob: ssh().text("ssh-rsa").mpint(number(1)).text("").bytes() },
  {
    name: "an RSA modulus of 2,049 bytes",
    blob: ssh().text("ssh-rsa").mpint(number(1)).mpint(number(2049)).bytes(),
  },
])("decodeKeyBlob() refuses $name", ({ blob }) => {
  assert.throws(
    () => decodeKeyBlob(blob),
    (error) => error instanceof AppError && error.code === "invalid_request",
  );
});
