import { resolve } from "node:path";
import { type AgentCaKeyConfig, type CaKey, type CaKeyConfig, loadCaKeys } from "@gateway/shared/ca";
import { systemClock, systemRandom } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { ifThere, readRegularText } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { encodeOpensshPrivateKey, formatPublicKey, parsePublicKey } from "@gateway/shared/ssh";
import type { CommandContext } from "../kit/context.ts";
import { createFile } from "../kit/files.ts";

/** The files of a rotation, beside the key that signs now. */
export function rotationFiles(path: string) {
  return { next: `${path}.next`, old: `${path}.old`, switched: `${path}.switched` } as const;
}

/** What hosts know of a CA. */
export type PublicHalf = Pick<CaKey, "algorithm" | "publicKey">;

/** The keys that a rotation is about: each has a file, the private key's own, or the public half of one in an agent. */
export interface RotatedKeys {
  /** The file of the key that signs. */
  readonly path: string;
  /** The public half, if there is such a file. @throws {AppError} `invalid_config` for what is no key */
  readonly readPublic: (path: string) => Promise<PublicHalf | undefined>;
  /** A key that can sign. @throws {AppError} `invalid_config`, `not_found` where there is none */
  readonly load: (path: string) => Promise<CaKey>;
  /** Makes a new key. @throws {AppError} `not_found` where that is the operator's to do */
  readonly make: (path: string) => Promise<void>;
}

/** The keys of a CA, or `undefined` where they can't be rotated by files. */
export function rotatedKeys(
  config: CaKeyConfig,
  { workingFolder, variables }: Pick<CommandContext, "workingFolder" | "variables">,
): RotatedKeys | undefined {
  if (config.type === "pem") return keysInFiles(resolve(workingFolder, config.path));
  if (config.type !== "agent") return undefined;
  return keysInAgent(config, resolve(workingFolder, config.public_key_path), variables);
}

function keysInFiles(path: string): RotatedKeys {
  return {
    path,
    readPublic: readCaKey,
    load: async (path) => {
      const key = await readCaKey(path);
      if (key === undefined) throw new AppError("not_found", `There is no key ${quoteText(path)}`);
      return key;
    },
    make: (path) =>
      createFile(path, encodeOpensshPrivateKey(systemRandom.bytes(32), "gateway-ssh-ca"), 0o600),
  };
}

function keysInAgent(
  config: AgentCaKeyConfig,
  path: string,
  variables: CommandContext["variables"],
): RotatedKeys {
  return {
    path,
    readPublic: async (path) => {
      const text = await ifThere(readRegularText(path));
      if (text === undefined) return undefined;
      const { algorithm, blob: publicKey } = parsePublicKey(text);
      return { algorithm, publicKey };
    },
    load: async (path) => {
      const key = { ...config, public_key_path: path };
      const ports = { what: "signer config", clock: systemClock, readEnv: (name: string) => variables[name] };
      return (await loadCaKeys({ ca_keys: { _default: key } }, ports)).fallback;
    },
    make: (path) =>
      Promise.reject(
        new AppError(
          "not_found",
          `There is no ${
            quoteText(path)
          }: add the next key to the agent that has the former one, and put its public key there`,
        ),
      ),
  };
}

async function readCaKey(path: string): Promise<CaKey | undefined> {
  const text = await ifThere(readRegularText(path));
  if (text === undefined) return undefined;
  // Its packages look at variables, which no other command has a use for.
  const { parsePemCaKey } = await import("@gateway/shared/ca/pem");
  return parsePemCaKey(text);
}

/** The line by which a host trusts a CA. */
export function caLine({ algorithm, publicKey }: PublicHalf): string {
  return formatPublicKey(algorithm, publicKey, "gateway-ssh-ca");
}
