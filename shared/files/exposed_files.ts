/**
 * Files of a service that other users of the machine may read or write and should not.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { describeExposure } from "@gateway/shared/files";
 *
 * assert.equal(
 *   describeExposure({ key: "audit_key", path: "a.seed", use: "secret" }, { mode: 0o644, uid: 1000 }),
 *   'audit_key "a.seed": other users may read it (mode 0644); chmod 600 mends that',
 * );
 * ```
 *
 * @module
 */
import { quoteText } from "../text.ts";

/**
 * What a file is to a service: a `secret`; a `config`, which others may read when they are in its group; or what it
 * relies on, which others may read but not write.
 */
export type FileUse = "secret" | "config" | "relied_on";

/** A file, and the config key that names it. */
export interface UsedFile {
  readonly key: string;
  /** As in the config; empty: there is no file. */
  readonly path: string;
  /** What others must not do with it. */
  readonly use: FileUse;
}

/** What the file system knows of a file. */
interface FileMode {
  /** With its type, as `stat` gives it; `null` where there are no modes. */
  readonly mode: number | null;
  readonly uid: number | null;
}

const MAY_READ = 0o044;
const MAY_WRITE = 0o022;
const OTHERS_MAY_READ = 0o004;
const ROOT = 0;

const MEND: Readonly<Record<FileUse, string>> = {
  secret: "chmod 600 mends that",
  config: "chmod 640 mends that",
  relied_on: "chmod go-w mends that",
};

/**
 * What to tell an operator of a file that others may read or write; `undefined` where all is well. A file of root's may
 * be readable for its group: in no other way can a service that is not root read it.
 */
export function describeExposure({ key, path, use }: UsedFile, file: FileMode): string | undefined {
  const { mode } = file;
  if (mode === null) return undefined;
  const may = [
    ...((mode & readBits(use, file)) === 0 ? [] : ["read"]),
    ...(mayOthersWrite(file) ? ["write"] : []),
  ];
  if (may.length === 0) return undefined;
  return `${key} ${quoteText(path)}: other users may ${may.join(" and ")} it (mode ${formatMode(mode)}); ${
    MEND[use]
  }`;
}

/** Whether anybody but the owner may write to a file. */
export function mayOthersWrite({ mode }: FileMode): boolean {
  return mode !== null && (mode & MAY_WRITE) !== 0;
}

/** The permission bits as `chmod` takes them. */
export function formatMode(mode: number): string {
  return (mode & 0o7777).toString(8).padStart(4, "0");
}

function readBits(use: FileUse, { uid }: FileMode): number {
  switch (use) {
    case "secret":
      return uid === ROOT ? OTHERS_MAY_READ : MAY_READ;
    case "config":
      return OTHERS_MAY_READ;
    case "relied_on":
      return 0;
    default:
      return use satisfies never;
  }
}
