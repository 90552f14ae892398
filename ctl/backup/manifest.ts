import { normalize } from "node:path";
import * as z from "@zod/zod";
import { AppError } from "@gateway/shared/errors";
import { parseJson } from "@gateway/shared/json";

/** What a file of a backup is. */
const BACKUP_KINDS = ["config", "audit_log", "state", "denied_callers"] as const;

/** One of {@linkcode BACKUP_KINDS}. */
export type BackupKind = (typeof BACKUP_KINDS)[number];

export interface BackupFile {
  readonly kind: BackupKind;
  readonly path: string;
  /** Where it really is, when a symbolic link is at the path; absolute. */
  readonly link?: string;
  /** Where its content is, below the backup's folder. */
  readonly stored: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly size: number;
  /** In hexadecimal. */
  readonly sha256: string;
}

/** A folder, which is made where it is not there. */
export interface BackupFolder {
  readonly path: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
}

/** The end of an audit log when it was copied. */
export interface BackupHead {
  readonly path: string;
  readonly seq: string;
  /** SHA-256 of the last line; empty for a log without records. */
  readonly hash: string;
}

/** `manifest.json`: what a backup holds, written last. */
export interface BackupManifest {
  readonly format: 1;
  /** RFC 3339. */
  readonly made_at: string;
  /** The folder of the configs; absolute. */
  readonly set_up: string;
  readonly files: readonly BackupFile[];
  /** The folders that files and keys were in; absent in backups of earlier versions. */
  readonly folders?: readonly BackupFolder[];
  readonly heads: readonly BackupHead[];
  /** How many files `keys.age` holds, and its SHA-256; absent: none were asked for. */
  readonly keys?: { readonly count: number; readonly sha256: string };
  /** What the configs name and is not here. */
  readonly left_out: readonly string[];
  /** Of which logs it has not all, or not what they were; absent: of none. */
  readonly problems?: readonly string[];
}

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const path = z.string().startsWith("/").refine(
  (text) => normalize(text) === text,
  "must have no ., .. or //",
);
const id = z.int().min(0).max(2 ** 32 - 1);

const manifest: z.ZodType<BackupManifest> = z.strictObject({
  format: z.literal(1),
  made_at: z.iso.datetime(),
  set_up: path,
  files: z.array(z.strictObject({
    kind: z.enum(BACKUP_KINDS),
    path,
    link: path.exactOptional(),
    stored: z.string().regex(/^files\/\d{4,9}$/),
    mode: z.int().min(0).max(0o777),
    uid: id,
    gid: id,
    size: z.int().min(0),
    sha256,
  })),
  folders: z.array(z.strictObject({ path, mode: z.int().min(0).max(0o7777), uid: id, gid: id }))
    .exactOptional(),
  heads: z.array(z.strictObject({ path, seq: z.string().regex(/^\d{1,20}$/), hash: z.string() })),
  keys: z.strictObject({ count: z.int().min(0), sha256 }).exactOptional(),
  left_out: z.array(z.string()),
  problems: z.array(z.string()).exactOptional(),
});

/** @throws {AppError} `invalid_config` for what is no manifest, or one of a later format */
export function parseManifest(text: string): BackupManifest {
  const { data, error } = manifest.safeParse(readJson(text));
  if (data !== undefined) return data;
  throw new AppError(
    "invalid_config",
    "Cannot read the backup: its manifest.json is broken, or of a later version",
    {
      cause: error,
    },
  );
}

function readJson(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}
