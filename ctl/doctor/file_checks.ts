import { createPrivateKey, X509Certificate } from "node:crypto";
import { statfs } from "node:fs/promises";
import { basename, dirname, resolve } from "node:path";
import type { BrokerConfig } from "@gateway/broker/config";
import { systemClock } from "@gateway/shared/clock";
import {
  describeReadFailure,
  findExposedFiles,
  findLeftovers,
  ifThere,
  readRegularFile,
  readRegularText,
  type UsedFile,
} from "@gateway/shared/files";
import { AppError, errorText } from "@gateway/shared/errors";
import { parseDeniedCallers } from "@gateway/shared/http";
import { quoteText, shellQuote } from "@gateway/shared/text";
import { backupSeedPath, parseManifest, readBackupKey, verifyManifest } from "../backup/manifest.ts";
import { describeEnd, readCertificateFacts } from "../identities/kinds.ts";
import {
  about,
  AS_ROOT,
  fail,
  type Finding,
  type Found,
  pass,
  SYNC_CLOCK,
  unknown,
  warn,
} from "./findings.ts";

/** A certificate in a config and its key. The path of the key is empty for a CA. Paths are absolute. */
interface NamedCertificate {
  readonly key: string;
  readonly path: string;
  readonly keyPath: string;
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
/** The minimum free space. With less, records could be lost within a day. */
const LEAST_FREE_BYTES = 1 << 30;

/** A file that this account cannot read may be correct, so the result is unknown. */
function unseen(error: unknown): typeof fail {
  return error instanceof Deno.errors.PermissionDenied ? unknown : fail;
}

export async function checkCertificate({ key, path, keyPath }: NamedCertificate): Promise<Found> {
  const shown = `${key} ${quoteText(path)}`;
  const renew = `broker-ctl identity renew ${shellQuote(basename(path, ".crt"))}`;
  let blocks: readonly string[];
  try {
    blocks = (await readRegularText(path)).match(CERTIFICATE) ?? [];
  } catch (error) {
    return unseen(error)(
      `${shown} cannot be read: ${describeReadFailure(error)}`,
      `make it readable for the service, then ${AS_ROOT}`,
    );
  }
  const [leaf] = blocks;
  if (leaf === undefined) return fail(`${shown} contains no certificate`, renew);
  try {
    for (const block of blocks) {
      const end = describeEnd(readCertificateFacts(block), systemClock.now());
      if (end === undefined) continue;
      return (end.startsWith("expires") ? warn : fail)(`${shown} ${end}`, "broker-ctl identity renew --due");
    }
    if (keyPath === "") return pass(shown);
    const pem = await readRegularText(keyPath);
    const matches = new X509Certificate(leaf).checkPrivateKey(createPrivateKey(pem));
    return matches ? pass(shown) : fail(`${shown} does not match its private key`, renew);
  } catch (error) {
    return unseen(error)(`${shown} or its key is unusable: ${errorText(error)}`, `${renew}, or ${AS_ROOT}`);
  }
}

export async function checkExposure(used: readonly UsedFile[]): Promise<readonly Found[]> {
  const exposed = (await findExposedFiles(used)).map((text) =>
    warn(text, "correct mode and owner, such as: chmod go-rwx FILE; chown SERVICE-ACCOUNT FILE")
  );
  const hidden = await Promise.all(used.map(async ({ key, path }) => {
    try {
      await ifThere(Deno.stat(path));
      return [];
    } catch (error) {
      const check = `${key} ${quoteText(path)} cannot be checked: ${describeReadFailure(error)}`;
      return [unknown(check, AS_ROOT)];
    }
  }));
  const found = [...exposed, ...hidden.flat()];
  return found.length > 0 ? found : [pass("no other account can change its files or read its keys")];
}

export async function checkLeftovers(folders: Iterable<string>): Promise<readonly Finding[]> {
  const now = systemClock.now();
  // Other checks report the files of a directory that cannot be read.
  const left = await Promise.all([...folders].map((folder) => findLeftovers(folder, now).catch(() => [])));
  return left.flat().flatMap(({ path, of, isFolder }) => {
    const remove = `rm -r ${shellQuote(path)}`;
    const [what, fix = ""] = !isFolder
      ? ["edit", `${remove}; ${of} is complete without it`]
      : of === "init"
      ? ["init", `${remove}; if the installation is incomplete: broker-ctl init --force`]
      : ["backup", remove];
    return about(path, [warn(`left over from an interrupted ${what}`, fix)], "production");
  });
}

/** Agents belong to the group of their socket, so that group must not be able to read a key. */
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
    return [fail(check, `chgrp SERVICE-GROUP ${read.map(({ path }) => shellQuote(path)).join(" ")}`)];
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
      `${shown} cannot be used: ${error instanceof AppError ? errorText(error) : describeReadFailure(error)}`,
      `write one CN per line: vi ${shellQuote(path)}; the service keeps its previous list until a restart`,
    );
  }
}

export async function checkRoom(auditLog: string): Promise<Found> {
  const directory = quoteText(dirname(auditLog));
  try {
    const { bavail, bsize } = await statfs(dirname(auditLog));
    const free = bavail * bsize;
    if (free >= LEAST_FREE_BYTES) return pass("enough disk space for audit records");
    const megabytes = Math.floor(free / 1_000_000);
    const check = `${directory} has ${megabytes} MB of free space; a full disk stops the service`;
    return warn(check, `free disk space: df -h ${shellQuote(dirname(auditLog))}`);
  } catch (error) {
    return fail(
      `the directory of the audit log ${directory} cannot be checked: ${errorText(error)}`,
      `mkdir -p -m 700 ${shellQuote(dirname(auditLog))}`,
    );
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
    if (days < 0) return fail(`the backup's time ${made_at} is in the future`, SYNC_CLOCK);
    if (problem !== undefined) {
      return warn(`the backup is incomplete: ${problem}`, "fix that, then: broker-ctl backup DIRECTORY");
    }
    return days <= 7
      ? pass(`the backup is at most a week old, signed by ${key}`)
      : warn(`the backup is ${days} days old`, "broker-ctl backup DIRECTORY");
  } catch (error) {
    const why = error instanceof AppError ? errorText(error) : describeReadFailure(error);
    const cause = error instanceof AppError ? error.cause : error;
    return unseen(cause)(`the backup cannot be restored: ${why}`, "broker-ctl backup DIRECTORY");
  }
}
