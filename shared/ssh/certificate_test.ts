import assert from "node:assert/strict";
import fc from "fast-check";
import { wholeCharacter } from "@gateway/shared/testing";
import { parsePemCaKey } from "../ca/pem.ts";
import { AppError } from "../errors.ts";
import {
  type CertificateFields,
  decodeCertificate,
  encodeCertificate,
  encodeToBeSigned,
  formatCertificate,
  issueCertificate,
  parseCertificate,
  verifyCertificateSignature,
  writeFlagOptions,
} from "./certificate.ts";
import { encodeOpensshPrivateKey } from "./keys.ts";
import { SshReader, SshWriter } from "./wire_format.ts";
import { Buffer } from "node:buffer";

// ssh-keygen -q -s ca_ed25519 -I 'agent=broker-1 host=web01 role=target t=1704164645 elev=sudo -n' \
//   -z 18446744073709551615 -n host:web01 -V 20240102030405Z:20240102031405Z -O clear \
//   -O source-address=10.0.0.0/8,::1/128 -O force-command='sudo -n -- ls -l "/tmp/a b"' user.pub
const OPENSSH =
  "ssh-ed25519-cert-v01@openssh.com AAAAIHNzaC1lZDI1NTE5LWNlcnQtdjAxQG9wZW5zc2guY29tAAAAIBvtTTjhb8Fe" +
  "NYgKEn4zuJVmIDfZmAAojmoHi181Ohy6AAAAIN1nzSWyB62a7pAlRee5J4Oayi29W70gjl9JShM1iUGv//////////8AAAABAAAAP2Fn" +
  "ZW50PWJyb2tlci0xIGhvc3Q9d2ViMDEgcm9sZT10YXJnZXQgdD0xNzA0MTY0NjQ1IGVsZXY9c3VkbyAtbgAAAA4AAAAKaG9zdDp3ZWIw" +
  "MQAAAABlk30lAAAAAGWTf30AAABgAAAADWZvcmNlLWNvbW1hbmQAAAAfAAAAG3N1ZG8gLW4gLS0gbHMgLWwgIi90bXAvYSBiIgAAAA5z" +
  "b3VyY2UtYWRkcmVzcwAAABYAAAASMTAuMC4wLjAvOCw6OjEvMTI4AAAAAAAAAAAAAAAzAAAAC3NzaC1lZDI1NTE5AAAAIMHuqprHIdo3" +
  "lv7daL14X1vWKu6phLTD6L9mB5P4qnGMAAAAUwAAAAtzc2gtZWQyNTUxOQAAAEAxjJadPtUvE4935LzzfBKF0zjtW0+Zmt1i3Rc3WeK1" +
  "WJkAkflFS4xKiL1eUPWR2I4FZJlX0R700i7qSmQTcWUC user";

const ca = parsePemCaKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca"));
const fields: CertificateFields = {
  publicKey: new Uint8Array(32).fill(2),
  nonce: new Uint8Array(32).fill(3),
  serial: 2n ** 64n - 1n,
  keyId: "agent=broker-1 host=web01 role=target t=1700000000",
  principals: ["host:web01"],
  validAfter: 1_699_999_970,
  validBefore: 1_700_000_120,
  criticalOptions: { "source-address": "10.0.0.0/8", "force-command": "uptime" },
  extensions: ["permit-pty", "permit-port-forwarding"],
};
const refused = (message: RegExp) => ({ name: "AppError", code: "invalid_request", message });

Deno.test("a certificate of ssh-keygen is parsed, verified and encoded to the same bytes", () => {
  const certificate = parseCertificate(OPENSSH);
  assert.ok(verifyCertificateSignature(certificate));
  assert.equal(certificate.serial, 18_446_744_073_709_551_615n);
  assert.equal(certificate.criticalOptions["force-command"], 'sudo -n -- ls -l "/tmp/a b"');
  const toBeSigned = encodeToBeSigned(certificate, certificate.caPublicKey);
  assert.deepEqual(toBeSigned, certificate.signedBytes);
  const line = formatCertificate(encodeCertificate(toBeSigned, certificate.signature));
  assert.equal(line, `${OPENSSH.replace(/ user$/, "")}\n`);
});

