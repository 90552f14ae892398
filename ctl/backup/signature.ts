import { dirname, join } from "node:path";
import { ifThere, readRegularFile, writeFileAtomic } from "@gateway/shared/files";
import { type AuditKey, createAuditKey, createAuditPublicKey } from "@gateway/shared/audit";
import { concatBytes, quoteText } from "@gateway/shared/text";
import { AppError } from "@gateway/shared/errors";
import { systemRandom } from "@gateway/shared/clock";
import { HintedError } from "../kit/output.ts";
import { readOperatorFile } from "../kit/files.ts";

/** `manifest.json` of a backup has its signature in this file: Ed25519, in base64. */
export const SIGNATURE = "manifest.sig";
/** Keeps a signature of a backup from counting as a signature of anything else. */
const DOMAIN = new TextEncoder().encode("gateway-backup-v1\0");
const SEED_BYTES = 32;

/** The Ed25519 seed that signs the backups of an installation. */
export function backupSeedPath(installation: string): string {
  return join(installation, "pki", "backup.seed");
}

/** Reads the seed. @throws {AppError} `not_found` or `invalid_config` */
export async function readBackupKey(path: string): Promise<AuditKey> {
  const seed = await readOperatorFile(path, "the seed that signs backups");
  if (seed.length === SEED_BYTES) return createAuditKey(seed);
  throw new AppError(
    "invalid_config",
    `Cannot use ${quoteText(path)}: expected 32 bytes, not ${seed.length}`,
  );
}

/** Creates the seed if the file is absent. Two backups that create it at the same time use the same one. */
export async function ensureBackupKey(path: string): Promise<AuditKey> {
  if (await ifThere(Deno.lstat(path)) === undefined) {
    await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    const temporary = join(dirname(path), `.backup.seed.${systemRandom.bytes(8).toHex()}`);
    await writeFileAtomic(temporary, systemRandom.bytes(SEED_BYTES));
    try {
      await Deno.link(temporary, path);
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    } finally {
      await Deno.remove(temporary);
    }
  }
  return await readBackupKey(path);
}

/** The content of {@linkcode SIGNATURE}. */
export function signManifest(manifest: Uint8Array, key: AuditKey): string {
  return `${key.sign(concatBytes([DOMAIN, manifest])).toBase64()}\n`;
}

/**
 * Checks that the holder of the seed signed `manifest.json`, and thereby the hashes of all other files of the backup.
 *
 * @param publicKey 32 bytes in base64
 * @throws {AppError} `invalid_request` for a text that is no key, `invalid_config` for a missing or false signature
 */
export async function verifyManifest(backup: string, manifest: Uint8Array, publicKey: string): Promise<void> {
  const key = decode(publicKey);
  if (key?.length !== SEED_BYTES) {
    throw new AppError(
      "invalid_request",
      `Cannot use public key ${quoteText(publicKey)}: expected 44 base64 characters`,
    );
  }
  const file = await ifThere(readRegularFile(join(backup, SIGNATURE)));
  if (file === undefined) {
    throw new AppError("invalid_config", `Cannot trust backup ${quoteText(backup)}: it is not signed`);
  }
  const signature = decode(new TextDecoder().decode(file).trim());
  if (
    signature?.length !== 64 ||
    !createAuditPublicKey(key).verify(concatBytes([DOMAIN, manifest]), signature)
  ) {
    throw new HintedError(
      new AppError(
        "invalid_config",
        `Cannot trust backup ${quoteText(backup)}: ${SIGNATURE} is not a signature by ${publicKey}`,
      ),
      "use another copy of the backup: this one was changed, or belongs to another installation",
    );
  }
}

function decode(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.fromBase64(text, { lastChunkHandling: "strict" });
  } catch {
    return undefined;
  }
}
