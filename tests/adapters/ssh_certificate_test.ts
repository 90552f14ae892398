import assert from "node:assert/strict";
import { parsePemCaKey } from "@gateway/shared/ca/pem";
import { AppError } from "@gateway/shared/errors";
import {
  type CertificateFields,
  decodeCertificate,
  encodeCertificate,
  encodeOpensshPrivateKey,
  encodeToBeSigned,
  fingerprint,
  formatCertificate,
  issueCertificate,
  parseCertificate,
  parseEd25519PublicKey,
  parsePublicKey,
  verifyCertificateSignature,
} from "@gateway/shared/ssh";
import { describeCertificate } from "../stage/describe_certificate.ts";
import { mustOrMayUseSshKeygen } from "../stage/ssh_keygen.ts";

const VECTORS = new URL("../vectors/ssh/", import.meta.url);
const ignore = !mustOrMayUseSshKeygen();

const readVector = (name: string) => Deno.readTextFile(new URL(name, VECTORS));

Deno.test.each([
  { name: "defaults" },
  { name: "oneshot" },
  { name: "bastion" },
  { name: "principals" },
  { name: "custom" },
  { name: "host" },
  { name: "before" },
  { name: "after" },
  { name: "ecdsa256" },
  { name: "ecdsa384" },
  { name: "ecdsa521" },
  { name: "rsa256" },
  { name: "rsa512" },
])("a certificate of ssh-keygen is parsed, verified and described: $name", async ({ name }) => {
  const line = await readVector(`${name}-cert.pub`);
  const certificate = parseCertificate(line);
  assert.ok(verifyCertificateSignature(certificate));
  assert.equal(describeCertificate(certificate, `${name}-cert.pub`), await readVector(`${name}-cert.txt`));
  const whole = encodeCertificate(certificate.signedBytes, certificate.signature);
  assert.equal(formatCertificate(whole).trimEnd(), line.split(" ").slice(0, 2).join(" "));
});

Deno.test.each([
  { name: "defaults" },
  { name: "oneshot" },
  { name: "bastion" },
  { name: "principals" },
  { name: "before" },
  { name: "after" },
  { name: "ecdsa521" },
  { name: "rsa256" },
])("encodeToBeSigned() returns the bytes that ssh-keygen signed: $name", async ({ name }) => {
  const certificate = parseCertificate(await readVector(`${name}-cert.pub`));
  assert.deepEqual(encodeToBeSigned(certificate, certificate.caPublicKey), certificate.signedBytes);
});

Deno.test("parseCertificate() returns all fields of a certificate of ssh-keygen", async () => {
  const certificate = parseCertificate(await readVector("oneshot-cert.pub"));
  assert.equal(certificate.kind, "user");
  assert.equal(certificate.serial, 18_446_744_073_709_551_615n);
  assert.equal(certificate.keyId, "agent=broker-1 host=web01 role=target t=1704164645 elev=sudo -n");
  assert.deepEqual(certificate.principals, ["host:web01"]);
  assert.equal(certificate.validBefore - certificate.validAfter, 600);
  assert.deepEqual(certificate.criticalOptions, {
    "force-command": 'sudo -n -- ls -l "/tmp/a b"',
    "source-address": "10.0.0.0/8,::1/128",
  });
  assert.deepEqual(certificate.extensions, []);
  assert.deepEqual(certificate.publicKey, parseEd25519PublicKey(await readVector("user.pub")));
  assert.deepEqual(certificate.caPublicKey, parsePublicKey(await readVector("ca_ed25519.pub")).blob);
});

Deno.test("an SHA-1 signature of an RSA CA is rejected", async () => {
  const certificate = parseCertificate(await readVector("sha1-cert.pub"));
  assert.equal(certificate.signatureAlgorithm, "ssh-rsa");
  assert.equal(verifyCertificateSignature(certificate), false);
});

Deno.test("parseCertificate() keeps the data of custom options", async () => {
  const certificate = parseCertificate(await readVector("custom-cert.pub"));
  assert.deepEqual(certificate.criticalOptions, {
    "flag@example": "",
    "number@example": "12",
    "verify-required": "",
  });
  assert.equal(certificate.extensionData.get("login@example")?.length, 9);
});