Deno.test("issueCertificate() returns a certificate that decodeCertificate() reads", async () => {
  const certificate = decodeCertificate(await issueCertificate(fields, ca));
  assert.ok(verifyCertificateSignature(certificate));
  const { kind, caPublicKey, criticalOptionData, extensionData, ...more } = certificate;
  const { signature, signatureAlgorithm, signedBytes, ...read } = more;
  assert.deepEqual({ ...read }, { ...fields, extensions: ["permit-port-forwarding", "permit-pty"] });
  assert.equal(kind, "user");
  assert.equal(signatureAlgorithm, "ssh-ed25519");
  assert.deepEqual(caPublicKey, ca.publicKey);
  assert.deepEqual([...criticalOptionData.keys()], ["force-command", "source-address"]);
  assert.deepEqual(extensionData.get("permit-pty"), new Uint8Array(0));
  assert.ok(signature.length > 64 && signedBytes.length > 200);
});

Deno.test("a certificate is identical for the same input", async () => {
  const again = { ...fields, extensions: [...fields.extensions].reverse() };
  assert.deepEqual(await issueCertificate(again, ca), await issueCertificate(fields, ca));
});

Deno.test.each([
  { name: "no principals", change: { principals: [] } },
  { name: "an empty principal", change: { principals: ["a", ""] } },
  { name: "a short key", change: { publicKey: new Uint8Array(31) } },
  { name: "a short nonce", change: { nonce: new Uint8Array(16) } },
  { name: "an empty force-command", change: { criticalOptions: { "force-command": "" } } },
  { name: "an empty source-address", change: { criticalOptions: { "source-address": "" } } },
  { name: "an extension named twice", change: { extensions: ["permit-pty", "permit-pty"] } },
])("issueCertificate() rejects $name", async ({ change }) => {
  await assert.rejects(issueCertificate({ ...fields, ...change }, ca), TypeError);
});

Deno.test.each([
  { name: "a serial of 65 bits", change: { serial: 2n ** 64n } },
  { name: "a negative serial", change: { serial: -1n } },
  { name: "a time before the epoch", change: { validAfter: -1 } },
  { name: "half a second", change: { validBefore: 1.5 } },
  { name: "a time that is not a number", change: { validBefore: NaN } },
])("issueCertificate() rejects $name", async ({ change }) => {
  await assert.rejects(issueCertificate({ ...fields, ...change }, ca), RangeError);
});

Deno.test.each([
  { name: "a KeyId", change: { keyId: "a\0" } },
  { name: "a principal", change: { principals: ["root\0x"] } },
  { name: "a force-command", change: { criticalOptions: { "force-command": "id\0" } } },
])("issueCertificate() rejects $name with a NUL", async ({ change }) => {
  await assert.rejects(issueCertificate({ ...fields, ...change }, ca), refused(/has a NUL/));
});

Deno.test("issueCertificate() stops before it signs if the request was aborted", async () => {
  await assert.rejects(issueCertificate(fields, ca, AbortSignal.abort()), { name: "AbortError" });
});

Deno.test("a lone surrogate becomes U+FFFD", async () => {
  const certificate = decodeCertificate(await issueCertificate({ ...fields, keyId: "a\ud800" }, ca));
  assert.equal(certificate.keyId, "a\ufffd");
});

Deno.test("an option named __proto__ is kept as an option", async () => {
  const criticalOptions = Object.fromEntries([["__proto__", "x"]]);
  const certificate = decodeCertificate(await issueCertificate({ ...fields, criticalOptions }, ca));
  assert.deepEqual(Object.entries(certificate.criticalOptions), [["__proto__", "x"]]);
});

/** Encodes a certificate without a valid signature. */
function handMade(change: Readonly<Record<string, Uint8Array | bigint | number | string>>): Uint8Array {
  const writer = new SshWriter();
  const parts = {
    type: "ssh-ed25519-cert-v01@openssh.com",
    nonce: fields.nonce,
    key: fields.publicKey,
    serial: 7n,
    kind: 1,
    keyId: "id",
    principals: new SshWriter().text("a").bytes(),
    after: 0n,
    before: 1n,
    critical: new Uint8Array(0),
    extensions: new Uint8Array(0),
    reserved: "",
    ca: ca.publicKey,
    signature: new SshWriter().text("ssh-ed25519").string(new Uint8Array(64)).bytes(),
    ...change,
  };
  for (const value of Object.values(parts)) {
    if (typeof value === "string") writer.text(value);
    else if (typeof value === "bigint") writer.u64(value);
    else if (typeof value === "number") writer.u32(value);
    else if (value !== undefined) writer.string(value);
  }
  return writer.bytes();
}

