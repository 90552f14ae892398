import assert from "node:assert/strict";
import fc from "fast-check";
import { AppError } from "../errors.ts";
import {
  decodeKeyBlob,
  ECDSA_CURVES,
  encodeKeyBlob,
  encodeOpensshPrivateKey,
  fingerprint,
  formatPublicKey,
  keyAlgorithm,
  type KeyParts,
  parseEd25519PublicKey,
  parsePublicKey,
  verifySignature,
} from "./keys.ts";
import { SshReader, SshWriter } from "./wire_format.ts";
import { formatKeyId, type KeyIdParts } from "./certificate.ts";
import { generateKeyPairSync } from "node:crypto";
import { parsePrivateKey } from "../ca/pem.ts";

// ssh-keygen -t ed25519, ssh-keygen -t ecdsa -b 256
const ED25519 = "AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c";
const LINE = `ssh-ed25519 ${ED25519}`;
const ECDSA = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBIdWSmG9yU4ES64fQuyo" +
  "QFGwd/o9IfXTbBW/YfU+tn1fEW3+pXDzMm+kcm42IHk8fYclpAK2nNuboKTmO50aIN4=";
const CERTIFICATE = `ssh-ed25519-cert-v01@openssh.com ${
  new SshWriter().text("ssh-ed25519-cert-v01@openssh.com").string(new Uint8Array(32)).bytes().toBase64()
}`;

Deno.test.each([
  ["a bare key", LINE, ""],
  ["a comment", `${LINE} root@web01`, "root@web01"],
  ["a comment with spaces", `${LINE} of the  host`, "of the host"],
  ["a newline", `${LINE} c\n`, "c"],
  ["a CR LF", `${LINE} c\r\n`, "c"],
  ["surrounding spaces", `  \t${LINE}  `, ""],
  ["tabs between the fields", LINE.replace(" ", "\t"), ""],
  ["a keyscan line", `web01.example ${LINE}`, ""],
  ["a known_hosts line with a port", `[web01.example]:2222,[10.0.0.1]:2222 ${LINE} c`, "c"],
  ["a hashed known_hosts line", `|1|GQ8=|ab+/= ${LINE}`, ""],
  ["keyscan output", `\n# web01:22 SSH-2.0-OpenSSH_9.2p1\n\nweb01 ${LINE}\n# end\n`, ""],
])("parsePublicKey() reads %s", (_name, text, comment) => {
  const key = parsePublicKey(text);
  assert.equal(key.algorithm, "ssh-ed25519");
  assert.equal(key.blob.toBase64(), ED25519);
  assert.equal(key.comment, comment);
});

Deno.test("parsePublicKey() reads an ECDSA key", () => {
  assert.equal(parsePublicKey(ECDSA).algorithm, "ecdsa-sha2-nistp256");
});

Deno.test.each([
  ["nothing", "", /there is none/],
  ["comments only", "# a\n\n  # b", /there is none/],
  ["two keys", `${LINE}\n${ECDSA}`, /more than one line/],
  ["a revoked key", `@revoked web01 ${LINE}`, /marker/],
  ["a certificate authority", `@cert-authority *.example ${LINE}`, /marker/],
  ["two fields before the key", `a b ${LINE}`, /supported key type/],
  ["a certificate", CERTIFICATE, /supported key type/],
  ["a certificate after a host", `web01 ${CERTIFICATE}`, /supported key type/],
  ["a DSA key", "ssh-dss AAAAB3NzaC1kc3M=", /supported key type/],
  ["a type without key", "ssh-ed25519", /not base64/],
  ["another type inside", ECDSA.replace("ecdsa-sha2-nistp256", "ssh-ed25519"), /line holds/],
  ["base64 without padding", ECDSA.slice(0, -1), /not canonical/],
  ["base64 with stray bits", ECDSA.replace("N4=", "N5="), /not canonical/],
  ["base64url", LINE.replace("/", "_"), /not base64/],
  ["a vertical tab inside base64", LINE.replace("AAAAC3", "AAAA\vC3"), /not base64/],
  ["a key cut short", LINE.slice(0, -4), /truncated/],
  ["a key with trailing bytes", `${LINE}AAAA`, /too many/],
])("parsePublicKey() rejects %s", (_name, text, message) => {
  assert.throws(() => parsePublicKey(text), { name: "AppError", code: "invalid_request", message });
});

