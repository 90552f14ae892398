// The decorators in @peculiar/x509's dependencies need this polyfill, and need it first.
import "reflect-metadata";
import { createPublicKey } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { type Random, systemClock, systemRandom } from "@gateway/shared/clock";
import { LEAF_DAYS, type LeafUsage } from "./kinds.ts";
import { encodeNameConstraints } from "./der.ts";
import { badConfig } from "../kit/output.ts";

/** A certificate and its private key: both PEM, the key PKCS #8. */
export interface CertificatePair {
  readonly certPem: string;
  readonly keyPem: string;
}

/** A CA that can issue leaves. Its key can be used through WebCrypto only. */
export interface X509Authority extends CertificatePair {
  readonly certificate: x509.X509Certificate;
  readonly signingKey: CryptoKey;
}

export interface LeafOptions {
  /**
   * RFC 4514 text such as `CN=broker-local`, with several attributes or none (`""`). Text ends at a line break: use
   * `[{ CN: ["a\nb"] }]` for a literal value.
   */
  readonly subject: string | x509.JsonName;
  readonly usage: LeafUsage;
  readonly subjectAltNames?: readonly string[];
  /** Default: an hour ago, for machines whose clocks are behind. */
  readonly notBefore?: Date;
  readonly notAfter?: Date;
  readonly random?: Random;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const AUTHORITY_DAYS = 3653;
const IP_ADDRESS = /^(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F.]*:[0-9a-fA-F:.]*)$/;

const { clientAuth, serverAuth } = x509.ExtendedKeyUsage;
const EXTENDED_USAGES = {
  client: [clientAuth],
  server: [serverAuth],
  both: [serverAuth, clientAuth],
} as const satisfies Record<LeafUsage, readonly x509.ExtendedKeyUsage[]>;

/** Every TLS program knows ECDSA over P-256. Browsers, which approvers use, do not know Ed25519. */
const KEY_ALGORITHM = { name: "ECDSA", namedCurve: "P-256" } as const;
const SIGNING_ALGORITHM = { name: "ECDSA", hash: "SHA-256" } as const;

/**
 * Creates a self-signed CA that cannot issue further CAs.
 *
 * @param localOnly restricts it to the names and addresses of the loopback interface and to `names`: a browser that trusts
 * the CA trusts it for no other site
 */
export async function createCertificateAuthority({ commonName, localOnly = false, names = [], ...more }: {
  readonly commonName: string;
  readonly localOnly?: boolean;
  readonly names?: readonly string[];
  readonly random?: Random;
}): Promise<X509Authority> {
  const keys = await generateKeys();
  const constraints = Uint8Array.from(encodeNameConstraints(names));
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    ...common(more, AUTHORITY_DAYS),
    name: [{ CN: [commonName] }],
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      // Mark the extension as critical, so that a program that does not know it rejects the CA.
      ...(localOnly ? [new x509.Extension("2.5.29.30", true, constraints)] : []),
    ],
  });
  const [certPem, keyPem] = [toPem(certificate), await keyToPem(keys.privateKey)];
  return { certPem, keyPem, certificate, signingKey: keys.privateKey };
}

/** Loads a CA of this program. */
export async function loadAuthority(certPem: string, keyPem: string): Promise<X509Authority> {
  try {
    const certificate = new x509.X509Certificate(certPem);
    const [der] = x509.PemConverter.decode(keyPem);
    if (der === undefined) throw new TypeError("no PEM text");
    const signingKey = await crypto.subtle.importKey("pkcs8", der, KEY_ALGORITHM, false, ["sign"]);
    const trial = new Uint8Array(32);
    const signature = await crypto.subtle.sign(SIGNING_ALGORITHM, signingKey, trial);
    const publicKey = await certificate.publicKey.export(KEY_ALGORITHM, ["verify"]);
    if (await crypto.subtle.verify(SIGNING_ALGORITHM, publicKey, signature, trial)) {
      return { certPem, keyPem, certificate, signingKey };
    }
  } catch {
    // The library's message could quote the key.
    throw badConfig("Cannot use the CA: its certificate or its key is not ECDSA P-256 in PEM");
  }
  throw badConfig("Cannot use the CA: its key does not belong to its certificate");
}

/** Creates a key and a certificate for it. */
export async function issueLeaf(authority: X509Authority, options: LeafOptions): Promise<CertificatePair> {
  const keys = await generateKeys();
  const certPem = await certify(authority, keys.publicKey, options);
  return { certPem, keyPem: await keyToPem(keys.privateKey) };
}