const CA_FILES = [
  { name: "ca_ed25519", algorithm: "ssh-ed25519", signs: "ssh-ed25519" },
  { name: "ca_ecdsa256", algorithm: "ecdsa-sha2-nistp256", signs: "ecdsa-sha2-nistp256" },
  { name: "ca_ecdsa384", algorithm: "ecdsa-sha2-nistp384", signs: "ecdsa-sha2-nistp384" },
  { name: "ca_ecdsa521", algorithm: "ecdsa-sha2-nistp521", signs: "ecdsa-sha2-nistp521" },
  { name: "ca_rsa", algorithm: "ssh-rsa", signs: "rsa-sha2-256" },
  { name: "rsa_pkcs1", algorithm: "ssh-rsa", signs: "rsa-sha2-256" },
  { name: "rsa_pkcs8", algorithm: "ssh-rsa", signs: "rsa-sha2-256" },
  { name: "ecdsa_sec1", algorithm: "ecdsa-sha2-nistp384", signs: "ecdsa-sha2-nistp384" },
  { name: "ecdsa_pkcs8", algorithm: "ecdsa-sha2-nistp521", signs: "ecdsa-sha2-nistp521" },
  { name: "ecdsa_with_parameters", algorithm: "ecdsa-sha2-nistp256", signs: "ecdsa-sha2-nistp256" },
] as const;

Deno.test.each([...CA_FILES])("parsePemCaKey() reads $name", async ({ name, algorithm, signs }) => {
  const ca = parsePemCaKey(await readVector(name));
  assert.equal(ca.backend, "pem");
  assert.equal(ca.algorithm, algorithm);
  assert.deepEqual(ca.publicKey, parsePublicKey(await readVector(`${name}.pub`)).blob);
  const certificate = parseCertificate(formatCertificate(await issueCertificate(fields(), ca)));
  assert.equal(certificate.signatureAlgorithm, signs);
  assert.ok(verifyCertificateSignature(certificate));
});

Deno.test("parsePemCaKey() reads an Ed25519 key in PKCS #8", async () => {
  const ca = parsePemCaKey(await readVector("ed25519_pkcs8"));
  assert.equal(ca.publicKey.subarray(-32).toBase64(), (await readVector("ed25519_pkcs8.base64")).trim());
});

Deno.test.each([
  { name: "encrypted_openssh", message: /is encrypted.*ssh-keygen -p -N ""/ },
  { name: "encrypted_pkcs1", message: /is encrypted.*ssh-keygen -p -N ""/ },
  { name: "encrypted_pkcs8", message: /is encrypted.*ssh-keygen -p -N ""/ },
  { name: "rsa_1024", message: /RSA of 1024 bits/ },
  { name: "ed448", message: /neither Ed25519, ECDSA/ },
  { name: "secp256k1", message: /neither Ed25519, ECDSA/ },
  { name: "ca_rsa.pub", message: /not the PEM text of exactly one key/ },
])("parsePemCaKey() rejects $name", async ({ name, message }) => {
  const text = await readVector(name);
  assert.throws(
    () => parsePemCaKey(text),
    (error) => error instanceof AppError && error.code === "invalid_config" && message.test(error.message),
  );
});

Deno.test.each([
  { name: "ca_ed25519" },
  { name: "ca_ecdsa384" },
  { name: "ca_rsa" },
  { name: "rsa_pkcs1" },
  { name: "ecdsa_sec1" },
  { name: "ecdsa_pkcs8" },
])("parsePemCaKey() rejects $name with one byte changed, or returns the same key", async ({ name }) => {
  const pem = await readVector(name);
  const expected = parsePemCaKey(pem).publicKey;
  const [first = "", ...rest] = pem.trimEnd().split("\n");
  const bytes = Uint8Array.fromBase64(rest.slice(0, -1).join(""));
  // A prime step reaches every kind of field without 2,000 trial signatures.
  for (let index = 0; index < bytes.length; index += 7) {
    const changed = bytes.with(index, (bytes[index] ?? 0) ^ 0x55);
    const text = [first, changed.toBase64(), rest.at(-1), ""].join("\n");
    try {
      const ca = parsePemCaKey(text);
      assert.deepEqual(ca.publicKey, expected);
      const certificate = decodeCertificate(await issueCertificate(fields(), ca));
      assert.ok(verifyCertificateSignature(certificate), `byte ${index}`);
    } catch (error) {
      assert.ok(error instanceof AppError && error.code === "invalid_config", `byte ${index}: ${error}`);
    }
  }
});

