import { readRegularText, tryLockFile, writeFileAtomic } from "@gateway/shared/files";
import { AppError, errorText } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";

/**
 * Edits a file that others may be editing too: one at a time, from what it says then, whole or not at all.
 *
 * @param what the file is, for the message
 * @param edit gives the new text; it may throw when there is nothing to edit
 * @throws {AppError} `conflict` when somebody else edits it, or changed it meanwhile; `internal` when it can't be written
 */
export async function editLocked(
  path: string,
  what: string,
  edit: (text: string) => string,
): Promise<void> {
  const refuse = (why: string) =>
    new AppError("conflict", `${quoteText(path)} ${why}: nothing was written, try again`);
  using lock = await tryLockFile(path);
  if (lock === undefined) throw refuse("is being edited by somebody else");
  const text = await readRegularText(path);
  const edited = edit(text);
  if (edited === text) return;
  if (await readRegularText(path) !== text) throw refuse("was changed meanwhile");
  try {
    await writeFileAtomic(path, new TextEncoder().encode(edited), { keepOwner: true });
  } catch (cause) {
    throw new AppError("internal", `Cannot write ${what} ${quoteText(path)}: ${errorText(cause)}`, { cause });
  }
}
