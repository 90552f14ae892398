import assert from "node:assert/strict";
import { AppError } from "../errors.ts";
import { encodeKeyBlob, encodeOpensshPrivateKey, verifySignature } from "../ssh/keys.ts";
import { parsePrivateKey } from "./pem.ts";
import { SshReader, SshWriter } from "../ssh/wire_format.ts";
import type { JsonWebKey } from "@azure/keyvault-keys";
import { generateKeyPairSync } from "node:crypto";
import { sshKeyOf, sshSignatureOf, vaultAlgorithm } from "./azure_key_vault.ts";

const refused = (message: RegExp) => ({ name: "AppError", code: "invalid_config", message });

// ssh-keygen -q -N '' -C ca_ecdsa256 -t ecdsa -b 256
const ECDSA = `-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAaAAAABNlY2RzYS
1zaGEyLW5pc3RwMjU2AAAACG5pc3RwMjU2AAAAQQSHVkphvclOBEuuH0LsqEBRsHf6PSH1
02wVv2H1PrZ9XxFt/qVw8zJvpHJuNiB5PH2HJaQCtpzbm6Ck5judGiDeAAAAqOKO7Oviju
zrAAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBIdWSmG9yU4ES64f
QuyoQFGwd/o9IfXTbBW/YfU+tn1fEW3+pXDzMm+kcm42IHk8fYclpAK2nNuboKTmO50aIN
4AAAAhALc32cH7dOynB1U/UGUgHZLihxgW/JxXwVdMGS8L3r33AAAAC2NhX2VjZHNhMjU2
AQIDBA==
-----END OPENSSH PRIVATE KEY-----
`;

const SEED = new Uint8Array(32).fill(1);
const POINT = Uint8Array.fromHex("8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c");
const PUBLIC = encodeKeyBlob({ kind: "ed25519", point: POINT });
const PEM = encodeOpensshPrivateKey(SEED, "ca");
// RFC 8410 section 7: a PKCS #8 key consists of this prefix and the seed.
const PKCS8 = pem(
  "PRIVATE KEY",
  Uint8Array.of(...Uint8Array.fromHex("302e020100300506032b657004220420"), ...SEED),
);

Deno.test.each([
  { name: "OpenSSH's format", text: PEM },
  { name: "OpenSSH's format with CR LF", text: PEM.replaceAll("\n", "\r\n") },
  { name: "OpenSSH's format without last newline", text: PEM.trimEnd() },
  { name: "PKCS #8", text: PKCS8 },
  { name: "PKCS #8 between empty lines", text: `\n${PKCS8}\n` },
])("parsePrivateKey() reads Ed25519 in $name", ({ text }) => {
  const key = parsePrivateKey(text);
  assert.equal(key.algorithm, "ssh-ed25519");
  assert.deepEqual(key.publicKey, PUBLIC);
});

Deno.test("parsePrivateKey() reads an ECDSA key of ssh-keygen whose number starts with a set bit", () => {
  const key = parsePrivateKey(ECDSA);
  assert.equal(key.algorithm, "ecdsa-sha2-nistp256");
  const data = Uint8Array.of(1, 2, 3);
  assert.ok(verifySignature(key.publicKey, key.sign(data), data));
});

Deno.test("the private half of a key is not exposed", () => {
  const key = parsePrivateKey(PEM);
  assert.deepEqual(Object.keys(key).sort(), ["algorithm", "publicKey", "sign", "signAsync"]);
  assert.ok(!Deno.inspect(key, { depth: 9 }).includes("KeyObject"));
});