Deno.test.each([...CA_FILES])(
  "ssh-keygen -L accepts a certificate signed with $name",
  { ignore },
  async ({ name, signs }) => {
    await using folder = await temporaryFolder();
    const ca = parsePemCaKey(await readVector(name));
    const line = formatCertificate(await issueCertificate(fields(), ca));
    await Deno.writeTextFile(`${folder.path}/x-cert.pub`, line);
    const shown = await sshKeygen("-L", "-f", `${folder.path}/x-cert.pub`);
    assert.equal(describeCertificate(parseCertificate(line), `${folder.path}/x-cert.pub`), shown);
    assert.match(shown, new RegExp(`\\(using ${signs}\\)`));
    assert.match(shown, /Serial: 18446744073709551614\n/);
    assert.match(shown, /Valid: from 2026-01-02T03:03:35 to 2026-01-02T03:06:05\n/);
    assert.match(shown, /Principals: \n {16}host:web01\n/);
    assert.match(shown, /force-command cat > '\/tmp\/é' && echo "\$HOME"\n/);
    assert.match(shown, /Extensions: \n {16}permit-port-forwarding\n {16}permit-pty\n$/);
  },
);

Deno.test("ssh-keygen -L and verifyCertificateSignature() reject a bad signature", { ignore }, async () => {
  await using folder = await temporaryFolder();
  const ca = parsePemCaKey(await readVector("ca_ed25519"));
  const blob = await issueCertificate(fields(), ca);
  const forged = blob.with(blob.length - 1, (blob.at(-1) ?? 0) ^ 1);
  assert.equal(verifyCertificateSignature(parseCertificate(formatCertificate(forged))), false);
  await Deno.writeTextFile(`${folder.path}/x-cert.pub`, formatCertificate(forged));
  await assert.rejects(sshKeygen("-L", "-f", `${folder.path}/x-cert.pub`));
});

Deno.test("OpenSSH reads and uses a key of encodeOpensshPrivateKey()", { ignore }, async () => {
  await using folder = await temporaryFolder();
  const pem = encodeOpensshPrivateKey(crypto.getRandomValues(new Uint8Array(32)), "a comment");
  const ca = parsePemCaKey(pem);
  await Deno.writeTextFile(`${folder.path}/ca`, pem, { mode: 0o600 });
  const shown = parsePublicKey(await sshKeygen("-y", "-f", `${folder.path}/ca`));
  assert.deepEqual(shown.blob, ca.publicKey);
  assert.equal(shown.comment, "a comment");
  const list = await sshKeygen("-l", "-f", `${folder.path}/ca`);
  assert.ok(list.includes(fingerprint(ca.publicKey)), list);

  await Deno.writeTextFile(`${folder.path}/user.pub`, await readVector("user.pub"));
  await sshKeygen("-q", "-s", `${folder.path}/ca`, "-I", "x", "-n", "a", `${folder.path}/user.pub`);
  const certificate = parseCertificate(await Deno.readTextFile(`${folder.path}/user-cert.pub`));
  assert.ok(verifyCertificateSignature(certificate));
  assert.deepEqual(certificate.caPublicKey, ca.publicKey);
});

function fields(): CertificateFields {
  return {
    publicKey: new Uint8Array(32).fill(9),
    nonce: new Uint8Array(32).fill(3),
    serial: 18_446_744_073_709_551_614n,
    keyId: "agent=broker-1 host=web01 role=target t=1767323045 user=alice elev=sudo -n pty=1",
    principals: ["host:web01"],
    validAfter: 1_767_323_015,
    validBefore: 1_767_323_165,
    criticalOptions: {
      "source-address": "10.0.0.0/8",
      "force-command": `cat > '/tmp/é' && echo "$HOME"`,
    },
    extensions: ["permit-pty", "permit-port-forwarding"],
  };
}

async function temporaryFolder(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await Deno.makeTempDir({ prefix: "ssh_certificate_" });
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
}

async function sshKeygen(...args: readonly string[]): Promise<string> {
  const command = new Deno.Command("ssh-keygen", { args: [...args], env: { TZ: "UTC" }, stdin: "null" });
  const { success, stdout, stderr } = await command.output();
  if (!success) throw new Error(`ssh-keygen ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
}
