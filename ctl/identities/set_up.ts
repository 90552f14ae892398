import { dirname, resolve } from "node:path";
import { AppError } from "@gateway/shared/errors";
import { ifThere } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import type { SignerConfig } from "@gateway/signer/config";
import type { CommandContext } from "../kit/context.ts";
import { loadSignerFile } from "../kit/signer_file.ts";
import { type DeniedList, readDenied } from "./denied.ts";
import { type FoundCertificate, identityFolder, listCertificates, requireOwn } from "./folder.ts";
import { type ControlPlaneFile, findControlPlane } from "./control_plane_file.ts";

/** The flags of all that is done with identities. */
export interface IdentityFlags {
  readonly config?: string;
  readonly controlPlane?: string;
  readonly caKey?: string;
  /** The folder that `client_ca` has to be in. */
  readonly pki?: string;
}

/** What identities are issued from, and for. */
export interface IdentitySetUp {
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
  if (flags.pki !== undefined) await requireIn(resolve(workingFolder, flags.pki), folder);
  const [certificates, denied] = await Promise.all([
    listCertificates(folder),
    readDenied(signer.denied_callers, workingFolder),
  ]);
  return { signerFile, signer, controlPlane, folder, certificates, denied };
}

/** The config need not be in hands as good as those of the CA. */
async function requireIn(pki: string, folder: string): Promise<void> {
  const [wanted, named] = await Promise.all([pki, folder].map((path) => ifThere(Deno.realPath(path))));
  if (wanted !== undefined && wanted === named) return;
  throw new AppError(
    "invalid_config",
    `The signer's config has its client_ca in ${quoteText(folder)}, not in ${quoteText(pki)} (--pki)`,
  );
}

/**
 * The same for what writes there, or signs with the CA's key.
 *
 * @throws {AppError} also `not_supported`, for root where somebody else may write
 */
export async function openOwnSetUp(
  flags: IdentityFlags,
  context: Pick<CommandContext, "workingFolder">,
): Promise<IdentitySetUp> {
  const setUp = await openSetUp(flags, context);
  await requireOwn(setUp.folder);
  if (setUp.denied !== undefined) await requireOwn(dirname(setUp.denied.path));
  return setUp;
}

/** @throws {AppError} `conflict` when the name is on the list: whoever has the old key must not come back by it */
export function refuseDenied(denied: DeniedList | undefined, name: string): void {
  if (denied?.names.has(name) !== true) return;
  throw new AppError(
    "conflict",
    `${quoteText(name)} was revoked, and its key may be somewhere: use another name`,
  );
}