const option = (name: string, data = new Uint8Array(0)) => new SshWriter().text(name).string(data).bytes();
const options = (...list: readonly Uint8Array[]) => Uint8Array.from(list.flatMap((bytes) => [...bytes]));
const nested = (text: string) => new SshWriter().text(text).bytes();
const forced = (data?: Uint8Array<ArrayBuffer>) => ({ critical: option("force-command", data) });

Deno.test("the base certificate of the rejected samples is accepted", () => {
  const certificate = decodeCertificate(handMade({}));
  assert.equal(certificate.keyId, "id");
  assert.equal(verifyCertificateSignature(certificate), false);
});

Deno.test.each([
  ["another type", { type: "ssh-rsa-cert-v01@openssh.com" }, /unsupported type/],
  ["a plain key", { type: "ssh-ed25519" }, /unsupported type/],
  ["a key of 31 bytes", { key: new Uint8Array(31) }, /32 bytes/],
  ["kind 0", { kind: 0 }, /neither a user nor a host/],
  ["kind 3", { kind: 3 }, /neither a user nor a host/],
  ["a KeyId with a NUL", { keyId: "a\0" }, /NUL/],
  ["a principal with a NUL", { principals: nested("a\0b") }, /NUL/],
  ["principals cut short", { principals: Uint8Array.of(0, 0, 0, 9) }, /truncated/],
  ["257 principals", { principals: options(...Array(257).fill(nested("a"))) }, /256 principals/],
  ["a time of 2^53", { before: 2n ** 53n }, /time out of range/],
  ["options doubled", { extensions: options(option("a"), option("a")) }, /doubled/],
  ["options out of order", { critical: options(option("b"), option("a")) }, /out of order/],
  [
    "upper case after lower case",
    { extensions: options(option("permit-pty"), option("permit-X11-forwarding")) },
    /out of order/,
  ],
  ["an option without data field", { critical: nested("a") }, /truncated/],
  ["a force-command without value", forced(), /malformed value of "force-command"/],
  ["an empty force-command", forced(nested("")), /malformed value/],
  ["a force-command with a NUL", forced(nested("id\0")), /malformed value/],
  ["a force-command that is not wrapped", forced(new TextEncoder().encode("id")), /truncated/],
  ["a force-command with more after it", forced(options(nested("id"), nested("x"))), /too many/],
  ["a CA of an unknown type", { ca: nested("ssh-dss") }, /unsupported type/],
  ["a certificate as CA", { ca: nested("ssh-ed25519-cert-v01@openssh.com") }, /unsupported type/],
  ["a signature without value", { signature: nested("ssh-ed25519") }, /truncated/],
  ["trailing bytes", { trailing: 0 }, /4 bytes too many/],
  ["300 KiB", { keyId: "x".repeat(300 * 1024) }, /256 KiB/],
])("decodeCertificate() rejects %s", (_name, change, message) => {
  assert.throws(() => decodeCertificate(handMade(change)), refused(message));
});

Deno.test.each([
  { name: "a key", line: "ssh-ed25519 AAAA" },
  { name: "nothing", line: "" },
  { name: "a type without data", line: "ssh-ed25519-cert-v01@openssh.com" },
  { name: "options before it", line: `no-pty ${OPENSSH}` },
  { name: "a second line", line: `${OPENSSH}\n${OPENSSH}` },
  { name: "base64 with stray letters", line: OPENSSH.replace("AAAA", "AA*A") },
])("parseCertificate() rejects $name", ({ line }) => {
  assert.throws(() => parseCertificate(line), refused(/Cannot read/));
});

Deno.test("decodeCertificate() copies its input", async () => {
  const blob = await issueCertificate(fields, ca);
  const certificate = decodeCertificate(blob);
  blob.fill(0);
  assert.ok(verifyCertificateSignature(certificate));
});

Deno.test("decodeCertificate() rejects a certificate that is truncated at any byte", async () => {
  const blob = await issueCertificate(fields, ca);
  for (let length = 0; length < blob.length; length++) {
    assert.throws(() => decodeCertificate(blob.subarray(0, length)), refused(/truncated/), `${length} bytes`);
  }
});

Deno.test("a certificate with any changed byte fails verification or throws an AppError", async () => {
  const blob = await issueCertificate(fields, ca);
  for (let index = 0; index < blob.length; index++) {
    for (const mask of [1, 0x80, 0xff]) {
      assert.ok(!verifies(blob.with(index, (blob[index] ?? 0) ^ mask)), `byte ${index}`);
    }
  }
});

