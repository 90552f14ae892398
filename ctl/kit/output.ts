import { AppError, errorText } from "@gateway/shared/errors";
import { parseJson, stringifyJson } from "@gateway/shared/json";
import { quoteText, visibleJson, visibleText } from "@gateway/shared/text";
import type { Command } from "commander";
import { layOut, type Line, nameColumn, type OutputOptions, paint } from "./table.ts";

/** Receives complete lines. */
interface Terminal {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  /** The width of the terminal; absent: the output is no terminal. */
  readonly columns?: number | undefined;
  /** Whether the terminal shows colors, and the user wants them. */
  readonly color?: boolean | undefined;
  /** The present size of the terminal; absent: unknown. */
  readonly screen?: (() => { readonly columns: number; readonly rows: number }) | undefined;
}

/** An object for programs, and lines for people. */
export interface CommandResult {
  readonly json: unknown;
  readonly lines: readonly Line[];
  /** The command succeeded and found a problem: exit code 1. */
  readonly failed?: boolean;
  /** An exit code that scripts distinguish from a failure. */
  readonly exitCode?: 3;
}

/** An error of a code; with a `hint`, the fix is shown below it. */
const fault = (code: AppError["code"]) => (message: string, cause?: unknown, hint?: string) => {
  const error = new AppError(code, message, { cause });
  return hint === undefined ? error : new HintedError(error, hint);
};

/** A usage error: exit code 2. */
export const invalid = fault("invalid_request");
export const conflict = fault("conflict");
export const badConfig = fault("invalid_config");
export const notFound = fault("not_found");
export const internal = fault("internal");

/** An error and its fix. */
export class HintedError extends AppError {
  readonly hint: string;

  constructor(error: AppError, hint: string) {
    super(error.code, error.message, { cause: error.cause });
    this.hint = hint;
  }
}

/** Ignores a problem of a file that the operator did not name. */
export function ignoreAppError(error: unknown): undefined {
  if (!(error instanceof AppError)) throw error;
}

const SHORTEST_PREFIX = 4;

/**
 * The one ID that begins with a prefix of at least four characters. A shorter one could soon match another ID.
 *
 * @param fix the command that lists the IDs
 */
export function findById(prefix: string, ids: readonly string[], what: string, fix: string): string {
  const found = ids.includes(prefix) ? [prefix] : ids.filter((id) => prefix !== "" && id.startsWith(prefix));
  const [only, ...others] = new Set(found);
  const fail = (problem: string, hint: string) =>
    notFound(`Cannot find ${what} ${quoteText(prefix)}: ${problem}`, undefined, hint);
  if (only === undefined) throw fail("unknown ID", fix);
  const matches = `use one of ${[only, ...others].slice(0, 5).join(", ")}`;
  if (others.length > 0) throw fail("the prefix is not unique", matches);
  if (only !== prefix && prefix.length < SHORTEST_PREFIX) throw fail("the prefix is too short", matches);
  return only;
}

/** A rejection by a service. The exit code is 1 for every error code, because the command line was valid. */
export class RemoteError extends HintedError {}

/** Writes single lines, with control characters made visible; `note` writes to standard error. */
export function createLineWriter(terminal: Terminal, { json }: { readonly json: boolean }) {
  const shown = json ? visibleJson : visibleText;
  return {
    json,
    line: (text: string) => terminal.out(`${shown(text)}\n`),
    note: (text: string) => terminal.err(`${visibleText(text)}\n`),
  };
}

/** The options of every command. */
export type GlobalOptions = {
  readonly config?: string;
  readonly clientConfig?: string;
  readonly context?: string;
  /** `-o json`, too. */
  readonly json?: boolean;
  readonly output?: OutputOptions["output"];
  readonly headers?: boolean;
  readonly color?: "auto" | "always" | "never";
};

/** Chooses how a result is written. */
export function readOutput(
  { json = false, output = "table", headers = true, color = "auto" }: GlobalOptions,
  terminal: Terminal,
): OutputOptions {
  const hasColor = color === "always" || (color === "auto" && terminal.color === true);
  return { output: json ? "json" : output, headers, color: hasColor };
}

/** Writes a result: one JSON or YAML document, the names of the first table, or its lines. */
export async function writeResult(terminal: Terminal, options: OutputOptions, result: CommandResult) {
  const { output } = options;
  if (output === "json") return terminal.out(`${visibleJson(stringifyJson(result.json))}\n`);
  if (output === "yaml") {
    return terminal.out(await formatYaml(result.json));
  }
  const table = result.lines.find((line) => typeof line !== "string");
  if (output === "name" && table !== undefined) {
    const names = table.rows.map((row) => row[nameColumn(row)] ?? "")
      .map((name) => typeof name === "string" ? name : name.wide ?? name.text);
    return terminal.out(names.map((name) => `${visibleText(name)}\n`).join(""));
  }
  const lines = layOut(result.lines, { ...options, columns: terminal.columns });
  terminal.out(lines.map((line) => `${line}\n`).join(""));
}

