/**
 * The topic and context of a run, from the command line.
 *
 * @module
 */
import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import type { Settings } from "../settings/config.ts";
import { collectContext, type CollectedContext, type GivenFile } from "../context/collect.ts";
import { labelLanguage } from "../engine/graph/labels.ts";
import type { ContextRedactor } from "../context/redact_context.ts";

/** The options of `run` for topic and context. */
export interface InputFlags {
  readonly file?: string;
  readonly baseContext?: readonly string[];
  /** `false` with `--no-redact-context`. */
  readonly redactContext: boolean;
  readonly project?: string;
  readonly include?: readonly string[];
  readonly maxFiles: number;
  readonly maxCharsPerFile: number;
}

const DEFAULT_TOPICS = {
  en: "Diagnose the technical problem that the context describes.",
  es: "Diagnostica el problema técnico que describe el contexto.",
} as const;

const MAX_TOPIC = 20_000;

/**
 * The topic, or a general one if none is given.
 *
 * @throws {AppError} `invalid_request` when there is nothing to debate
 */
export function readTopic(words: readonly string[], flags: InputFlags, language: string): string {
  const topic = words.join(" ").trim();
  if (topic.length > MAX_TOPIC) {
    throw new AppError(
      "invalid_request",
      `The topic is longer than ${MAX_TOPIC} characters: use --file for it`,
    );
  }
  if (topic !== "") return topic;
  const { file, baseContext = [], project } = flags;
  if (file === undefined && baseContext.length === 0 && project === undefined) {
    throw new AppError(
      "invalid_request",
      'There is nothing to debate: give a topic, as in debate "The API has been slow since noon", or --file, --base-context or --project',
    );
  }
  return DEFAULT_TOPICS[labelLanguage(language)];
}

/**
 * The context.
 *
 * @throws {AppError} `invalid_request` when a file or the project cannot be used
 */
export async function readContext(
  flags: InputFlags,
  settings: Settings,
  { redact, clock }: { readonly redact: ContextRedactor; readonly clock: Clock },
): Promise<CollectedContext> {
  const { file, baseContext = [], project, include = [], maxFiles, maxCharsPerFile } = flags;
  if (project === undefined && include.length > 0) {
    throw new AppError("invalid_request", "--include has no effect without --project");
  }
  return await collectContext({
    baseContext: await Promise.all(baseContext.map(readFile)),
    incident: file === undefined ? undefined : await readFile(file),
    project: project === undefined
      ? undefined
      : { path: project, patterns: include, maxFiles, maxCharsPerFile },
  }, {
    redact: flags.redactContext ? redact : undefined,
    clock,
    allowedRoots: settings.ALLOWED_PROJECT_ROOTS,
  });
}

/** A file that the user names. @throws {AppError} `invalid_request` when it cannot be read */
export async function readFile(path: string): Promise<GivenFile> {
  try {
    return { name: path, bytes: await Deno.readFile(path) };
  } catch (cause) {
    const reason = cause instanceof Deno.errors.NotFound
      ? "there is no such file"
      : cause instanceof Deno.errors.IsADirectory
      ? "it is a folder"
      : "access is refused";
    throw new AppError("invalid_request", `Cannot read ${JSON.stringify(path)}: ${reason}`, { cause });
  }
}