Deno.test.each([
  { name: "a bare key", line: LINE },
  { name: "a comment", line: `${LINE} broker session é` },
  { name: "a newline", line: `${LINE}\n` },
  { name: "a comment and a line break", line: `${LINE} c\r\n` },
])("parseEd25519PublicKey() reads $name", ({ line }) => {
  assert.equal(parseEd25519PublicKey(line).toBase64(), "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=");
});

const notEd25519 = encodeKeyBlob({ kind: "rsa", exponent: Uint8Array.of(3), modulus: Uint8Array.of(9) });
Deno.test.each([
  { name: "nothing", line: "" },
  { name: "a leading space", line: ` ${LINE}` },
  { name: "a leading newline", line: `\n${LINE}` },
  { name: "two newlines", line: `${LINE}\n\n` },
  { name: "a second line", line: `${LINE}\n${LINE}` },
  { name: "options", line: `no-pty ${LINE}` },
  { name: "a host name", line: `web01 ${LINE}` },
  { name: "two spaces", line: LINE.replace(" ", "  ") },
  { name: "a tab", line: LINE.replace(" ", "\t") },
  { name: "a control character in the comment", line: `${LINE} a\x1b[2J` },
  { name: "a carriage return in the comment", line: `${LINE} a\rb` },
  { name: "a certificate", line: CERTIFICATE },
  { name: "a certificate under the type of a key", line: CERTIFICATE.replace("-cert-v01@openssh.com", "") },
  { name: "an ECDSA key", line: ECDSA },
  { name: "an RSA key under the type", line: `ssh-ed25519 ${notEd25519.toBase64()}` },
  { name: "trailing bytes", line: `${LINE}AAAA` },
  { name: "stray bits", line: `${LINE.slice(0, -3)}9d=` },
])("parseEd25519PublicKey() rejects $name", ({ line }) => {
  assert.throws(() => parseEd25519PublicKey(line), (error) => {
    assert.ok(error instanceof AppError && error.cause instanceof AppError);
    assert.equal(error.code, "invalid_request");
    assert.equal(error.message, "invalid pubkey");
    return true;
  });
});

Deno.test("fingerprint() equals the output of ssh-keygen -l", () => {
  assert.equal(fingerprint(parsePublicKey(LINE).blob), "SHA256:fe85JkIjo8VPe+XqXJGH5Mau1EMFdK1OdKvJUFicyA8");
});

Deno.test("formatPublicKey() returns a line that can be parsed again", () => {
  const key = parsePublicKey(LINE);
  assert.equal(formatPublicKey(key.algorithm, key.blob), LINE);
  assert.equal(formatPublicKey(key.algorithm, key.blob, "a b"), `${LINE} a b`);
  assert.throws(() => formatPublicKey(key.algorithm, key.blob, "a\nb"), TypeError);
});

Deno.test("any text is parsed as a key or rejected with an AppError", () => {
  const pieces = fc.constantFrom(LINE, ECDSA, ED25519, "ssh-ed25519", "ssh-rsa", ..." \t\n#@=A");
  fc.assert(
    fc.property(fc.array(fc.oneof(pieces, fc.string())), (parts) => {
      for (const parse of [parsePublicKey, parseEd25519PublicKey]) {
        try {
          parse(parts.join(""));
        } catch (error) {
          assert.ok(error instanceof AppError, String(error));
        }
      }
    }),
  );
});

const [P256, , P521] = ECDSA_CURVES;
const point = (length: number, first = 4) => new Uint8Array(length).fill(7).with(0, first);
const number = (length: number) => new Uint8Array(length).fill(0xc5);

const PARTS: readonly (KeyParts & { readonly name: string })[] = [
  { name: "ssh-ed25519", kind: "ed25519", point: point(32) },
  { name: "ecdsa-sha2-nistp256", kind: "ecdsa", curve: P256, point: point(65) },
  { name: "ecdsa-sha2-nistp521", kind: "ecdsa", curve: P521, point: point(133) },
  { name: "ssh-rsa", kind: "rsa", exponent: Uint8Array.of(1, 0, 1), modulus: number(256) },
];

