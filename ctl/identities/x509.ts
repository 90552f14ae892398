// The decorators in @peculiar/x509's dependencies need this polyfill, and need it first.
import "reflect-metadata";
import { createPublicKey } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { AppError } from "@gateway/shared/errors";
import { type Random, systemClock, systemRandom } from "@gateway/shared/clock";
import { LEAF_DAYS, type LeafUsage } from "./kinds.ts";
import { encodeNameConstraints } from "./name_constraints.ts";

/** A certificate and its private key: both PEM, the key PKCS #8. */
export interface CertificatePair {
  readonly certPem: string;
  readonly keyPem: string;
}

/** A certificate authority that can issue leaves; its key stays usable through WebCrypto only. */
export interface X509Authority extends CertificatePair {
  readonly certificate: x509.X509Certificate;
  readonly signingKey: CryptoKey;
}

/** From when to when a certificate is valid, and where its serial comes from. */
interface Validity {
  /** Default: an hour ago, for machines whose clocks are behind. */
  readonly notBefore?: Date;
  /** Default: ten years after `notBefore` for a CA, {@linkcode LEAF_DAYS} for a leaf. */
  readonly notAfter?: Date;
  readonly random?: Random;
}

/** Options of {@linkcode createCertificateAuthority}. */
interface AuthorityOptions extends Validity {
  readonly commonName: string;
  /**
   * Bound it to the names and addresses of the loopback interface (name constraints, RFC 5280 section 4.2.1.10):
   * a browser that trusts it believes it about no other site.
   */
  readonly localOnly?: boolean;
  /** With `localOnly`: further names and addresses that it may vouch for. */
  readonly names?: readonly string[];
}

/** Options of {@linkcode issueLeaf}. */
export interface LeafOptions extends Validity {
  /**
   * RFC 4514 text such as `CN=broker-local`, with several attributes or none (`""`). Text ends at a line break:
   * pass `[{ CN: ["a\nb"] }]` for a value that is to be taken as it is.
   */
  readonly subject: string | x509.JsonName;
  readonly usage: LeafUsage;
  readonly subjectAltNames?: readonly string[];
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** How long a CA is good for: ten years. */
const AUTHORITY_DAYS = 3653;
const IP_ADDRESS = /^(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F.]*:[0-9a-fA-F:.]*)$/;

const EXTENDED_USAGES = {
  client: [x509.ExtendedKeyUsage.clientAuth],
  server: [x509.ExtendedKeyUsage.serverAuth],
  both: [x509.ExtendedKeyUsage.serverAuth, x509.ExtendedKeyUsage.clientAuth],
} as const satisfies Record<LeafUsage, readonly x509.ExtendedKeyUsage[]>;

/**
 * ECDSA over P-256, which every TLS program knows. No browser knows Ed25519, and approvers come with browsers.
 */
const KEY_ALGORITHM = { name: "ECDSA", namedCurve: "P-256" } as const;
const SIGNING_ALGORITHM = { name: "ECDSA", hash: "SHA-256" } as const;

/** Makes a self-signed CA whose certificates can't be CAs themselves. */
export async function createCertificateAuthority(options: AuthorityOptions): Promise<X509Authority> {
  const keys = await generateKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    ...common(options, AUTHORITY_DAYS),
    name: [{ CN: [options.commonName] }],
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      ...(options.localOnly === true ? [nameConstraints(options.names ?? [])] : []),
    ],
  });
  return {
    certPem: certificateToPem(certificate),
    keyPem: await keyToPem(keys.privateKey),
    certificate,
    signingKey: keys.privateKey,
  };
}

/**
 * An authority of this program's, as its files have it.
 *
 * @throws {AppError} `invalid_config` when they can't be read, or do not belong together
 */
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
    // What a library says could quote the key.
    throw new AppError(
      "invalid_config",
      "Cannot use the CA: its certificate or its key is not ECDSA P-256 in PEM",
    );
  }
  throw new AppError("invalid_config", "Cannot use the CA: its key does not belong to its certificate");
}

/** Makes a fresh key and a certificate for it. */
export async function issueLeaf(authority: X509Authority, options: LeafOptions): Promise<CertificatePair> {
  const keys = await generateKeys();
  const certPem = await certify(authority, keys.publicKey, options);
  return { certPem, keyPem: await keyToPem(keys.privateKey) };
}

/**
 * Makes a key, and a request for a certificate of it, which proves that whoever sends it has the key.
 *
 * @param commonName for people; who issues the certificate names its holder
 */
export async function requestCertificate(
  commonName: string,
): Promise<{ readonly requestPem: string; readonly keyPem: string }> {
  const keys = await generateKeys();
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    name: [{ CN: [commonName] }],
    keys,
    signingAlgorithm: SIGNING_ALGORITHM,
  });
  return { requestPem: `${request.toString("pem").trim()}\n`, keyPem: await keyToPem(keys.privateKey) };
}

