import { resolve } from "node:path";
import { AppError, errorText } from "@gateway/shared/errors";
import { parseDeniedCallers } from "@gateway/shared/http";
import { quoteText } from "@gateway/shared/text";
import { editLocked, readOperatorFile } from "../kit/files.ts";

/** The list of callers that listeners refuse, as the signer's config names it. */
export interface DeniedList {
  readonly path: string;
  readonly names: ReadonlySet<string>;
}

/**
 * Reads the list.
 *
 * @param deniedCallers as in the config; empty: there is no list
 * @throws {AppError} `not_found` or `invalid_config`, with the path and why
 */
export async function readDenied(
  deniedCallers: string,
  workingFolder: string,
): Promise<DeniedList | undefined> {
  if (deniedCallers === "") return undefined;
  const path = resolve(workingFolder, deniedCallers);
  const bytes = await readOperatorFile(path, "denied_callers");
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return { path, names: parseDeniedCallers(text) };
  } catch (cause) {
    const message = `Cannot use denied_callers ${quoteText(path)}: ${errorText(cause)}`;
    throw new AppError("invalid_config", message, { cause });
  }
}

/**
 * Adds a name to the list, durably.
 *
 * @returns whether it was not there before
 * @throws {AppError} `conflict` when somebody else edits the list, `internal` when it can't be written, `invalid_request`
 * or `invalid_config` for a name that the list can't hold
 */
export async function addDenied({ path }: DeniedList, name: string, note: string): Promise<boolean> {
  let isNew = false;
  await editLocked(path, "denied_callers", (text) => {
    isNew = !parseDeniedCallers(text).has(name);
    const edited = isNew ? `${text}# ${note}\n${name}\n` : text;
    // A name that begins with # would be a comment, and its holder believed on.
    if (parseDeniedCallers(edited).has(name)) return edited;
    throw new AppError("invalid_request", `${quoteText(name)} can't be on the list`);
  });
  return isNew;
}
