import { basename, dirname, join, resolve } from "node:path";
import {
  describeReadFailure,
  ifThere,
  readRegularText,
  removeLeft,
  writeFileAtomic,
} from "@gateway/shared/files";
import { AppError, errorText } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { systemRandom } from "@gateway/shared/clock";
import { type CertificateFacts, readCertificateFacts } from "./certificate_facts.ts";

/** A certificate in a folder of identities; what can't be read of it says why. */
export type FoundCertificate =
  & {
    readonly name: string;
    readonly path: string;
    /** Whether the private key lies beside it. */
    readonly hasKey: boolean;
  }
  & ({ readonly kind: "ok"; readonly pem: string; readonly facts: CertificateFacts } | {
    readonly kind: "broken";
    readonly problem: string;
  });

const SUFFIX = ".crt";
const encoder = new TextEncoder();

/**
 * The certificates of a folder by name; those of CAs are among them.
 *
 * @throws {AppError} `invalid_config` when there is no such folder, or it can't be read
 */
export async function listCertificates(folder: string): Promise<readonly FoundCertificate[]> {
  let names: readonly string[];
  try {
    names = (await Array.fromAsync(Deno.readDir(folder), ({ name }) => name)).sort();
  } catch (cause) {
    throw new AppError("invalid_config", `Cannot read ${quoteText(folder)}: ${describeReadFailure(cause)}`, {
      cause,
    });
  }
  return await Promise.all(
    names.filter((name) => name.endsWith(SUFFIX) && !name.startsWith(".")).map(async (file) => {
      const [name, path] = [basename(file, SUFFIX), join(folder, file)];
      const found = { name, path, hasKey: names.includes(`${name}.key`) };
      try {
        const pem = await readRegularText(path);
        return { ...found, kind: "ok" as const, pem, facts: readCertificateFacts(pem) };
      } catch (cause) {
        const problem = cause instanceof Error && cause.name in Deno.errors
          ? describeReadFailure(cause)
          : "it is no certificate";
        return { ...found, kind: "broken" as const, problem };
      }
    }),
  );
}

/**
 * Makes a file as one step, and never takes the place of another.
 *
 * @throws {AppError} `conflict` when there is one
 */
export async function createFile(path: string, text: string | Uint8Array, mode: number): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${systemRandom.bytes(12).toHex()}`);
  try {
    await writeFileAtomic(temporary, typeof text === "string" ? encoder.encode(text) : text, { mode });
    await Deno.link(temporary, path);
    await removeLeft(path);
  } catch (cause) {
    if (cause instanceof Deno.errors.AlreadyExists) {
      throw new AppError("conflict", `Cannot make ${quoteText(path)}: it exists`, { cause });
    }
    throw new AppError("internal", `Cannot make ${quoteText(path)}: ${errorText(cause)}`, { cause });
  } finally {
    await ifThere(Deno.remove(temporary));
  }
}

/** Replaces a file as one step, its owner and mode kept. @throws {AppError} `internal` when it can't be written */
export async function replaceFile(path: string, text: string): Promise<void> {
  try {
    await writeFileAtomic(path, encoder.encode(text), { keepOwner: true });
  } catch (cause) {
    throw new AppError("internal", `Cannot write ${quoteText(path)}: ${errorText(cause)}`, { cause });
  }
}

/** Where the identities of a set-up are: beside the CA that the signer believes. */
export function identityFolder(clientCa: string, workingFolder: string): string {
  return dirname(resolve(workingFolder, clientCa));
}
