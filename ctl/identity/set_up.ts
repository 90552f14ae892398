import { resolve } from "node:path";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/quote";
import type { SignerConfig } from "@gateway/signer/config";
import type { CommandContext } from "../context.ts";
import { loadSignerFile } from "../signer_file.ts";
import { type DeniedList, readDenied } from "./denied.ts";
import { type FoundCertificate, identityFolder, listCertificates } from "./folder.ts";
import { type ControlPlaneFile, findControlPlane } from "./control_plane_file.ts";

/** The flags of all that is done with identities. */
export interface IdentityFlags {
  readonly config?: string;
  readonly controlPlane?: string;
  readonly caKey?: string;
}

/** What identities are issued from, and for. */
export interface IdentitySetUp {
  /** Absolute. */
  readonly signerFile: string;
  readonly signer: SignerConfig;
  readonly controlPlane: ControlPlaneFile | undefined;
  /** The folder of certificates and keys. */
  readonly folder: string;
  readonly certificates: readonly FoundCertificate[];
  readonly denied: DeniedList | undefined;
}

/** @throws {AppError} `invalid_config` or `not_found` naming what can't be used */
export async function openSetUp(
  flags: IdentityFlags,
  { workingFolder }: Pick<CommandContext, "workingFolder">,
): Promise<IdentitySetUp> {
  const signerFile = resolve(workingFolder, flags.config ?? "signer.json");
  const signer = await loadSignerFile(flags.config, workingFolder);
  const controlPlane = await findControlPlane(flags.controlPlane, signerFile, workingFolder);
  const folder = identityFolder(signer.client_ca, workingFolder);
  const [certificates, denied] = await Promise.all([
    listCertificates(folder),
    readDenied(signer.denied_callers, workingFolder),
  ]);
  return { signerFile, signer, controlPlane, folder, certificates, denied };
}

/** @throws {AppError} `conflict` when the name is on the list: whoever has the old key must not come back by it */
export function refuseDenied(denied: DeniedList | undefined, name: string): void {
  if (denied?.names.has(name) !== true) return;
  throw new AppError(
    "conflict",
    `${quoteText(name)} was revoked, and its key may be somewhere: use another name`,
  );
}
