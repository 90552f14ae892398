import assert from "node:assert/strict";
import { encodeNameConstraints, permits } from "./der.ts";
import { createPrivateKey, X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import type { LeafUsage } from "./kinds.ts";
import { createCertificateAuthority, issueLeaf, type LeafOptions } from "./x509.ts";

const der = encodeNameConstraints(["gw.example.org", "10.1.2.3", "fd00::5"]);

Deno.test.each(
  ["localhost", "127.0.0.1", "127.9.9.9", "::1", "gw.example.org", "a.GW.example.org", "10.1.2.3", "fd00::5"]
    .map((name) => ({ name })),
)("a CA for a name can sign for $name", ({ name }) => {
  assert.equal(permits(der, name), true);
});

Deno.test.each(
  ["example.org", "xgw.example.org", "gw.example.org.evil", "10.1.2.4", "::2", "fd00::6"]
    .map((name) => ({ name })),
)("a CA for a name must not sign for $name", ({ name }) => {
  assert.equal(permits(der, name), false);
});

Deno.test("a truncated name constraint permits no name", () => {
  assert.throws(() => permits(der.subarray(0, 20), "localhost"), RangeError);
});

const SERVER_AUTH = "1.3.6.1.5.5.7.3.1";
const CLIENT_AUTH = "1.3.6.1.5.5.7.3.2";

/** A PEM CA as node:crypto parses it, and a certificate that it issued. */
async function issue(options: Partial<LeafOptions> = {}) {
  const authority = await createCertificateAuthority({ commonName: "test CA" });
  const pair = await issueLeaf(authority, { subject: "CN=a", usage: "client", ...options });
  return { authority: new X509Certificate(authority.certPem), leaf: new X509Certificate(pair.certPem), pair };
}

Deno.test("createCertificateAuthority() creates a self-signed CA that signs only leaves", async () => {
  const pair = await createCertificateAuthority({ commonName: "gateway local mTLS CA" });
  const certificate = new X509Certificate(pair.certPem);
  assert.equal(certificate.subject, "CN=gateway local mTLS CA");
  assert.equal(certificate.issuer, certificate.subject);
  assert.equal(certificate.ca, true);
  assert.ok(certificate.verify(certificate.publicKey));
  assert.ok(certificate.checkPrivateKey(createPrivateKey(pair.keyPem)));
  assert.equal(certificate.publicKey.asymmetricKeyType, "ec", "browsers know no Ed25519");
  // critical basicConstraints {CA, pathLen 0}, critical keyUsage {keyCertSign, cRLSign}, in DER
  const der = certificate.raw.toString("hex");
  assert.ok(der.includes("0603551d130101ff040830060101ff020100"), "basicConstraints");
  assert.ok(der.includes("0603551d0f0101ff040403020106"), "keyUsage");
});

Deno.test("createCertificateAuthority() can restrict the CA to the names of this machine", async () => {
  const { certPem } = await createCertificateAuthority({ commonName: "CA", localOnly: true });
  const der = new X509Certificate(certPem).raw.toString("hex");
  // critical nameConstraints: permitted DNS localhost, 127.0.0.0/8, ::1/128
  const names = `300b82096c6f63616c686f7374300a87087f000000ff0000003022872000`;
  assert.ok(der.includes(`0603551d1e0101ff04`) && der.includes(names), der);
});

Deno.test("createCertificateAuthority() creates different keys for the same name", async () => {
  const [ours, foreign] = await Promise.all(
    ["CA", "CA"].map((commonName) => createCertificateAuthority({ commonName })),
  );
  const leaf = new X509Certificate((await issueLeaf(foreign!, { subject: "CN=a", usage: "client" })).certPem);
  assert.equal(leaf.verify(new X509Certificate(ours!.certPem).publicKey), false);
  assert.equal(leaf.verify(new X509Certificate(foreign!.certPem).publicKey), true);
});

Deno.test("issueLeaf() issues a certificate that TLS accepts with its key", async () => {
  const { authority, leaf, pair } = await issue({ subject: "CN=broker-local" });
  assert.equal(leaf.subject, "CN=broker-local");
  assert.equal(leaf.ca, false);
  assert.ok(leaf.verify(authority.publicKey));
  assert.ok(leaf.checkIssued(authority));
  assert.ok(createSecureContext({ cert: pair.certPem, key: pair.keyPem, ca: authority.toString() }));
  assert.match(
    leaf.raw.toString("hex"),
    /0603551d0f0101ff040403020780/,
    "critical keyUsage digitalSignature",
  );
  assert.match(leaf.raw.toString("hex"), /0603551d23/, "authority key identifier");
});

Deno.test.each<{ name: string; usage: LeafUsage; purposes: string[] }>([
  { name: "a client", usage: "client", purposes: [CLIENT_AUTH] },
  { name: "a server", usage: "server", purposes: [SERVER_AUTH] },
  { name: "both", usage: "both", purposes: [SERVER_AUTH, CLIENT_AUTH] },
])("issueLeaf() limits the certificate to $name", async ({ usage, purposes }) => {
  const { leaf } = await issue({ usage });
  assert.deepEqual([...leaf.keyUsage], ["DigitalSignature"]);
  const der = leaf.raw.toString("hex");
  assert.equal(der.includes("06082b06010505070301"), purposes.includes(SERVER_AUTH));
  assert.equal(der.includes("06082b06010505070302"), purposes.includes(CLIENT_AUTH));
});

Deno.test("issueLeaf() separates DNS names from IP addresses in the alternative names", async () => {
  const { leaf } = await issue({
    usage: "server",
    subjectAltNames: ["localhost", "127.0.0.1", "::1", "10.example"],
  });
  assert.equal(leaf.subjectAltName, "DNS:localhost, IP Address:127.0.0.1, IP Address:::1, DNS:10.example");
});

Deno.test.each<{ name: string; subject: LeafOptions["subject"]; expected: unknown }>([
  { name: "two common names", subject: "CN=a,CN=b", expected: { CN: ["a", "b"] } },
  { name: "no common name", subject: "O=x", expected: { O: "x" } },
  { name: "no subject at all", subject: "", expected: {} },
  { name: "an empty common name", subject: "CN=", expected: { CN: "" } },
  { name: "a C0 control character", subject: "CN=a\x01b", expected: { CN: "a\x01b" } },
  { name: "NUL", subject: "CN=a\0b", expected: { CN: "a\0b" } },
  { name: "a line break", subject: [{ CN: ["a\nb"] }], expected: { CN: "a\nb" } },
  { name: "a C1 control character", subject: "CN=a\x9bb", expected: { CN: "a\x9bb" } },
  { name: "a letter beyond ASCII", subject: "CN=é", expected: { CN: "é" } },
])("issueLeaf() writes a subject with $name unchanged, for tests of its rejection", async (row) => {
  const { leaf } = await issue({ subject: row.subject });
  assert.deepEqual({ ...leaf.toLegacyObject().subject }, row.expected);
});

Deno.test("issueLeaf() uses the given validity, by default from an hour ago for ninety days", async () => {
  const now = Date.now();
  const { leaf } = await issue();
  assert.ok(Math.abs(Date.parse(leaf.validFrom) - (now - 3_600_000)) < 60_000);
  assert.equal(Date.parse(leaf.validTo) - Date.parse(leaf.validFrom), 90 * 86_400_000);

  const notBefore = new Date("2020-01-01T00:00:00Z");
  const notAfter = new Date("2020-01-02T00:00:00Z");
  const { leaf: expired } = await issue({ notBefore, notAfter });
  assert.deepEqual([Date.parse(expired.validFrom), Date.parse(expired.validTo)], [
    notBefore.getTime(),
    notAfter.getTime(),
  ]);
});

Deno.test("issueLeaf() uses 128 random bits as a positive serial number", async () => {
  const { leaf } = await issue({ random: { bytes: (length) => new Uint8Array(length).fill(0xff) } });
  assert.equal(leaf.serialNumber, "FF".repeat(16));
  const { leaf: other } = await issue();
  const { leaf: third } = await issue();
  assert.notEqual(other.serialNumber, third.serialNumber);
});
