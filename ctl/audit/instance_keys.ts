import { type AuditPublicKey, createAuditKey, createAuditPublicKey } from "@gateway/shared/audit";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { resolve } from "node:path";
import { readOperatorFile } from "../kit/files.ts";

/** What an instance is an instance of. */
export const LOG_SERVICES = ["signer", "control-plane", "broker"] as const;
/** One of {@linkcode LOG_SERVICES}. */
export type LogService = (typeof LOG_SERVICES)[number];

/** An instance that has to have a log, and the key that its records have to be signed by. */
export interface InstanceKey {
  readonly service: LogService;
  /** As in its config; also the name of the folder that its log is in. */
  readonly instance: string;
  readonly publicKey: AuditPublicKey;
}

/** What can be the name of a folder, and nothing else. */
const INSTANCE = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,64}$/;
const KEY = /^[A-Za-z0-9+/]{43}=$/;

/** Whether an instance can be called so. */
export function isInstanceName(name: string): boolean {
  return INSTANCE.test(name);
}

/** The line of an instance in a file of keys. */
export function formatInstanceKey({ service, instance, publicKey }: InstanceKey): string {
  return `${service} ${instance} ${publicKey.bytes.toBase64()}`;
}

/**
 * Reads a file of keys: a line for each instance of a deployment; blank ones and those that begin with `#` are for
 * people.
 *
 * @param source the file's name, for messages
 * @throws {AppError} `invalid_config` when a line is something else, or two instances have one name or one key
 */
export function parseInstanceKeys(text: string, source: string): readonly InstanceKey[] {
  const keys: InstanceKey[] = [];
  for (const [index, line] of text.split("\n").entries()) {
    if (/^\s*(?:#|$)/.test(line)) continue;
    const refuse = (problem: string) =>
      new AppError("invalid_config", `Cannot use ${quoteText(source)}: line ${index + 1}: ${problem}`);
    const [service = "", instance = "", key = "", ...more] = line.trim().split(/\s+/);
    const known = LOG_SERVICES.find((name) => name === service);
    if (known === undefined || !isInstanceName(instance) || !KEY.test(key) || more.length > 0) {
      throw refuse("not a line that broker-ctl audit public-key has written");
    }
    const bytes = Uint8Array.fromBase64(key);
    if (bytes.toBase64() !== key) throw refuse("the key is spelt in another way than it is written");
    for (const other of keys) {
      // Names that one folder could be of, where a file system does not tell them apart.
      if (other.instance.toLowerCase() === instance.toLowerCase()) {
        throw refuse(`a second key of ${instance}`);
      }
      if (other.publicKey.bytes.toBase64() === key) {
        throw refuse(
          `${instance} has the key of ${other.instance}: one's log would pass for the other's; ` +
            "give each a seed of its own in audit_key",
        );
      }
    }
    keys.push({ service: known, instance, publicKey: createAuditPublicKey(bytes) });
  }
  if (keys.length === 0) {
    throw new AppError("invalid_config", `Cannot use ${quoteText(source)}: it names no instance`);
  }
  return keys;
}

/**
 * The key that checks a log, from the seed file that the service signs with; undefined when none is named.
 *
 * @throws {AppError} `not_found` or `invalid_config` when the file can't be used
 */
export async function loadAuditKey(
  path: string | undefined,
  workingFolder: string,
): Promise<AuditPublicKey | undefined> {
  if (path === undefined) return undefined;
  return createAuditKey(await readOperatorFile(resolve(workingFolder, path), "audit key")).publicKey;
}
