import type { CaKey } from "@gateway/shared/ca/custody";
import { ifThere } from "@gateway/shared/files";
import { formatPublicKey } from "@gateway/shared/ssh/public_key";

/** The files of a rotation, beside the key that signs now. */
export function rotationFiles(path: string) {
  return { next: `${path}.next`, old: `${path}.old`, switched: `${path}.switched` } as const;
}

/** A CA key from a file, if there is one. @throws {AppError} `invalid_config` for what is no key */
export async function readCaKey(path: string): Promise<CaKey | undefined> {
  const text = await ifThere(Deno.readTextFile(path));
  if (text === undefined) return undefined;
  // Its packages look at variables, which no other command has a use for.
  const { parsePemCaKey } = await import("@gateway/shared/ca/pem");
  return parsePemCaKey(text);
}

/** The line by which a host trusts a CA. */
export function caLine({ algorithm, publicKey }: Pick<CaKey, "algorithm" | "publicKey">): string {
  return formatPublicKey(algorithm, publicKey, "gateway-ssh-ca");
}