/** Creates a key, and a request for a certificate of it, which proves possession of the key. */
export async function requestCertificate(commonName: string) {
  const keys = await generateKeys();
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    name: [{ CN: [commonName] }],
    keys,
    signingAlgorithm: SIGNING_ALGORITHM,
  });
  return { requestPem: toPem(request), keyPem: await keyToPem(keys.privateKey) };
}

/** Creates a certificate for a public key. */
export async function certify(authority: X509Authority, publicKey: x509.PublicKeyType, options: LeafOptions) {
  const extensions: x509.Extension[] = [
    new x509.BasicConstraintsExtension(false, undefined, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
    new x509.ExtendedKeyUsageExtension([...EXTENDED_USAGES[options.usage]]),
    await x509.SubjectKeyIdentifierExtension.create(publicKey),
    await x509.AuthorityKeyIdentifierExtension.create(authority.certificate.publicKey),
  ];
  const names = (options.subjectAltNames ?? []).map((value) =>
    ({ type: IP_ADDRESS.test(value) ? "ip" : "dns", value }) as const
  );
  if (names.length > 0) extensions.push(new x509.SubjectAlternativeNameExtension(names));
  const certificate = await x509.X509CertificateGenerator.create({
    ...common(options, LEAF_DAYS),
    subject: options.subject,
    issuer: authority.certificate.subjectName,
    publicKey,
    signingKey: authority.signingKey,
    extensions,
  });
  return toPem(certificate);
}

/** The facts of a certificate that go into the next one for the same key. */
export function readLeaf(certPem: string) {
  const certificate = new x509.X509Certificate(certPem);
  const usages = certificate.getExtension(x509.ExtendedKeyUsageExtension)?.usages.map(String) ?? [];
  const [isServer, isClient] = [serverAuth, clientAuth].map((usage) => usages.includes(usage));
  const usage: LeafUsage = isServer ? (isClient ? "both" : "server") : "client";
  const names = certificate.getExtension(x509.SubjectAlternativeNameExtension)?.names.items ?? [];
  const { subjectName, publicKey } = certificate;
  return {
    subject: subjectName.toJSON(),
    usage,
    subjectAltNames: names.map(({ value }) => value),
    publicKey,
  };
}

/** The public key in a certificate request. */
export async function readRequestKey(requestPem: string): Promise<x509.PublicKey> {
  const refuse = (why: string) => badConfig(`Cannot use the request: ${why}`);
  let request: x509.Pkcs10CertificateRequest;
  try {
    request = new x509.Pkcs10CertificateRequest(requestPem);
  } catch {
    throw refuse("expected a PKCS #10 request in PEM");
  }
  const algorithm: Algorithm & { readonly namedCurve?: string; readonly modulusLength?: number } =
    request.publicKey.algorithm;
  const isGood = algorithm.name === "ECDSA"
    ? algorithm.namedCurve === "P-256" || algorithm.namedCurve === "P-384"
    : algorithm.name.startsWith("RSA") && (algorithm.modulusLength ?? 0) >= 2048;
  if (!isGood) throw refuse("expected a key of ECDSA P-256, ECDSA P-384, or RSA with at least 2048 bits");
  if (!await request.verify().catch(() => false)) throw refuse("its signature is invalid");
  return request.publicKey;
}

/** The public key of a private key. */
export function readPublicKey(keyPem: string): x509.PublicKey {
  try {
    return new x509.PublicKey(
      Uint8Array.from(createPublicKey(keyPem).export({ type: "spki", format: "der" })),
    );
  } catch {
    throw badConfig("Cannot use the private key: expected an unencrypted key in PEM");
  }
}

/** Extractable, because the caller keeps the key as PEM. */
async function generateKeys(): Promise<CryptoKeyPair> {
  return await crypto.subtle.generateKey(KEY_ALGORITHM, true, ["sign", "verify"]);
}

function common(
  { notBefore = new Date(systemClock.now() - HOUR_MS), notAfter, random = systemRandom }: Partial<
    LeafOptions
  >,
  days: number,
) {
  return {
    notBefore,
    notAfter: notAfter ?? new Date(notBefore.getTime() + days * DAY_MS),
    // 128 random bits; a DER integer is signed, so a leading zero byte keeps it positive.
    serialNumber: `00${random.bytes(16).toHex()}`,
    signingAlgorithm: SIGNING_ALGORITHM,
  };
}

function toPem(encoded: { toString(format: "pem"): string }): string {
  return `${encoded.toString("pem").trim()}\n`;
}

async function keyToPem(key: CryptoKey): Promise<string> {
  const pkcs8 = await crypto.subtle.exportKey("pkcs8", key);
  return `${x509.PemConverter.encode(pkcs8, x509.PemConverter.PrivateKeyTag).trim()}\n`;
}
