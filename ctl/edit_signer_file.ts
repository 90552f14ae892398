import { resolve } from "node:path";
import { writeFileAtomic } from "@gateway/shared/atomic_file";
import { parseConfig, readConfigText } from "@gateway/shared/config/load";
import { AppError, errorText } from "@gateway/shared/errors";
import { compilePolicy } from "@gateway/shared/policy/compile";
import { quoteText } from "@gateway/shared/quote";
import {
  findHostsWithoutKey,
  type SignerConfig,
  signerConfig,
  UNSUPPORTED_SIGNER_KEYS,
} from "@gateway/signer/config";
import { hintMissingConfig } from "./missing_config.ts";

/** An edit of the signer's config. */
export interface SignerFileEdit {
  /** As the operator named it; `signer.json` in the working folder when absent. */
  readonly path: string | undefined;
  readonly workingFolder: string;
  /** Gives the new text; it may throw when there is nothing to edit. */
  readonly edit: (text: string, config: SignerConfig) => string;
}

/**
 * Edits the signer's config file, whole or not at all. A text that the signer would not load is not written.
 *
 * @returns the config as it is now
 * @throws {AppError} `invalid_config` with what is wrong with the file, or would be; `conflict` when somebody else
 * changed it meanwhile; `internal` when it can't be written
 */
export async function editSignerFile({ path, workingFolder, edit }: SignerFileEdit): Promise<SignerConfig> {
  const file = resolve(workingFolder, path ?? "signer.json");
  const read = () => hintMissingConfig(() => readConfigText(file, "signer config"));
  const text = await read();
  const edited = edit(text, check(text, file));
  const config = check(edited, file);
  if (await read() !== text) {
    throw new AppError(
      "conflict",
      `${quoteText(file)} was changed meanwhile: nothing was written, try again`,
    );
  }
  try {
    await writeFileAtomic(file, new TextEncoder().encode(edited), { keepOwner: true });
  } catch (cause) {
    const why = errorText(cause);
    throw new AppError("internal", `Cannot write signer config ${quoteText(file)}: ${why}`, { cause });
  }
  return config;
}

/** Checks a text as the signer does, its policy included. */
function check(text: string, source: string): SignerConfig {
  const config = parseConfig({
    text,
    source,
    what: "signer config",
    schema: signerConfig,
    unsupported: UNSUPPORTED_SIGNER_KEYS,
  });
  const compiled = compilePolicy(config);
  const problems = [...(compiled.kind === "ok" ? [] : compiled.problems), ...findHostsWithoutKey(config)];
  if (problems.length === 0) return config;
  throw new AppError("invalid_config", `Cannot use signer config: ${problems.join("\n  ")}`);
}