Deno.test.each([
  ["nothing", "", /exactly one key/],
  ["text before the key", `x\n${PEM}`, /exactly one key/],
  ["text after the key", `${PEM}x`, /exactly one key/],
  ["two keys", PEM + PKCS8, /exactly one key/],
  ["a certificate", pem("CERTIFICATE", SEED), /holds a CERTIFICATE/],
  ["a public key", pem("PUBLIC KEY", SEED), /holds a PUBLIC KEY/],
  ["differing labels", PEM.replace("END OPENSSH", "END RSA"), /exactly one key/],
  ["another format under its label", pem("RSA PRIVATE KEY", SEED), /malformed RSA PRIVATE KEY/],
  ["invalid base64", PEM.replace("b3Bl", "b3B*"), /malformed OPENSSH/],
  ["20 MB of a key", pem("OPENSSH PRIVATE KEY", new Uint8Array(2e7)), /malformed OPENSSH/],
  ["20 MB of hyphens", PEM.replace("b3Bl", "- ".repeat(1e7)), /exactly one key/],
  [
    "an encrypted PKCS #1 key",
    pem("RSA PRIVATE KEY", SEED).replace("\n", "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n"),
    /is encrypted/,
  ],
  ["an encrypted PKCS #8 key", pem("ENCRYPTED PRIVATE KEY", SEED), /is encrypted/],
])("parsePrivateKey() rejects %s", (_name, text, message) => {
  assert.throws(() => parsePrivateKey(text), refused(message));
});

interface Parts {
  readonly magic?: string;
  readonly cipher?: string;
  readonly derivation?: string;
  readonly options?: string;
  readonly keys?: number;
  readonly outside?: Uint8Array;
  readonly check?: number;
  readonly type?: string;
  readonly inside?: Uint8Array;
  readonly pair?: Uint8Array;
  readonly padding?: readonly number[];
  readonly after?: readonly number[];
}

const OTHER = new Uint8Array(32).fill(5);
const MALFORMED = /malformed OPENSSH/;
const FOREIGN = /does not belong/;
const CHANGES: readonly (readonly [name: string, change: Parts, message: RegExp])[] = [
  ["another magic", { magic: "openssh-key-v2\0" }, MALFORMED],
  ["a cipher without key derivation", { cipher: "aes256-ctr" }, MALFORMED],
  ["a key derivation without options", { derivation: "bcrypt" }, MALFORMED],
  ["options of the key derivation", { options: "x" }, FOREIGN],
  ["no key", { keys: 0 }, MALFORMED],
  ["two keys", { keys: 2 }, MALFORMED],
  ["4,294,967,295 keys", { keys: 0xffff_ffff }, MALFORMED],
  ["differing check numbers", { check: 1 }, MALFORMED],
  ["another type inside", { type: "ssh-rsa" }, MALFORMED],
  ["another public key outside", { outside: OTHER }, FOREIGN],
  ["a public key of 31 bytes", { outside: OTHER.subarray(1) }, FOREIGN],
  ["another seed", { pair: Uint8Array.of(...OTHER, ...POINT) }, FOREIGN],
  ["another public key inside", { inside: OTHER }, FOREIGN],
  ["trailing bytes", { after: [0] }, MALFORMED],
];

Deno.test("the base key of the rejected samples is encoded correctly", () => {
  assert.equal(opensshPem({}), PEM);
});

Deno.test.each([...CHANGES])("parsePrivateKey() rejects an OpenSSH key with %s", (_name, change, message) => {
  assert.throws(() => parsePrivateKey(opensshPem(change)), refused(message));
});

Deno.test("parsePrivateKey() rejects an OpenSSH key that is truncated at any byte", () => {
  const bytes = Uint8Array.fromBase64(PEM.split("\n").slice(1, -2).join(""));
  for (let length = 0; length < bytes.length; length++) {
    const text = pem("OPENSSH PRIVATE KEY", bytes.subarray(0, length));
    assert.throws(() => parsePrivateKey(text), refused(/Cannot read/), `${length} bytes`);
  }
});

// ssh-keygen checks only some of these fields. A key that could be parsed is complete anyway.
Deno.test.each([
  { name: "a seed only", change: { pair: SEED } },
  { name: "a public key that does not match the seed", change: { pair: Uint8Array.of(...SEED, ...OTHER) } },
  { name: "wrong padding", change: { padding: [1, 2, 4] } },
  { name: "no padding", change: { padding: [] } },
])("parsePrivateKey() reads an OpenSSH key with $name", ({ change }) => {
  assert.deepEqual(parsePrivateKey(opensshPem(change)).publicKey, PUBLIC);
});

