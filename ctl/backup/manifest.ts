import { dirname, join, normalize } from "node:path";
import * as z from "@zod/zod";
import { type AuditKey, createAuditKey, createAuditPublicKey } from "@gateway/shared/audit";
import { systemRandom } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { ifThere, readRegularFile } from "@gateway/shared/files";
import { concatBytes, quoteText } from "@gateway/shared/text";
import { each } from "@gateway/shared/wire";
import { createFile, readOperatorFile } from "../kit/files.ts";
import { badConfig, HintedError, invalid } from "../kit/output.ts";
import { readJson } from "../kit/values.ts";

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const path = z.string().startsWith("/").refine(
  (text) => normalize(text) === text,
  "must not contain ., .. or //",
);
const id = z.int().min(0).max(2 ** 32 - 1);

const backupFile = z.strictObject({
  kind: z.enum(["config", "audit_log", "state", "denied_callers", "policy_tests"]),
  path,
  // The real place, if the path is a symbolic link.
  link: path.exactOptional(),
  stored: z.string().regex(/^files\/\d{4,9}$/),
  mode: z.int().min(0).max(0o777),
  ...each(id, "uid", "gid"),
  size: z.int().min(0),
  sha256,
});

const manifest = z.strictObject({
  format: z.literal(1),
  made_at: z.iso.datetime(),
  // The directory of the configs.
  set_up: path,
  files: z.array(backupFile),
  // The directories of files and keys; absent in backups of earlier versions.
  folders: z.array(z.strictObject({ path, mode: z.int().min(0).max(0o7777), ...each(id, "uid", "gid") }))
    .exactOptional(),
  // The end of each audit log; the hash is of the last line, and empty for a log without records.
  heads: z.array(z.strictObject({ path, seq: z.string().regex(/^\d{1,20}$/), hash: z.string() })),
  // Absent if no keys were requested.
  keys: z.strictObject({ count: z.int().min(0), sha256 }).exactOptional(),
  left_out: z.array(z.string()),
  // Audit logs that are incomplete, or were not intact.
  problems: z.array(z.string()).exactOptional(),
});

export type BackupFile = z.infer<typeof backupFile>;

/** `manifest.json`, which lists the content of a backup and is written last. */
export type BackupManifest = z.infer<typeof manifest>;

export function parseManifest(text: string): BackupManifest {
  const data = readJson(manifest, text);
  if (data !== undefined) return data;
  throw badConfig("Cannot read the backup: its manifest.json is damaged, or of a later version");
}

/** The file with the Ed25519 signature of `manifest.json`, in base64. */
export const SIGNATURE = "manifest.sig";
/** This prefix prevents the use of a backup's signature for any other data. */
const DOMAIN = new TextEncoder().encode("gateway-backup-v1\0");
const SEED_BYTES = 32;

export function backupSeedPath(installation: string): string {
  return join(installation, "pki", "backup.seed");
}

export async function readBackupKey(path: string): Promise<AuditKey> {
  const seed = await readOperatorFile(path, "the seed that signs backups");
  if (seed.length === SEED_BYTES) return createAuditKey(seed);
  throw badConfig(`Cannot use ${quoteText(path)}: expected 32 bytes, not ${seed.length}`);
}

/** Creates the seed if the file is absent. Two backups that create it at the same time use the same one. */
export async function ensureBackupKey(path: string): Promise<AuditKey> {
  if (await ifThere(Deno.lstat(path)) === undefined) {
    await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await createFile(path, systemRandom.bytes(SEED_BYTES), 0o600).catch((error) => {
      if (!(error instanceof AppError && error.code === "conflict")) throw error;
    });
  }
  return await readBackupKey(path);
}

export function signManifest(manifest: Uint8Array, key: AuditKey): string {
  return `${key.sign(concatBytes([DOMAIN, manifest])).toBase64()}\n`;
}

/**
 * Checks that the holder of the seed signed `manifest.json`, and thereby the hashes of all other files of the backup.
 *
 * @param publicKey 32 bytes in base64
 */
export async function verifyManifest(backup: string, manifest: Uint8Array, publicKey: string): Promise<void> {
  const key = decode(publicKey);
  if (key?.length !== SEED_BYTES) {
    throw invalid(`Cannot use public key ${quoteText(publicKey)}: expected 44 base64 characters`);
  }
  const refuse = (why: string) => badConfig(`Cannot trust backup ${quoteText(backup)}: ${why}`);
  const file = await ifThere(readRegularFile(join(backup, SIGNATURE)));
  if (file === undefined) throw refuse("it is not signed");
  const signature = decode(new TextDecoder().decode(file).trim());
  const isSigned = signature?.length === 64 &&
    createAuditPublicKey(key).verify(concatBytes([DOMAIN, manifest]), signature);
  if (isSigned) return;
  const fix = "use another copy of the backup: this one was changed, or belongs to another installation";
  throw new HintedError(refuse(`${SIGNATURE} is not a signature by ${publicKey}`), fix);
}

function decode(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.fromBase64(text, { lastChunkHandling: "strict" });
  } catch {
    return undefined;
  }
}
