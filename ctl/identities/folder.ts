import { basename, dirname, join, resolve } from "node:path";
import { describeReadFailure, formatMode, mayOthersWrite, readRegularText } from "@gateway/shared/files";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { type CertificateFacts, readCertificateFacts } from "./certificate_facts.ts";
import { HintedError } from "../kit/output.ts";

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

const ROOT = 0;
const STICKY = 0o1000;

/**
 * Refuses what somebody else than root may put something else in place of, down from the root folder: whoever may could
 * have root sign what he likes, or write where he likes. Only root is that careful; anybody else has no more rights than
 * he gives away.
 *
 * @param path of a file or folder that is there
 * @throws {AppError} `not_supported` naming what is not root's own
 */
export async function requireOwn(path: string): Promise<void> {
  if (Deno.uid() !== ROOT) return;
  const real = await Deno.realPath(path);
  for (let at = real, below = ""; below !== at; below = at, at = dirname(at)) {
    const info = await Deno.lstat(at);
    // Whoever may write to a sticky folder can't replace what is not his.
    const isSticky = at !== real && ((info.mode ?? 0) & STICKY) !== 0;
    if (info.uid === ROOT && (isSticky || !mayOthersWrite(info))) continue;
    const state = `owner ${info.uid}, mode ${formatMode(info.mode ?? 0)}`;
    throw new HintedError(
      new AppError(
        "not_supported",
        `Cannot work as root with ${quoteText(path)}: ${quoteText(at)} is not root's alone (${state})`,
      ),
      `run it as its owner, or have root own it: chown root ${at}; chmod go-w ${at}`,
    );
  }
}