Deno.test("no error message contains the key", () => {
  const mark = SEED.toHex();
  for (const [, change] of CHANGES) {
    assert.throws(() => parsePrivateKey(opensshPem(change)), (error) => {
      assert.ok(error instanceof AppError && error.cause === undefined);
      assert.ok(!error.message.includes(SEED.toBase64()) && !error.message.includes(mark));
      return true;
    });
  }
});

Deno.test("encodeOpensshPrivateKey() rejects a seed of another length", () => {
  assert.throws(() => encodeOpensshPrivateKey(new Uint8Array(31), ""), RangeError);
  assert.throws(() => encodeOpensshPrivateKey(new Uint8Array(64), ""), RangeError);
});

Deno.test("encodeOpensshPrivateKey() pads comments of every length", () => {
  for (let length = 0; length < 9; length++) {
    const text = encodeOpensshPrivateKey(SEED, "é".repeat(length));
    assert.deepEqual(parsePrivateKey(text).publicKey, PUBLIC);
    assert.ok(text.split("\n").every((line) => line.length <= 70));
  }
});

function opensshPem(parts: Parts): string {
  const type = parts.type ?? "ssh-ed25519";
  const content = new SshWriter().u32(0).u32(parts.check ?? 0).text(type).string(parts.inside ?? POINT)
    .string(parts.pair ?? Uint8Array.of(...SEED, ...POINT)).text("ca").bytes();
  const padding = parts.padding ?? [1, 2, 3, 4, 5, 6, 7].slice(0, (8 - content.length % 8) % 8);
  const section = Uint8Array.of(...content, ...padding);
  const outside = new SshWriter().text("ssh-ed25519").string(parts.outside ?? POINT).bytes();
  return pem(
    "OPENSSH PRIVATE KEY",
    new SshWriter().raw(new TextEncoder().encode(parts.magic ?? "openssh-key-v1\0"))
      .text(parts.cipher ?? "none").text(parts.derivation ?? "none").text(parts.options ?? "")
      .u32(parts.keys ?? 1).string(outside).string(section).raw(Uint8Array.from(parts.after ?? [])).bytes(),
  );
}

function pem(label: string, bytes: Uint8Array): string {
  const lines = bytes.toBase64().match(/.{1,70}/g) ?? [];
  return [`-----BEGIN ${label}-----`, ...lines, `-----END ${label}-----`, ""].join("\n");
}

const bytes = (text: string | undefined) => Uint8Array.fromBase64(text ?? "", { alphabet: "base64url" });

function ecKey(namedCurve: string): Required<Pick<JsonWebKey, "kty" | "crv" | "x" | "y">> {
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

Deno.test("leading zeros in a key's coordinates do not change its public key", () => {
  const key = ecKey("P-256");
  const longer = { ...key, x: Uint8Array.of(0, 0, ...key.x), y: Uint8Array.of(0, ...key.y) };
  assert.deepEqual(encodeKeyBlob(sshKeyOf(longer)), encodeKeyBlob(sshKeyOf(key)));
  // One key in 256 has a number with a leading zero byte, which some encoders omit.
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

Deno.test("an EC signature is encoded as two integers without leading zeros and never negative", () => {
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
  "an EC signature of $length bytes is rejected",
  ({ length }) => {
    const parts = sshKeyOf(ecKey("P-256"));
    assert.throws(() => sshSignatureOf(parts, new Uint8Array(length)), { code: "upstream_failure" });
  },
);

Deno.test("a coordinate that is longer than its curve is rejected", () => {
  const key = ecKey("P-256");
  assert.throws(() => sshKeyOf({ ...key, x: Uint8Array.of(1, ...key.x) }), /its numbers do not form a key/);
});