Deno.test.each(PARTS)("a key blob is encoded and decoded: $name", ({ name, ...parts }) => {
  assert.equal(keyAlgorithm(parts), name);
  assert.deepEqual(decodeKeyBlob(encodeKeyBlob(parts)), parts);
});

const ssh = () => new SshWriter();
Deno.test.each([
  ["nothing", new Uint8Array(0)],
  ["an unknown type", ssh().text("ssh-dss").string(point(32)).bytes()],
  ["a certificate", ssh().text("ssh-ed25519-cert-v01@openssh.com").string(point(32)).bytes()],
  ["a key of 31 bytes", ssh().text("ssh-ed25519").string(point(31)).bytes()],
  ["a key of 33 bytes", ssh().text("ssh-ed25519").string(point(33)).bytes()],
  ["trailing bytes", ssh().text("ssh-ed25519").string(point(32)).u32(0).bytes()],
  ["a missing key", ssh().text("ssh-ed25519").bytes()],
  ["another curve inside", ssh().text("ecdsa-sha2-nistp256").text("nistp384").string(point(65)).bytes()],
  ["a compressed point", ssh().text("ecdsa-sha2-nistp256").text("nistp256").string(point(33, 2)).bytes()],
  [
    "a point with a wrong first byte",
    ssh().text("ecdsa-sha2-nistp256").text("nistp256").string(point(65, 2)).bytes(),
  ],
  ["an RSA exponent of 0", ssh().text("ssh-rsa").text("").mpint(number(256)).bytes()],
  ["an RSA modulus of 0", ssh().text("ssh-rsa").mpint(number(1)).text("").bytes()],
  ["an RSA modulus of 2,049 bytes", ssh().text("ssh-rsa").mpint(number(1)).mpint(number(2049)).bytes()],
])("decodeKeyBlob() rejects %s", (_name, blob) => {
  assert.throws(() => decodeKeyBlob(blob), { name: "AppError", code: "invalid_request" });
});

const parts: KeyIdParts = { caller: "broker-1", host: "web01", role: "target", issuedAt: 1_700_000_000 };

Deno.test.each([
  { name: "the required values", more: {}, tail: "" },
  { name: "empty optional values", more: { endUser: "", elevationPrefix: "", pty: false }, tail: "" },
  { name: "an end user", more: { endUser: "alice@example" }, tail: " user=alice@example" },
  { name: "an elevation", more: { elevationPrefix: "sudo -n" }, tail: " elev=sudo -n" },
  { name: "a terminal", more: { pty: true }, tail: " pty=1" },
  {
    name: "all of them in order",
    more: { pty: true, elevationPrefix: "sudo -n -u deploy", endUser: "alice" },
    tail: " user=alice elev=sudo -n -u deploy pty=1",
  },
])("formatKeyId() writes $name", ({ more, tail }) => {
  const keyId = `agent=broker-1 host=web01 role=target t=1700000000${tail}`;
  assert.equal(formatKeyId({ ...parts, ...more }), keyId);
});

Deno.test.each([
  { name: "an empty caller", more: { caller: "" } },
  { name: "an empty host", more: { host: "" } },
  { name: "an empty role", more: { role: "" } },
  { name: "a caller with a space", more: { caller: "a user=root" } },
  { name: "a host with a tab", more: { host: "a\tb" } },
  { name: "a role with a newline (L14)", more: { role: "target\n" } },
  { name: "an end user with a space", more: { endUser: "alice pty=1" } },
  { name: "an end user with a no-break space", more: { endUser: "alice\u00a0pty=1" } },
  { name: "an end user with a C1 control (L14)", more: { endUser: "a\u009b2J" } },
  { name: "an end user with a line separator", more: { endUser: "a\u2028b" } },
  { name: "an end user with DEL", more: { endUser: "a\x7f" } },
  { name: "an elevation with a newline", more: { elevationPrefix: "sudo -n\nx" } },
])("formatKeyId() rejects $name", ({ more }) => {
  assert.throws(() => formatKeyId({ ...parts, ...more }), TypeError);
});

Deno.test.each([
  ["milliseconds", 1.5],
  ["a negative time", -1],
  ["no number", NaN],
])("formatKeyId() rejects %s", (_name, issuedAt) => {
  assert.throws(() => formatKeyId({ ...parts, issuedAt }), RangeError);
});

