import { createPrivateKey, X509Certificate } from "node:crypto";
import { statfs } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { BrokerConfig } from "@gateway/broker/config";
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
import { backupSeedPath, parseManifest, readBackupKey, verifyManifest } from "../backup/manifest.ts";
import { describeEnd, readCertificateFacts } from "../identities/kinds.ts";
import { about, fail, type Finding, type Found, pass, unknown, warn } from "./findings.ts";

/** A certificate that a config names, and its key; the path of the key is empty for a CA. Paths are absolute. */
interface NamedCertificate {
  readonly key: string;
  readonly path: string;
  readonly keyPath: string;
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
/** With less free space, records could be lost within a day. */
const LEAST_FREE_BYTES = 1 << 30;

/** A file that this account may not read can be in order. */
function unseen(error: unknown): typeof fail {
  return error instanceof Deno.errors.PermissionDenied ? unknown : fail;
}

export async function checkCertificate({ key, path, keyPath }: NamedCertificate): Promise<Found> {
  const shown = `${key} ${quoteText(path)}`;
  let blocks: readonly string[];
  try {
    blocks = (await readRegularText(path)).match(CERTIFICATE) ?? [];
  } catch (error) {
    return unseen(error)(
      `${shown} can't be read: ${describeReadFailure(error)}`,
      "put it there, for the service to read; run this as who may read it",
    );
  }
  const [leaf] = blocks;
  if (leaf === undefined) return fail(`${shown} holds no certificate`, "broker-ctl identity renew, or add");
  try {
    for (const block of blocks) {
      const end = describeEnd(readCertificateFacts(block), systemClock.now());
      if (end === undefined) continue;
      return (end.startsWith("expires") ? warn : fail)(`${shown} ${end}`, "broker-ctl identity renew --due");
    }
    if (keyPath === "") return pass(shown);
    const pem = await readRegularText(keyPath);
    return new X509Certificate(leaf).checkPrivateKey(createPrivateKey(pem)) ? pass(shown) : fail(
      `${shown} is not the certificate of its key`,
      "broker-ctl identity renew, with the name of the file",
    );
  } catch (error) {
    return unseen(error)(
      `${shown} or its key can't be used: ${errorText(error)}`,
      "broker-ctl identity renew, or add; run this as who may read the key",
    );
  }
}

export async function checkExposure(used: readonly UsedFile[]): Promise<readonly Found[]> {
  const exposed = (await findExposedFiles(used)).map((text) => warn(text, "chmod and chown as it says"));
  const hidden = await Promise.all(used.map(async ({ key, path }) => {
    try {
      await ifThere(Deno.stat(path));
      return [];
    } catch (error) {
      const check = `${key} ${quoteText(path)} can't be looked at: ${describeReadFailure(error)}`;
      return [unknown(check, "run this as who may look at it")];
    }
  }));
  const found = [...exposed, ...hidden.flat()];
  return found.length > 0 ? found : [pass("its files are its own")];
}

export async function checkLeft(folders: Iterable<string>): Promise<readonly Finding[]> {
  const now = systemClock.now();
  // Other checks report the files of a directory that cannot be read.
  const left = await Promise.all([...folders].map((folder) => findLeft(folder, now).catch(() => [])));
  return left.flat().flatMap(({ path, of, isFolder }) => {
    const [what, fix] = !isFolder
      ? ["an edit", `remove it; ${of} is whole without it`]
      : of === "init"
      ? ["an init", "remove it; init --force, if the set-up is not whole"]
      : ["a backup", "remove it"];
    return about(path, [warn(`left of ${what} that was killed`, fix ?? "")]);
  });
}

/** The group of a socket, to which its agent belongs, must not read a key. */
export async function checkSocketGroups(
  sockets: BrokerConfig["sockets"],
  used: readonly UsedFile[],
  workingFolder: string,
): Promise<readonly Found[]> {
  const look = (path: string) => ifThere(Deno.stat(path)).catch(() => undefined);
  const secrets = await Promise.all(
    used.filter(({ use }) => use === "secret").map(async (file) => ({
      ...file,
      info: await look(file.path),
    })),
  );
  const found = sockets.filter(({ mode }) => mode === "0660").map(async ({ path, caller }) => {
    const at = resolve(workingFolder, path);
    const group = (await look(at) ?? await look(dirname(at)))?.gid;
    const read = secrets.filter(({ info }) => info?.gid === group && ((info?.mode ?? 0) & 0o040) !== 0);
    if (group === undefined || read.length === 0) return [];
    const names = read.map(({ key, path }) => `${key} ${quoteText(path)}`).join(", ");
    const check = `agent ${quoteText(caller)} can read ${names}: its socket has the same group`;
    return [fail(check, "chgrp the key")];
  });
  return (await Promise.all(found)).flat();
}

export async function checkDenied(path: string): Promise<Found> {
  const shown = `denied_callers ${quoteText(path)}`;
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await readRegularFile(path));
    return pass(`${shown} denies ${parseDeniedCallers(text).size}`);
  } catch (error) {
    return unseen(error)(
      `${shown} can't be used: ${error instanceof AppError ? errorText(error) : describeReadFailure(error)}`,
      "put a whole list there, a CN a line; the service goes on with its last one until a restart",
    );
  }
}

export async function checkRoom(auditLog: string): Promise<Found> {
  const folder = quoteText(dirname(auditLog));
  try {
    const { bavail, bsize } = await statfs(dirname(auditLog));
    const free = bavail * bsize;
    if (free >= LEAST_FREE_BYTES) return pass("there is room for records");
    const megabytes = Math.floor(free / 1_000_000);
    const check = `${folder} has ${megabytes} MB left for records; a full disk stops the service`;
    return warn(check, "make room, or move the log");
  } catch (error) {
    return fail(`the folder of the audit log ${folder} can't be looked at: ${errorText(error)}`, "make it");
  }
}

/** Checks that this installation signed a backup, that it is whole, and that it is at most a week old. */
export async function checkBackup(folder: string, installation: string): Promise<Found> {
  try {
    const manifest = await readRegularFile(resolve(folder, "manifest.json"));
    const key = (await readBackupKey(backupSeedPath(installation))).publicKey.bytes.toBase64();
    const { made_at, problems: [problem] = [] } = parseManifest(new TextDecoder().decode(manifest));
    await verifyManifest(folder, manifest, key);
    const days = Math.floor((systemClock.now() - Date.parse(made_at)) / 86_400_000);
    if (days < 0) return fail(`the backup is of ${made_at}, which is to come`, "look at the clocks");
    if (problem !== undefined) {
      return warn(`the backup is incomplete: ${problem}`, "fix that, then run broker-ctl backup");
    }
    return days <= 7
      ? pass(`the backup is of this week, signed by ${key}`)
      : warn(`the backup is ${days} days old`, "broker-ctl backup");
  } catch (error) {
    const why = error instanceof AppError ? errorText(error) : describeReadFailure(error);
    return unseen(error instanceof AppError ? error.cause : error)(
      `the backup cannot be restored: ${why}`,
      "broker-ctl backup",
    );
  }
}
