import { basename, dirname, join, resolve } from "node:path";
import { describeReadFailure, readRegularText } from "@gateway/shared/files";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
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

/** Where the identities of a set-up are: beside the CA that the signer believes. */
export function identityFolder(clientCa: string, workingFolder: string): string {
  return dirname(resolve(workingFolder, clientCa));
}
