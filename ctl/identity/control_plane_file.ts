import { dirname, join, resolve } from "node:path";
import { type ControlPlaneConfig, controlPlaneConfig } from "@gateway/control-plane/config";
import { writeFileAtomic } from "@gateway/shared/atomic_file";
import { appendToList } from "@gateway/shared/config/edit";
import { loadConfig, parseConfig, readConfigText } from "@gateway/shared/config/load";
import { AppError, errorText } from "@gateway/shared/errors";
import { ifThere } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/quote";

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

/**
 * Lets somebody decide on approvals.
 *
 * @returns what is left to do
 * @throws {AppError} `conflict` when somebody else changed the config meanwhile, `internal` when it can't be written
 */
export async function addApprover({ path, config }: ControlPlaneFile, name: string): Promise<string> {
  if (!config.approval.callers.includes(name)) {
    const what = "control plane config";
    const text = await readConfigText(path, what);
    const edited = appendToList(text, ["approval", "callers"], name);
    parseConfig({ text: edited, source: path, what, schema: controlPlaneConfig });
    if (await readConfigText(path, what) !== text) {
      throw new AppError(
        "conflict",
        `${quoteText(path)} was changed meanwhile: nothing was written, try again`,
      );
    }
    try {
      await writeFileAtomic(path, new TextEncoder().encode(edited), { keepOwner: true });
    } catch (cause) {
      const message = `Cannot write ${what} ${quoteText(path)}: ${errorText(cause)}`;
      throw new AppError("internal", message, { cause });
    }
  }
  return `it is in approval.callers of ${path}; next: restart the control plane`;
}
