import { ifThere, readRegularText, writeFileAtomic } from "@gateway/shared/files";
import { AppError, errorText } from "@gateway/shared/errors";
import { parseJson, stringifyJson } from "@gateway/shared/json";
import { quoteText } from "@gateway/shared/text";
import * as z from "@zod/zod";

/** The end that a log had when it was last verified. */
export interface RememberedHead {
  /** The log's name, without its folder: logs are also verified where they were copied to. */
  readonly log: string;
  /** The number of the last record in its file; 0 for an empty log. */
  readonly seq: bigint;
  /** SHA-256 of the last line; empty for an empty log. */
  readonly hash: string;
  /** When; RFC 3339. */
  readonly verified_at: string;
}

const headFile: z.ZodType<{ readonly heads: readonly RememberedHead[] }> = z.strictObject({
  heads: z.array(z.strictObject({
    log: z.string().min(1),
    seq: z.union([z.int(), z.bigint()]).transform(BigInt),
    hash: z.string().regex(/^(?:[0-9a-f]{64})?$/),
    verified_at: z.string().regex(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/),
  })).min(1),
});

/**
 * Reads a file of heads; undefined when there is none yet.
 *
 * @throws {AppError} `invalid_config` when it is something else
 */
export async function readHeads(path: string): Promise<readonly RememberedHead[] | undefined> {
  const text = await ifThere(readRegularText(path));
  if (text === undefined) return undefined;
  try {
    return headFile.parse(parseJson(text)).heads;
  } catch (cause) {
    throw new AppError(
      "invalid_config",
      `Cannot read remembered heads ${quoteText(path)}: not a file that audit verify --since has written`,
      { cause },
    );
  }
}

/**
 * Writes a file of heads in one step.
 *
 * @throws {AppError} `invalid_config` when it can't be written; the former one is in its place then
 */
export async function writeHeads(path: string, heads: readonly RememberedHead[]): Promise<void> {
  try {
    await writeFileAtomic(path, new TextEncoder().encode(`${stringifyJson({ heads })}\n`));
  } catch (cause) {
    throw new AppError(
      "invalid_config",
      `Cannot write remembered heads ${quoteText(path)}: ${errorText(cause)}`,
      { cause },
    );
  }
}

/** What became of a file of heads, for people. */
export function describeHeadFile(
  path: string,
  { ok, isNew }: { readonly ok: boolean; readonly isNew: boolean },
): string {
  const file = quoteText(path);
  if (!ok) return isNew ? `${file} was not written` : `${file} was left as it is`;
  return isNew
    ? `${file} is new and remembers this end: from the next run on it shows when anything is taken away`
    : `${file} remembers this end now`;
}
