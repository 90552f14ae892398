import { createCipheriv, createHash, createHmac, pbkdf2Sync } from "node:crypto";
import { concatBytes } from "@gateway/shared/text";
import type { Random } from "@gateway/shared/clock";
import {
  bmpString,
  encodeBmp,
  explicit,
  integer,
  NULL,
  objectIdentifier,
  octetString,
  sequence,
  setOf,
} from "./der.ts";
import type { CertificatePair } from "./x509.ts";
import { resolve } from "node:path";
import { readOperatorText } from "../kit/files.ts";
import { badConfig } from "../kit/output.ts";

interface Pkcs12Options {
  readonly password: string;
  /** The label in a browser's list of certificates; ASCII. */
  readonly name: string;
  readonly random: Random;
}

const ITERATIONS = 10_000;
const SALT_BYTES = 16;
const BLOCK_BYTES = 64;
/** The purpose of the key in the KDF of RFC 7292 appendix B: a MAC. */
const MAC_PURPOSE = 3;

const OID = {
  data: "1.2.840.113549.1.7.1",
  certBag: "1.2.840.113549.1.12.10.1.3",
  shroudedKeyBag: "1.2.840.113549.1.12.10.1.2",
  x509Certificate: "1.2.840.113549.1.9.22.1",
  friendlyName: "1.2.840.113549.1.9.20",
  localKeyId: "1.2.840.113549.1.9.21",
  pbes2: "1.2.840.113549.1.5.13",
  pbkdf2: "1.2.840.113549.1.5.12",
  hmacWithSha256: "1.2.840.113549.2.9",
  aes256Cbc: "2.16.840.1.101.3.4.1.42",
  sha256: "2.16.840.1.101.3.4.2.1",
} as const;

/**
 * A certificate and its private key in one file for browsers (PKCS #12, RFC 7292). The key is encrypted with AES-256 and
 * PBKDF2, and an HMAC covers everything; both use SHA-256 like OpenSSL 3.
 */
export function encodePkcs12(pair: CertificatePair, options: Pkcs12Options): Uint8Array {
  const der = decodePem(pair.certPem);
  // The same ID in both bags: browsers match key and certificate by it.
  const keyId = createHash("sha256").update(der).digest();
  const attributes = setOf(
    sequence(objectIdentifier(OID.friendlyName), setOf(bmpString(options.name))),
    sequence(objectIdentifier(OID.localKeyId), setOf(octetString(keyId))),
  );
  const certificate = sequence(objectIdentifier(OID.x509Certificate), explicit(0, octetString(der)));
  const key = encryptKey(decodePem(pair.keyPem), options);
  const safe = sequence(
    data(sequence(bag(OID.certBag, certificate, attributes))),
    data(sequence(bag(OID.shroudedKeyBag, key, attributes))),
  );
  return sequence(integer(3), data(safe), signSafe(safe, options));
}

const bag = (type: string, value: Uint8Array, attributes: Uint8Array) =>
  sequence(objectIdentifier(type), explicit(0, value), attributes);

const data = (content: Uint8Array) => sequence(objectIdentifier(OID.data), explicit(0, octetString(content)));

/** EncryptedPrivateKeyInfo of RFC 5958, PBES2 of RFC 8018. */
function encryptKey(pkcs8: Uint8Array, { password, random }: Pkcs12Options): Uint8Array {
  const [salt, iv] = [random.bytes(SALT_BYTES), random.bytes(16)];
  const cipher = createCipheriv("aes-256-cbc", pbkdf2Sync(password, salt, ITERATIONS, 32, "sha256"), iv);
  const derivation = sequence(
    objectIdentifier(OID.pbkdf2),
    sequence(octetString(salt), integer(ITERATIONS), sequence(objectIdentifier(OID.hmacWithSha256), NULL)),
  );
  const encryption = sequence(objectIdentifier(OID.aes256Cbc), octetString(iv));
  return sequence(
    sequence(objectIdentifier(OID.pbes2), sequence(derivation, encryption)),
    octetString(concatBytes([cipher.update(pkcs8), cipher.final()])),
  );
}

function signSafe(safe: Uint8Array, { password, random }: Pkcs12Options): Uint8Array {
  const salt = random.bytes(SALT_BYTES);
  const digest = createHmac("sha256", deriveMacKey(password, salt)).update(safe).digest();
  const digestInfo = sequence(sequence(objectIdentifier(OID.sha256), NULL), octetString(digest));
  return sequence(digestInfo, octetString(salt), integer(ITERATIONS));
}

/** The KDF of RFC 7292 appendix B.2 for one block: SHA-256 returns enough bytes. */
function deriveMacKey(password: string, salt: Uint8Array): Uint8Array {
  const purpose = new Uint8Array(BLOCK_BYTES).fill(MAC_PURPOSE);
  const secret = concatBytes([encodeBmp(password), Uint8Array.of(0, 0)]);
  let key: Uint8Array = concatBytes([purpose, fillBlocks(salt), fillBlocks(secret)]);
  for (let round = 0; round < ITERATIONS; round++) key = createHash("sha256").update(key).digest();
  return key;
}

/** Repeats the bytes up to the end of a block. */
function fillBlocks(bytes: Uint8Array): Uint8Array {
  const length = Math.ceil(bytes.length / BLOCK_BYTES) * BLOCK_BYTES;
  return Uint8Array.from({ length }, (_, index) => bytes[index % bytes.length] ?? 0);
}

function decodePem(pem: string): Uint8Array {
  return Uint8Array.fromBase64(pem.replaceAll(/-----[^-]+-----/g, ""));
}

/** The minimum length of a password, because an attacker with the file can guess without limit. */
const SHORTEST = 12;
const RANDOM_BYTES = 15;

/** The password in a file's first line, or a new one. */
export async function bundlePassword(file: string | undefined, workingFolder: string, random: Random) {
  if (file === undefined) return { text: randomPassword(random), isNew: true };
  const lines = await readOperatorText(resolve(workingFolder, file), "the password");
  const [text = ""] = lines.split(/\r?\n/);
  if (/^[\x20-\x7e]*$/.test(text) && text.length >= SHORTEST) return { text, isNew: false };
  throw badConfig(
    `Cannot use the password: expected ${SHORTEST} or more printable ASCII characters in the first line`,
  );
}

/** A password of 120 bits. */
export function randomPassword(random: Random): string {
  return random.bytes(RANDOM_BYTES).toBase64({ alphabet: "base64url" });
}
