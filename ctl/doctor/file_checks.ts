import { createPrivateKey, X509Certificate } from "node:crypto";
import { statfs } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { errorText } from "@gateway/shared/errors";
import type { UsedFile } from "@gateway/shared/exposed_files";
import { describeReadFailure, findExposedFiles } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/quote";
import { describeEnd, readCertificateFacts } from "../identity/certificate_facts.ts";
import { fail, type Finding, pass, warn } from "./finding.ts";

/** A certificate that a config names, and its key. */
export interface NamedCertificate {
  readonly key: string;
  readonly path: string;
  /** Of a CA's certificate there is none. */
  readonly keyPath?: string;
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
/** Less free space than this, and records could be lost within the day. */
const LEAST_FREE_BYTES = 1 << 30;

/** When certificates end, and whether their keys are theirs. */
export async function checkCertificates(
  file: string,
  certificates: readonly NamedCertificate[],
  workingFolder: string,
): Promise<readonly Finding[]> {
  const named = certificates.filter(({ path }) => path !== "");
  return await Promise.all(named.map(async ({ key, path, keyPath }) => {
    const at = resolve(workingFolder, path);
    const shown = `${key} ${quoteText(at)}`;
    let blocks: readonly string[];
    try {
      blocks = (await Deno.readTextFile(at)).match(CERTIFICATE) ?? [];
    } catch (error) {
      return fail(
        file,
        `${shown} can't be read: ${describeReadFailure(error)}`,
        "put it there, for the service to read",
      );
    }
    try {
      const [leaf] = blocks;
      if (leaf === undefined) {
        return fail(file, `${shown} holds no certificate`, "broker-ctl identity renew, or add");
      }
      for (const block of blocks) {
        const end = describeEnd(readCertificateFacts(block), systemClock.now());
        if (end !== undefined) {
          return (end.startsWith("expires") ? warn : fail)(
            file,
            `${shown} ${end}`,
            "broker-ctl identity renew --due",
          );
        }
      }
      if (keyPath === undefined || keyPath === "") return pass(file, shown);
      const pem = await Deno.readTextFile(resolve(workingFolder, keyPath));
      return new X509Certificate(leaf).checkPrivateKey(createPrivateKey(pem)) ? pass(file, shown) : fail(
        file,
        `${shown} is not the certificate of its key`,
        "broker-ctl identity renew, with the name of the file",
      );
    } catch (error) {
      return fail(
        file,
        `${shown} or its key can't be used: ${errorText(error)}`,
        "broker-ctl identity renew, or add",
      );
    }
  }));
}

/** Files that others may read or write. */
export async function checkExposure(
  file: string,
  used: readonly UsedFile[],
  workingFolder: string,
): Promise<readonly Finding[]> {
  const at = used.map((each) => ({
    ...each,
    path: each.path === "" ? "" : resolve(workingFolder, each.path),
  }));
  const exposed = await findExposedFiles(at);
  return exposed.length === 0
    ? [pass(file, "its files are its own")]
    : exposed.map((text) => warn(file, text, "chmod and chown as it says"));
}

/** Whether there is room for records. */
export async function checkRoom(file: string, auditLog: string, workingFolder: string): Promise<Finding> {
  const folder = dirname(resolve(workingFolder, auditLog));
  try {
    const { bavail, bsize } = await statfs(folder);
    const free = bavail * bsize;
    return free >= LEAST_FREE_BYTES ? pass(file, "there is room for records") : warn(
      file,
      `${quoteText(folder)} has ${
        Math.floor(free / 1_000_000)
      } MB left for records; a full disk stops the service`,
      "make room, or move the log",
    );
  } catch (error) {
    return fail(
      file,
      `the folder of the audit log ${quoteText(folder)} can't be looked at: ${errorText(error)}`,
      "make it",
    );
  }
}

/** Whether a backup is younger than a week. */
export async function checkBackup(folder: string, manifest: string): Promise<Finding> {
  const path = resolve(folder, manifest);
  try {
    const { mtime } = await Deno.stat(path);
    const days = Math.floor((systemClock.now() - (mtime?.getTime() ?? 0)) / 86_400_000);
    return days <= 7
      ? pass(folder, "the backup is of this week")
      : warn(folder, `the backup is ${days} days old`, "broker-ctl backup");
  } catch (error) {
    return fail(folder, `there is no whole backup: ${describeReadFailure(error)}`, "broker-ctl backup");
  }
}
