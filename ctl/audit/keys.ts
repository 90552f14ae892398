import { resolve } from "node:path";
import { type AuditPublicKey, createAuditKey, createAuditPublicKey } from "@gateway/shared/audit";
import { quoteText } from "@gateway/shared/text";
import { command, oneOf, required } from "../kit/command.ts";
import { readOperatorFile } from "../kit/files.ts";
import { badConfig, invalid } from "../kit/output.ts";

const SERVICES = ["signer", "control-plane", "broker"] as const;
const INSTANCE = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,64}$/;
const KEY = /^[A-Za-z0-9+/]{43}=$/;

/** An instance that must have a log, and the key that signs its records. */
export interface InstanceKey {
  readonly service: (typeof SERVICES)[number];
  /** The instance name in the config, which is also the name of the directory with the log. */
  readonly instance: string;
  readonly publicKey: AuditPublicKey;
}

/**
 * Reads a file of keys: a line for each instance; empty lines and comments (`#`) are ignored.
 *
 * @param source the file's name, for messages
 */
export function parseInstanceKeys(text: string, source: string): readonly InstanceKey[] {
  const refuse = (problem: string) => badConfig(`Cannot use ${quoteText(source)}: ${problem}`);
  const keys: InstanceKey[] = [];
  for (const [index, line] of text.split("\n").entries()) {
    if (/^\s*(?:#|$)/.test(line)) continue;
    const refuseLine = (problem: string) => refuse(`line ${index + 1}: ${problem}`);
    const [service = "", instance = "", key = "", ...more] = line.trim().split(/\s+/);
    const known = SERVICES.find((name) => name === service);
    if (known === undefined || !INSTANCE.test(instance) || !KEY.test(key) || more.length > 0) {
      throw refuseLine("expected the output of broker-ctl audit public-key");
    }
    const bytes = Uint8Array.fromBase64(key);
    if (bytes.toBase64() !== key) throw refuseLine("the key is not in canonical base64");
    for (const other of keys) {
      // Reject names that differ only in case, because some file systems ignore case in directory names.
      if (other.instance.toLowerCase() === instance.toLowerCase()) {
        throw refuseLine(`${instance} has a second key`);
      }
      if (other.publicKey.bytes.toBase64() === key) {
        throw refuseLine(`${instance} and ${other.instance} have the same key: each needs its own audit_key`);
      }
    }
    keys.push({ service: known, instance, publicKey: createAuditPublicKey(bytes) });
  }
  if (keys.length === 0) throw refuse("it contains no instance");
  return keys;
}

/** Derives the key that checks a log from the seed file that the service signs with. */
export async function loadAuditKey(path: string, workingFolder: string): Promise<AuditPublicKey> {
  return createAuditKey(await readOperatorFile(resolve(workingFolder, path), "audit key")).publicKey;
}

export const PUBLIC_KEY = command({
  name: "public-key",
  summary: "Print an audit log's public key for audit verify --keys.",
  takes: {
    "--service <service>": required(oneOf(SERVICES, "service of the instance")),
    "--instance <name>": required("instance name, as in its config"),
    "--key <file>": required("seed file that signs the log (audit_key)"),
  },
  help: `
Examples:
  broker-ctl audit public-key --service signer --instance signer-1 --key /etc/gateway/signer_audit.seed

Run it on the instance's machine, which has the seed, and add the line to the file for audit verify --keys. The line is
not secret. Protect the file: anyone who can change it decides which records are trusted.
`,
  uses: () => [],
  run: async ({ service, instance, key }, { workingFolder }) => {
    if (!INSTANCE.test(instance)) {
      throw invalid(`Cannot use instance name ${quoteText(instance)}: expected letters, digits and . _ -`);
    }
    const public_key = (await loadAuditKey(key, workingFolder)).bytes.toBase64();
    return { json: { service, instance, public_key }, lines: [`${service} ${instance} ${public_key}`] };
  },
});