/** A YAML document without control characters and invisible characters, which only quoted texts can escape. */
async function formatYaml(value: unknown): Promise<string> {
  const { stringify } = await import("yaml");
  // The document of JSON has no value that YAML lacks, such as undefined.
  const document = parseJson(stringifyJson(value));
  const visible = (text: string) => text.split("\n").map(visibleJson).join("\n");
  const plain = stringify(document);
  if (visible(plain) === plain) return plain;
  return visible(stringify(document, {
    ...{ defaultStringType: "QUOTE_DOUBLE", defaultKeyType: "QUOTE_DOUBLE", lineWidth: 0 },
  }));
}

/** Writes an error to standard error: one JSON object with `code`, `message` and `hint`, or the same as text. */
export function writeError(
  terminal: Terminal,
  options: Pick<OutputOptions, "output" | "color">,
  error: unknown,
): void {
  const { code, message, hint } = describeError(error);
  if (options.output === "json") {
    terminal.err(`${visibleJson(stringifyJson({ code, message, hint }))}\n`);
    return;
  }
  const lines = message.split("\n").map(visibleText);
  const label = paint("error:", "bad", options.color ?? false);
  terminal.err(`${label} ${lines.join("\n")}\n${hint === "" ? "" : `fix: ${visibleText(hint)}\n`}`);
}

function describeError(error: unknown): Readonly<Record<"code" | "message" | "hint", string>> {
  if (error instanceof AppError) {
    return { code: error.code, message: error.message, hint: error instanceof HintedError ? error.hint : "" };
  }
  // System errors without a class in Deno, such as a full disk, from Deno's API and from Node's.
  const isOfSystem = Object.values(Deno.errors).some((kind) => error instanceof kind) ||
    (error instanceof Error && (/\(os error \d+\)$/.test(error.message) || "syscall" in error));
  return isOfSystem
    ? { code: "internal", message: errorText(error), hint: "" }
    : { code: "internal", message: String(error), hint: "report this bug in broker-ctl" };
}

export const EXIT_CODES = { ok: 0, failed: 1, usage: 2 } as const;

export type ExitCode = (typeof EXIT_CODES)[keyof typeof EXIT_CODES] | 3;

/** The exit code for an error: usage for an `invalid_request` that the command line caused. */
export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof RemoteError) return EXIT_CODES.failed;
  return error instanceof AppError && error.code === "invalid_request" ? EXIT_CODES.usage : EXIT_CODES.failed;
}

/** The fix for one kind of error. */
export interface Advice {
  readonly when: (error: AppError) => boolean;
  readonly hint: string;
}

/** Runs an action, and adds the advice to its error. */
export async function withHint<T>(advice: Advice | undefined, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (error instanceof AppError && advice?.when(error)) throw new HintedError(error, advice.hint);
    throw error;
  }
}

/**
 * Adds a fix to an error that has none. A conflict that ends by itself needs none.
 *
 * @param help the command that prints the help
 */
export function withFix(error: unknown, help: string): unknown {
  if (!(error instanceof AppError) || error instanceof HintedError) return error;
  const { code, cause, message, retryAfterSeconds } = error;
  if (["invalid_request", "not_found", "conflict"].includes(code)) {
    return retryAfterSeconds === undefined ? new HintedError(error, help) : error;
  }
  if (code !== "invalid_config") return error;
  const option = message.startsWith("Cannot load client config ") ? "--client-config" : "--config";
  const missing = /^Cannot load [a-z ]*config /.test(message)
    ? `pass ${option}, or create a config with broker-ctl init`
    : "check the path";
  const unusable = "correct the file or pass another one; broker-ctl doctor checks configs";
  return new HintedError(error, cause instanceof Deno.errors.NotFound ? missing : unusable);
}

/** The parts of the process that the program uses. */
export interface Environment {
  readonly terminal: Terminal;
  readonly workingFolder: string;
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** The keys typed at a terminal, until the signal is aborted; absent: standard input is no terminal. */
  readonly keys?: ((signal: AbortSignal) => AsyncIterable<string>) | undefined;
  /** Gives up the right to start programs. */
  readonly dropPrograms?: () => void;
  /** Ends commands that would otherwise run until the process ends. */
  readonly signal?: AbortSignal;
}

/** A right of a command: to read the file of a global option, or to start programs such as `ssh`. */
export type Use = "config" | "clientConfig" | "programs";

export interface CommandContext extends Environment {
  /**
   * Runs an action and writes its result, as text or JSON. Without the use `programs`, the process first gives up the
   * right to start programs. Certificates in the used files are checked for expiry.
   */
  readonly run: (
    command: Command,
    uses: readonly Use[],
    action: () => Promise<CommandResult | void>,
  ) => Promise<void>;
}