// RFC 8032 section 7.1, test 2.
const SEED = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb";
const POINT = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
const MESSAGE = Uint8Array.of(0x72);
const SIGNATURE = "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da" +
  "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00";

const publicKey = encodeKeyBlob({ kind: "ed25519", point: Uint8Array.fromHex(POINT) });
const value = Uint8Array.fromHex(SIGNATURE);
const blob = (algorithm: string, bytes: Uint8Array) => new SshWriter().text(algorithm).string(bytes).bytes();

Deno.test("an Ed25519 signature equals the test vector of RFC 8032", () => {
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
])("signAsync() returns the same kind of blob as sign(): $name", async ({ key }) => {
  const pem = String(key.export({ type: "pkcs8", format: "pem" }));
  const { publicKey, sign, signAsync } = parsePrivateKey(pem);
  const [here, aside] = [sign(MESSAGE), await signAsync(MESSAGE)];
  assert.equal(new SshReader(aside).text(), new SshReader(here).text());
  assert.ok(verifySignature(publicKey, here, MESSAGE));
  assert.ok(verifySignature(publicKey, aside, MESSAGE));
});

Deno.test("verifySignature() accepts an Ed25519 signature", () => {
  assert.ok(verifySignature(publicKey, blob("ssh-ed25519", value), MESSAGE));
});

Deno.test.each([
  { name: "another message", signature: blob("ssh-ed25519", value), data: Uint8Array.of(0x73) },
  { name: "another algorithm", signature: blob("ssh-rsa", value) },
  { name: "the algorithm of the certificate", signature: blob("ssh-ed25519-cert-v01@openssh.com", value) },
  { name: "a signature cut short", signature: blob("ssh-ed25519", value.subarray(1)) },
  { name: "a longer signature", signature: blob("ssh-ed25519", Uint8Array.of(...value, 0)) },
  { name: "trailing bytes", signature: Uint8Array.of(...blob("ssh-ed25519", value), 0) },
  { name: "an empty signature", signature: new Uint8Array(0) },
  { name: "an empty signature", signature: blob("ssh-ed25519", new Uint8Array(0)) },
  { name: "a key of another type", signature: blob("ssh-ed25519", value), key: new Uint8Array(3) },
  // S plus the order of the group is equivalent to S and must not verify.
  { name: "the same signature in another form", signature: blob("ssh-ed25519", withOrder(SIGNATURE)) },
])("verifySignature() rejects $name", (row) => {
  const { signature, data = MESSAGE, key = publicKey } = { data: undefined, key: undefined, ...row };
  assert.equal(verifySignature(key, signature, data), false);
});

const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const signer = parsePrivateKey(String(privateKey.export({ type: "sec1", format: "pem" })));
const [name, right] = readBlob(signer.sign(MESSAGE));
const numbers = (r: Uint8Array, s: Uint8Array) => new SshWriter().mpint(r).mpint(s).bytes();
const offCurve = encodeKeyBlob({ kind: "ecdsa", curve: P256, point: point(65) });
const one = Uint8Array.of(1);

Deno.test("verifySignature() accepts an ECDSA signature", () => {
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
  { name: "valid numbers for a point that is not on the curve", key: offCurve, value: right },
])("verifySignature() rejects an ECDSA signature of $name", (row) => {
  const { key, algorithm, value } = { key: signer.publicKey, algorithm: "ecdsa-sha2-nistp256", ...row };
  assert.equal(verifySignature(key, blob(algorithm, value), MESSAGE), false);
});

function readBlob(signature: Uint8Array): [string, Uint8Array] {
  const reader = new SshReader(signature);
  return [reader.text(), reader.string()];
}

function withOrder(signature: string): Uint8Array {
  const order = 2n ** 252n + 27_742_317_777_372_353_535_851_937_790_883_648_493n;
  const number = BigInt(`0x${Uint8Array.fromHex(signature.slice(64)).reverse().toHex()}`) + order;
  const littleEndian = Uint8Array.fromHex(number.toString(16).padStart(64, "0")).reverse();
  return Uint8Array.of(...Uint8Array.fromHex(signature.slice(0, 64)), ...littleEndian);
}
