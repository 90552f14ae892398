import { createPrivateKey, X509Certificate } from "node:crypto";
import { statfs } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import {
  describeReadFailure,
  findExposedFiles,
  findLeft,
  ifThere,
  readRegularFile,
  readRegularText,
  type UsedFile,
} from "@gateway/shared/files";
import { AppError, errorText } from "@gateway/shared/errors";
import { parseDeniedCallers } from "@gateway/shared/http";
import { quoteText } from "@gateway/shared/text";
import type { BrokerConfig } from "@gateway/broker/config";
import { describeEnd, readCertificateFacts } from "../identities/certificate_facts.ts";
import { parseManifest } from "../backup/manifest.ts";
import { backupSeedPath, readBackupKey, verifyManifest } from "../backup/signature.ts";
import { fail, type Finding, pass, unknown, warn } from "./finding.ts";

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
      blocks = (await readRegularText(at)).match(CERTIFICATE) ?? [];
    } catch (error) {
      return unseen(error)(
        file,
        `${shown} can't be read: ${describeReadFailure(error)}`,
        "put it there, for the service to read; run this as who may read it",
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
      const pem = await readRegularText(resolve(workingFolder, keyPath));
      return new X509Certificate(leaf).checkPrivateKey(createPrivateKey(pem)) ? pass(file, shown) : fail(
        file,
        `${shown} is not the certificate of its key`,
        "broker-ctl identity renew, with the name of the file",
      );
    } catch (error) {
      return unseen(error)(
        file,
        `${shown} or its key can't be used: ${errorText(error)}`,
        "broker-ctl identity renew, or add; run this as who may read the key",
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
  const hidden = (await Promise.all(at.map(async ({ key, path }) => {
    try {
      if (path !== "") await ifThere(Deno.stat(path));
      return [];
    } catch (error) {
      return [`${key} ${quoteText(path)} can't be looked at: ${describeReadFailure(error)}`];
    }
  }))).flat();
  if (exposed.length + hidden.length === 0) return [pass(file, "its files are its own")];
  return [
    ...exposed.map((text) => warn(file, text, "chmod and chown as it says")),
    ...hidden.map((text) => unknown(file, text, "run this as who may look at it")),
  ];
}

/** What commands that were killed have left in folders. */
export async function checkLeft(folders: Iterable<string>): Promise<readonly Finding[]> {
  const left = await Promise.all([...folders].map(async (folder) => {
    try {
      return await findLeft(folder, systemClock.now());
    } catch {
      // Of a folder that can't be looked at the files are told of.
      return [];
    }
  }));
  return left.flat().map(({ path, of, isFolder }) => {
    if (!isFolder) {
      return warn(path, "left of an edit that was killed", `remove it; ${of} is whole without it`);
    }
    return of === "init"
      ? warn(path, "left of an init that was killed", "remove it; init --force, if the set-up is not whole")
      : warn(path, "left of a backup that was killed", "remove it");
  });
}

/** Whether the group of a socket, to which its agent belongs, may read a key. */
export async function checkSocketGroups(
  file: string,
  sockets: BrokerConfig["sockets"],
  { used, workingFolder }: { readonly used: readonly UsedFile[]; readonly workingFolder: string },
): Promise<readonly Finding[]> {
  const look = async (path: string) =>
    await ifThere(Deno.stat(resolve(workingFolder, path))).catch(() => undefined);
  const secrets = used.filter(({ use, path }) => use === "secret" && path !== "");
  return (await Promise.all(
    sockets.filter(({ mode }) => mode === "0660").map(async ({ path, caller }) => {
      const group = (await look(path) ?? await look(dirname(path)))?.gid;
      const found = await Promise.all(
        secrets.map(async (secret) => ({ ...secret, info: await look(secret.path) })),
      );
      const read = found.filter(({ info }) => info?.gid === group && ((info?.mode ?? 0) & 0o040) !== 0);
      if (group === undefined || read.length === 0) return [];
      const names = read.map(({ key, path }) => `${key} ${quoteText(path)}`).join(", ");
      return [
        fail(
          file,
          `agent ${quoteText(caller)} can read ${names}: its socket has the same group`,
          "chgrp the key",
        ),
      ];
    }),
  )).flat();
}

/** Whether the list of callers that are denied is there and whole. */
export async function checkDenied(
  file: string,
  deniedCallers: string,
  workingFolder: string,
): Promise<readonly Finding[]> {
  if (deniedCallers === "") return [];
  const at = resolve(workingFolder, deniedCallers);
  const shown = `denied_callers ${quoteText(at)}`;
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await readRegularFile(at));
    const { size } = parseDeniedCallers(text);
    return [pass(file, `${shown} denies ${size}`)];
  } catch (error) {
    const why = error instanceof AppError ? errorText(error) : describeReadFailure(error);
    return [
      unseen(error)(
        file,
        `${shown} can't be used: ${why}`,
        "put a whole list there, a CN a line; the service goes on with its last one until a restart",
      ),
    ];
  }
}

/** What this user may not read can be as good as ever. */
function unseen(error: unknown): typeof fail {
  return error instanceof Deno.errors.PermissionDenied ? unknown : fail;
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

/** Whether this installation signed a backup, whole and within the last week. */
export async function checkBackup(folder: string, installation: string): Promise<Finding> {
  try {
    const manifest = await readRegularFile(resolve(folder, "manifest.json"));
    const key = (await readBackupKey(backupSeedPath(installation))).publicKey.bytes.toBase64();
    const { made_at, problems: [problem] = [] } = parseManifest(new TextDecoder().decode(manifest));
    await verifyManifest(folder, manifest, key);
    const days = Math.floor((systemClock.now() - Date.parse(made_at)) / 86_400_000);
    if (days < 0) return fail(folder, `the backup is of ${made_at}, which is to come`, "look at the clocks");
    if (problem !== undefined) {
      return warn(folder, `the backup is incomplete: ${problem}`, "fix that, then run broker-ctl backup");
    }
    return days <= 7
      ? pass(folder, `the backup is of this week, signed by ${key}`)
      : warn(folder, `the backup is ${days} days old`, "broker-ctl backup");
  } catch (error) {
    const why = error instanceof AppError ? errorText(error) : describeReadFailure(error);
    return unseen(error instanceof AppError ? error.cause : error)(
      folder,
      `the backup cannot be restored: ${why}`,
      "broker-ctl backup",
    );
  }
}
