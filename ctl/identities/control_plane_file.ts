import { dirname, join, resolve } from "node:path";
import { type ControlPlaneConfig, controlPlaneConfig } from "@gateway/control-plane/config";
import { appendToList, loadConfig, parseConfig } from "@gateway/shared/config";
import { ifThere } from "@gateway/shared/files";
import { editLocked } from "../kit/files.ts";

/** A control plane's config and where it is. */
export interface ControlPlaneFile {
  readonly path: string;
  readonly config: ControlPlaneConfig;
}

/**
 * The control plane's config: as it is named, or beside the signer's, where it need not be.
 *
 * @throws {AppError} `invalid_config` when it is broken, or was named and is not there
 */
export async function findControlPlane(
  named: string | undefined,
  signerFile: string,
  workingFolder: string,
): Promise<ControlPlaneFile | undefined> {
  const path = named === undefined
    ? join(dirname(resolve(workingFolder, signerFile)), "control-plane.json")
    : resolve(workingFolder, named);
  if (named === undefined && await ifThere(Deno.stat(path)) === undefined) return undefined;
  return {
    path,
    config: await loadConfig({ path, what: "control plane config", schema: controlPlaneConfig }),
  };
}

/** The lists of a control plane's config that give those named in them a role. */
const ROLE_LISTS = {
  approver: { path: ["approval", "callers"], of: ({ approval }: ControlPlaneConfig) => approval.callers },
  broker: { path: ["sign_callers"], of: ({ sign_callers }: ControlPlaneConfig) => sign_callers },
} as const;

/**
 * Lets somebody decide on approvals, or ask for certificates.
 *
 * @returns what is left to do
 * @throws {AppError} `conflict` when somebody else changed the config meanwhile, `internal` when it can't be written
 */
export async function addCaller(
  { path, config }: ControlPlaneFile,
  role: keyof typeof ROLE_LISTS,
  name: string,
): Promise<string> {
  const list = ROLE_LISTS[role];
  if (!list.of(config).includes(name)) {
    const kind = { source: path, what: "control plane config", schema: controlPlaneConfig };
    await editLocked(path, kind.what, (text) => {
      if (list.of(parseConfig({ text, ...kind })).includes(name)) return text;
      const edited = appendToList(text, list.path, name);
      parseConfig({ text: edited, ...kind });
      return edited;
    });
  }
  return `it is in ${list.path.join(".")} of ${path}; next: restart the control plane`;
}
