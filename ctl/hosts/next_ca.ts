import { resolve } from "node:path";
import { type CaKey, type CaKeyConfig, loadCaKeys, planCaKeys } from "@gateway/shared/ca";
import { systemClock, systemRandom } from "@gateway/shared/clock";
import { ifThere, readRegularText } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { encodeOpensshPrivateKey, formatPublicKey, parsePublicKey } from "@gateway/shared/ssh";
import { badConfig, type Environment, notFound } from "../kit/output.ts";
import { createFile } from "../kit/files.ts";

/** The files of a rotation, in the directory of the key that signs now. */
export function rotationFiles(path: string) {
  return { next: `${path}.next`, old: `${path}.old`, switched: `${path}.switched` } as const;
}

export function planKeys(config: Parameters<typeof planCaKeys>[0]) {
  const ring = planCaKeys(config);
  if (ring === undefined) throw badConfig("Cannot find a CA key in the signer's config");
  return ring;
}

export type PublicHalf = Pick<CaKey, "algorithm" | "publicKey">;

export type RotatedKeys = NonNullable<ReturnType<typeof rotatedKeys>>;

/**
 * The keys of a CA: the file of the key that signs, and functions that read the public half of a key, load a key that can
 * sign, and create a key. Each key has a file, with the private key or with the public half of a key in an agent.
 *
 * @returns undefined for a CA whose keys can't be rotated by files
 */
export function rotatedKeys(
  config: CaKeyConfig,
  { workingFolder, variables }: Pick<Environment, "workingFolder" | "variables">,
) {
  if (config.type === "pem") {
    return {
      path: resolve(workingFolder, config.path),
      readPublic: (path: string): Promise<PublicHalf | undefined> => readCaKey(path),
      load: async (path: string) => needKey(await readCaKey(path), path),
      make: (path: string) =>
        createFile(path, encodeOpensshPrivateKey(systemRandom.bytes(32), "gateway-ssh-ca"), 0o600),
    };
  }
  if (config.type !== "agent") return undefined;
  return {
    path: resolve(workingFolder, config.public_key_path),
    readPublic: async (path: string) => {
      const text = await ifThere(readRegularText(path));
      if (text === undefined) return undefined;
      const { algorithm, blob: publicKey } = parsePublicKey(text);
      return { algorithm, publicKey };
    },
    load: (path: string) => loadKey({ ...config, public_key_path: path }, variables),
    make: (path: string): Promise<void> => {
      const fix = "add the next key to the same agent, and write its public key to this file";
      return Promise.reject(notFound(`Cannot find ${quoteText(path)}`, undefined, fix));
    },
  };
}

/** Loads a key that can sign. */
export async function loadKey(key: CaKeyConfig, variables: Environment["variables"]): Promise<CaKey> {
  const ports = { what: "signer config", clock: systemClock, readEnv: (name: string) => variables[name] };
  return (await loadCaKeys({ ca_key: "", ca_keys: { _default: key } }, ports)).fallback;
}

export function needKey<K>(key: K | undefined, path: string): K {
  if (key === undefined) throw notFound(`Cannot find key ${quoteText(path)}`);
  return key;
}

async function readCaKey(path: string): Promise<CaKey | undefined> {
  const text = await ifThere(readRegularText(path));
  if (text === undefined) return undefined;
  // Loaded on demand: its packages read environment variables, which no other command needs.
  const { parsePemCaKey } = await import("@gateway/shared/ca/pem");
  return parsePemCaKey(text);
}

/** The line by which a host trusts a CA. */
export function caLine({ algorithm, publicKey }: PublicHalf): string {
  return formatPublicKey(algorithm, publicKey, "gateway-ssh-ca");
}