Deno.test("a certificate with any random change fails verification or throws an AppError", async () => {
  const blob = await issueCertificate(fields, ca);
  const place = fc.nat(blob.length);
  fc.assert(
    fc.property(place, place, fc.uint8Array({ maxLength: 64 }), (start, removed, inserted) => {
      const changed = Uint8Array.of(
        ...blob.subarray(0, start),
        ...inserted,
        ...blob.subarray(start + removed),
      );
      fc.pre(changed.toHex() !== blob.toHex());
      assert.ok(!verifies(changed));
    }),
    { numRuns: 500 },
  );
});

Deno.test("decoding restores any encoded certificate", async () => {
  const text = fc.string({ unit: wholeCharacter(fc) }).map((value) => value.replaceAll("\0", ""));
  const bytes = fc.uint8Array({ minLength: 32, maxLength: 32 });
  const known = fc.constantFrom("force-command", "source-address", "verify-required", "\uffee", "\u{10000}");
  const name = fc.oneof(known, text);
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        publicKey: bytes,
        nonce: bytes,
        serial: fc.bigInt(0n, 2n ** 64n - 1n),
        keyId: text,
        principals: fc.array(text.filter((value) => value !== ""), { minLength: 1 }),
        validAfter: fc.maxSafeNat(),
        validBefore: fc.oneof(fc.maxSafeNat(), fc.constant(Infinity)),
        criticalOptions: fc.array(fc.tuple(name, text.filter((value) => value !== "")))
          .map((entries): Record<string, string> => Object.fromEntries(entries)),
        extensions: fc.uniqueArray(name),
      }),
      async (input) => {
        const certificate = decodeCertificate(await issueCertificate(input, ca));
        assert.ok(verifyCertificateSignature(certificate));
        for (const key of ["serial", "keyId", "validAfter", "validBefore"] as const) {
          assert.equal(certificate[key], input[key]);
        }
        assert.deepEqual(certificate.principals, input.principals);
        assert.deepEqual(certificate.publicKey, input.publicKey);
        assert.deepEqual(new Set(certificate.extensions), new Set(input.extensions));
        const [written, given] = [certificate, input].map(({ criticalOptions }) =>
          Object.entries(criticalOptions)
        );
        assert.deepEqual(new Map(written), new Map(given));
        assert.deepEqual(encodeToBeSigned(certificate, ca.publicKey), certificate.signedBytes);
      },
    ),
  );
});

Deno.test("fields are encoded in the order of PROTOCOL.certkeys", () => {
  const reader = new SshReader(encodeToBeSigned(fields, ca.publicKey));
  assert.equal(reader.text(), "ssh-ed25519-cert-v01@openssh.com");
  assert.deepEqual(reader.string(), fields.nonce);
  assert.deepEqual(reader.string(), fields.publicKey);
  assert.equal(reader.u64(), fields.serial);
  assert.equal(reader.u32(), 1);
  assert.equal(reader.text(), fields.keyId);
  assert.equal(reader.nested().text(), "host:web01");
  assert.equal(reader.u64(), 1_699_999_970n);
  assert.equal(reader.u64(), 1_700_000_120n);
  const critical = reader.nested();
  assert.equal(critical.text(), "force-command");
  assert.equal(critical.nested().text(), "uptime");
  assert.equal(critical.text(), "source-address");
  const extensions = reader.nested();
  assert.equal(extensions.text(), "permit-port-forwarding");
  assert.equal(extensions.string().length, 0);
  assert.equal(reader.string().length, 0);
  assert.deepEqual(reader.string(), ca.publicKey);
  reader.end();
});

function verifies(blob: Uint8Array): boolean {
  try {
    return verifyCertificateSignature(decodeCertificate(blob));
  } catch (error) {
    assert.ok(error instanceof AppError, String(error));
    return false;
  }
}

Deno.test("writeFlagOptions() sorts names by their bytes, whatever characters they contain", () => {
  const letter = fc.constantFrom("a", "b", "-", "Z", "~", "\u007f", "é", "\uffee", "\u{1f600}");
  const names = fc.uniqueArray(fc.array(letter, { maxLength: 3 }).map((letters) => letters.join("")));
  fc.assert(fc.property(names, (given) => {
    const writer = new SshWriter();
    writeFlagOptions(writer, given);
    const reader = new SshReader(writer.bytes());
    const written: string[] = [];
    while (!reader.done) {
      written.push(reader.text());
      assert.equal(reader.text(), "");
    }
    const expected = given.map((name) => Buffer.from(name)).sort(Buffer.compare).map(String);
    assert.deepEqual(written, expected);
  }));
});
