import { resolve } from "node:path";
import { tryLockFile, writeFileAtomic } from "@gateway/shared/files";
import { parseConfig, readConfigText } from "@gateway/shared/config";
import { AppError, errorText } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import {
  LARGE_SIGNER_KEYS,
  type SignerConfig,
  signerConfig,
  UNSUPPORTED_SIGNER_KEYS,
} from "@gateway/signer/config";
import { diffLines } from "./diff.ts";
import { hintMissingConfig } from "./output.ts";
import { findSignerProblems } from "./signer_file.ts";

/** An edit of the signer's config. */
export interface SignerFileEdit {
  /** As the operator named it; `signer.json` in the working folder when absent. */
  readonly path: string | undefined;
  readonly workingFolder: string;
  /** Gives the new text; it may throw when there is nothing to edit. */
  readonly edit: (text: string, config: SignerConfig) => string;
  /** Only checks and shows. */
  readonly dryRun?: boolean;
}

interface SignerFileChange {
  /** The absolute path of the file. */
  readonly file: string;
  /** As it is now, or would be. */
  readonly config: SignerConfig;
  readonly changes: boolean;
  /** Of a dry run: what it would change, as `diff -u` shows it. */
  readonly diff: readonly string[];
}

/**
 * Edits the signer's config file, whole or not at all. A text that the signer would not load is not written.
 *
 * @returns the config as it is now
 * @throws {AppError} `invalid_config` with what is wrong with the file, or would be; `conflict` when somebody else
 * edits it, or changed it meanwhile; `internal` when it can't be written
 */
export async function editSignerFile(edit: SignerFileEdit): Promise<SignerConfig> {
  return (await changeSignerFile(edit)).config;
}

/** {@linkcode editSignerFile}, with what it changes. */
export async function changeSignerFile(
  { path, workingFolder, edit, dryRun = false }: SignerFileEdit,
): Promise<SignerFileChange> {
  const file = resolve(workingFolder, path ?? "signer.json");
  const read = () => hintMissingConfig(() => readConfigText(file, "signer config"));
  const text = await read();
  using lock = dryRun ? undefined : await lockOrRefuse(file);
  const before = parse(text, file);
  const edited = edit(text, before);
  const change = {
    file,
    config: check(edited, file, before),
    changes: edited !== text,
    diff: dryRun ? diffLines(text, edited, file) : [],
  };
  if (lock === undefined || !change.changes) return change;
  if (await read() !== text) throw changedMeanwhile(file);
  try {
    await writeFileAtomic(file, new TextEncoder().encode(edited), { keepOwner: true });
  } catch (cause) {
    const why = errorText(cause);
    throw new AppError("internal", `Cannot write signer config ${quoteText(file)}: ${why}`, { cause });
  }
  return change;
}

async function lockOrRefuse(file: string): Promise<Disposable> {
  const lock = await tryLockFile(file);
  if (lock !== undefined) return lock;
  throw new AppError(
    "conflict",
    `${quoteText(file)} is being edited by somebody else: nothing was written, try again`,
  );
}

function changedMeanwhile(file: string): AppError {
  return new AppError("conflict", `${quoteText(file)} was changed meanwhile: nothing was written, try again`);
}

/** @param previous hosts that are written as in it are not checked again */
function parse(text: string, source: string, previous?: SignerConfig): SignerConfig {
  return parseConfig({
    ...{ text, source, previous, what: "signer config" },
    ...{ schema: signerConfig, unsupported: UNSUPPORTED_SIGNER_KEYS, large: LARGE_SIGNER_KEYS },
  });
}

/** Checks a text as the signer does, its policy included. */
function check(text: string, source: string, previous: SignerConfig): SignerConfig {
  const config = parse(text, source, previous);
  const problems = findSignerProblems(config);
  if (problems.length === 0) return config;
  throw new AppError("invalid_config", `Cannot use signer config: ${problems.join("\n  ")}`);
}