/** Makes a certificate for a key that is elsewhere. */
export async function certify(
  authority: X509Authority,
  publicKey: x509.PublicKeyType,
  options: LeafOptions,
): Promise<string> {
  const extensions: x509.Extension[] = [
    new x509.BasicConstraintsExtension(false, undefined, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
    new x509.ExtendedKeyUsageExtension([...EXTENDED_USAGES[options.usage]]),
    await x509.SubjectKeyIdentifierExtension.create(publicKey),
    await x509.AuthorityKeyIdentifierExtension.create(authority.certificate.publicKey),
  ];
  const names = options.subjectAltNames ?? [];
  if (names.length > 0) {
    extensions.push(
      new x509.SubjectAlternativeNameExtension(
        names.map((value) => ({ type: IP_ADDRESS.test(value) ? "ip" : "dns", value } as const)),
      ),
    );
  }
  const certificate = await x509.X509CertificateGenerator.create({
    ...common(options, LEAF_DAYS),
    subject: options.subject,
    issuer: authority.certificate.subjectName,
    publicKey,
    signingKey: authority.signingKey,
    extensions,
  });
  return certificateToPem(certificate);
}

/** What of a certificate goes into the next one for the same key. */
export function readLeaf(certPem: string): Pick<LeafOptions, "subject" | "usage" | "subjectAltNames"> & {
  readonly publicKey: x509.PublicKey;
} {
  const certificate = new x509.X509Certificate(certPem);
  const usages = certificate.getExtension(x509.ExtendedKeyUsageExtension)?.usages.map(String) ?? [];
  const [isServer, isClient] = [x509.ExtendedKeyUsage.serverAuth, x509.ExtendedKeyUsage.clientAuth]
    .map((usage) => usages.includes(usage));
  const names = certificate.getExtension(x509.SubjectAlternativeNameExtension)?.names.items ?? [];
  return {
    subject: certificate.subjectName.toJSON(),
    usage: isServer ? (isClient ? "both" : "server") : "client",
    subjectAltNames: names.map(({ value }) => value),
    publicKey: certificate.publicKey,
  };
}

/**
 * The key of a request for a certificate.
 *
 * @throws {AppError} `invalid_config` for what is no request, is not signed by its key, or has a key that is weak or
 * that not every side of a TLS connection knows
 */
export async function readRequestKey(requestPem: string): Promise<x509.PublicKey> {
  const refuse = (why: string) => new AppError("invalid_config", `Cannot use the request: ${why}`);
  let request: x509.Pkcs10CertificateRequest;
  try {
    request = new x509.Pkcs10CertificateRequest(requestPem);
  } catch {
    throw refuse("it is no PKCS #10 request in PEM");
  }
  const algorithm: Algorithm & { readonly namedCurve?: string; readonly modulusLength?: number } =
    request.publicKey.algorithm;
  const isGood = algorithm.name === "ECDSA"
    ? algorithm.namedCurve === "P-256" || algorithm.namedCurve === "P-384"
    : algorithm.name.startsWith("RSA") && (algorithm.modulusLength ?? 0) >= 2048;
  if (!isGood) throw refuse("its key is neither ECDSA P-256 or P-384 nor RSA of 2048 bits or more");
  if (!await request.verify().catch(() => false)) throw refuse("it is not signed by its key");
  return request.publicKey;
}

/** The public key of a private one as this program writes it. @throws {AppError} `invalid_config` for another */
export function readPublicKey(keyPem: string): x509.PublicKey {
  try {
    return new x509.PublicKey(
      Uint8Array.from(createPublicKey(keyPem).export({ type: "spki", format: "der" })),
    );
  } catch {
    throw new AppError("invalid_config", "Cannot use the private key: it is no unencrypted PEM key");
  }
}

/** Critical: whoever does not know the extension refuses the CA. */
function nameConstraints(names: readonly string[]): x509.Extension {
  return new x509.Extension("2.5.29.30", true, Uint8Array.from(encodeNameConstraints(names)));
}

/** A CA key made here and kept as PEM by the caller; extractable for that reason alone. */
async function generateKeys(): Promise<CryptoKeyPair> {
  return await crypto.subtle.generateKey(KEY_ALGORITHM, true, ["sign", "verify"]);
}

function common(options: Validity, days: number) {
  const notBefore = options.notBefore ?? new Date(systemClock.now() - HOUR_MS);
  return {
    notBefore,
    notAfter: options.notAfter ?? new Date(notBefore.getTime() + days * DAY_MS),
    serialNumber: serialNumber(options.random ?? systemRandom),
    signingAlgorithm: SIGNING_ALGORITHM,
  };
}

/** 128 random bits; a DER integer is signed, so a leading zero byte keeps it positive. */
function serialNumber(random: Random): string {
  return `00${random.bytes(16).toHex()}`;
}

function certificateToPem(certificate: x509.X509Certificate): string {
  return `${certificate.toString("pem").trim()}\n`;
}

async function keyToPem(key: CryptoKey): Promise<string> {
  const pkcs8 = await crypto.subtle.exportKey("pkcs8", key);
  return `${x509.PemConverter.encode(pkcs8, x509.PemConverter.PrivateKeyTag).trim()}\n`;
}
