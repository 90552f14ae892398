// The decorators in @peculiar/x509's dependencies need this polyfill, and need it first.
import "reflect-metadata";
import * as x509 from "@peculiar/x509";
import { AppError } from "@gateway/shared/errors";
import { systemClock } from "@gateway/shared/clock";
import { type Random, systemRandom } from "@gateway/shared/random";
import { encodeDer, implicit, sequence } from "./der.ts";

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
export interface Validity {
  /** Default: an hour ago, for machines whose clocks are behind. */
  readonly notBefore?: Date;
  /** Default: ten years after `notBefore`. */
  readonly notAfter?: Date;
  readonly random?: Random;
}

/** Options of {@linkcode createCertificateAuthority}. */
export interface AuthorityOptions extends Validity {
  readonly commonName: string;
  /**
   * Bound it to the names and addresses of the loopback interface (name constraints, RFC 5280 section 4.2.1.10):
   * a browser that trusts it believes it about no other site.
   */
  readonly localOnly?: boolean;
}

/** What a leaf may be used for in TLS. */
export type LeafUsage = "client" | "server" | "both";

/** Options of {@linkcode issueLeaf}. */
export interface LeafOptions extends Validity {
  /**
   * RFC 4514 text such as `CN=broker-local`, with several attributes or none (`""`). Text ends at a line break:
   * pass `[{ CN: ["a\nb"] }]` for a value that is to be taken as it is.
   */
  readonly subject: string | x509.JsonName;
  readonly usage: LeafUsage;
  /** Host names and IP addresses. */
  readonly subjectAltNames?: readonly string[];
}

const HOUR_MS = 3_600_000;
const TEN_YEARS_MS = 10 * 365.25 * 24 * HOUR_MS;
const IP_ADDRESS = /^(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*)$/;

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
    ...common(options),
    name: [{ CN: [options.commonName] }],
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      ...(options.localOnly === true ? [localNames()] : []),
    ],
  });
  return { ...await toPem(certificate, keys), certificate, signingKey: keys.privateKey };
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
  const extensions: x509.Extension[] = [
    new x509.BasicConstraintsExtension(false, undefined, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
    new x509.ExtendedKeyUsageExtension([...EXTENDED_USAGES[options.usage]]),
    await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
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
    ...common(options),
    subject: options.subject,
    issuer: authority.certificate.subjectName,
    publicKey: keys.publicKey,
    signingKey: authority.signingKey,
    extensions,
  });
  return await toPem(certificate, keys);
}

/** Permitted: localhost, 127.0.0.0/8 and ::1; an address is followed by its mask. */
function localNames(): x509.Extension {
  const [dns, ip] = [2, 7];
  const ipv6 = [...new Uint8Array(15), 1, ...new Uint8Array(16).fill(0xff)];
  const permitted = [
    implicit(dns, "localhost"),
    implicit(ip, Uint8Array.of(127, 0, 0, 0, 0xff, 0, 0, 0)),
    implicit(ip, Uint8Array.from(ipv6)),
  ];
  const subtrees = encodeDer(0xa0, ...permitted.map((name) => sequence(name)));
  return new x509.Extension("2.5.29.30", true, Uint8Array.from(sequence(subtrees)));
}

/** A CA key made here and kept as PEM by the caller; extractable for that reason alone. */
async function generateKeys(): Promise<CryptoKeyPair> {
  return await crypto.subtle.generateKey(KEY_ALGORITHM, true, ["sign", "verify"]);
}

function common(options: Validity) {
  const notBefore = options.notBefore ?? new Date(systemClock.now() - HOUR_MS);
  return {
    notBefore,
    notAfter: options.notAfter ?? new Date(notBefore.getTime() + TEN_YEARS_MS),
    serialNumber: serialNumber(options.random ?? systemRandom),
    signingAlgorithm: SIGNING_ALGORITHM,
  };
}

/** 128 random bits; a DER integer is signed, so a leading zero byte keeps it positive. */
function serialNumber(random: Random): string {
  return `00${random.bytes(16).toHex()}`;
}

async function toPem(certificate: x509.X509Certificate, keys: CryptoKeyPair): Promise<CertificatePair> {
  const key = await crypto.subtle.exportKey("pkcs8", keys.privateKey);
  return {
    certPem: `${certificate.toString("pem").trim()}\n`,
    keyPem: `${x509.PemConverter.encode(key, x509.PemConverter.PrivateKeyTag).trim()}\n`,
  };
}
