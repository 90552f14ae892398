import type { Command } from "commander";
import * as z from "@zod/zod";
import { removeMember } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import type { ClientSection } from "./client_config.ts";
import type { CommandContext, GlobalOption } from "./context.ts";
import { changeSignerFile, type SignerFileEdit } from "./edit_signer_file.ts";
import { type CommandResult, HintedError, RemoteError } from "./output.ts";
import { addRemoteOptions, askSigner } from "./remote.ts";
import type { SignerConfig } from "@gateway/signer/config";

/** The flags of every command that edits the signer's config. */
export interface ChangeFlags extends ClientSection {
  readonly config?: string;
  readonly dryRun?: boolean;
  readonly reload?: boolean;
}

/** What an edit has to say of itself. */
export interface DescribedChange {
  readonly json: Readonly<Record<string, unknown>>;
  /** The first one says what was done. */
  readonly lines: readonly string[];
}

/** A change of the signer's config that a command makes. */
export interface SignerChange {
  readonly edit: SignerFileEdit["edit"];
  /** Told the config as it is then. */
  readonly describe: (config: SignerConfig, file: string) => DescribedChange | Promise<DescribedChange>;
}

/** For the help of the commands that edit. */
export const CHANGE_HELP = `
The signer's config is edited in its place, comments and all else kept; what the signer would not load is not written.
--dry-run shows the change and writes nothing. The running signer takes it at its next reload: --reload asks for that
at once, with --url, --cert, --key and --ca as in broker-ctl reload --help.
`;

/** Gives a command the flags of an edit. */
export function addChangeOptions(command: Command): Command {
  return addRemoteOptions(
    command
      .option("--dry-run", "show the change, and write nothing")
      .option("--reload", "have the running signer take the change at once"),
  );
}

/** The global options that an edit reads. */
export function changeUses(flags: ChangeFlags): readonly GlobalOption[] {
  return flags.reload === true ? ["config", "clientConfig"] : ["config"];
}

/** A kind of entries in the signer's config, such as hosts. */
interface EntryKind {
  /** Its name in the description of the command. */
  readonly what: string;
  /** Its name in the output, if that is another one. */
  readonly label?: string;
  readonly argument: string;
  readonly aliases: readonly string[];
  readonly help: string;
  readonly path: readonly string[];
  /** Rejects a name that is not in the config, or must stay in it. */
  readonly check: (config: SignerConfig, name: string) => void;
}

/** Adds the command `remove`, which removes one entry from the signer's config. */
export function addRemove(parent: Command, context: CommandContext, kind: EntryKind): void {
  const { what, label = what, argument, aliases, help, path, check } = kind;
  const removal = (name: string): SignerChange => ({
    edit(text, config) {
      check(config, name);
      return removeMember(text, [...path, name]);
    },
    describe: () => ({ json: { name, removed: true }, lines: [`${label} ${quoteText(name)} removed`] }),
  });
  addChangeOptions(parent.command("remove"))
    .aliases([...aliases])
    .description(`Take a ${what} out of the signer's config.`)
    .argument(argument, "which")
    .addHelpText("after", help)
    .action((name: string, flags: ChangeFlags, command: Command) =>
      context.run(command, changeUses(flags), () => runChange(command, context, removal(name)))
    );
}

/** @throws {AppError} `not_found` for a name without an entry */
export function requireEntry(entries: object, what: string, name: string): void {
  if (Object.hasOwn(entries, name)) return;
  throw new AppError("not_found", `There is no ${what} ${quoteText(name)} in the config`);
}

/**
 * Makes a change as its flags say: shown, written, or written and in force.
 *
 * @throws {AppError} when it can't be made; after `--reload`, also when the signer did not take it
 */
export async function runChange(
  command: Command,
  context: CommandContext,
  { edit, describe }: SignerChange,
): Promise<CommandResult> {
  const flags = command.optsWithGlobals() as ChangeFlags;
  const { config: path, dryRun = false, reload = false } = flags;
  refuseMeaningless(flags);
  const { config, changes, diff, file } = await changeSignerFile({
    path,
    workingFolder: context.workingFolder,
    edit,
    dryRun,
  });
  const { json, lines } = await describe(config, file);
  if (dryRun) {
    const nothing = changes ? [] : ["nothing would change"];
    return {
      json: { ...json, dry_run: true, diff },
      lines: [...diff, ...nothing, "nothing was written (--dry-run)", ...lines.slice(1)],
    };
  }
  if (!reload) {
    const next = "the running signer goes on as before until: broker-ctl reload";
    return {
      json: { ...json, changed: changes },
      lines: [...lines, ...(changes ? [next] : [])],
    };
  }
  const { hosts } = await takeEffect(command, context, lines[0] ?? "the config is changed");
  return {
    json: { ...json, changed: changes, reloaded: true },
    lines: [...lines, `signer reloaded via HTTP (hosts: ${hosts})`],
  };
}

function refuseMeaningless(flags: ChangeFlags): void {
  const { dryRun = false, reload = false } = flags;
  if (dryRun && reload) {
    throw new AppError("invalid_request", "Options '--dry-run' and '--reload' exclude each other");
  }
  for (const name of ["url", "cert", "key", "ca"] as const) {
    if (reload || flags[name] === undefined) continue;
    throw new AppError("invalid_request", `Option '--${name}' means nothing without --reload`);
  }
}

const reloadResponse = z.object({ hosts: z.int(), status: z.string() });

/** Has the running signer read its config. */
export async function askReload(
  command: Command,
  context: CommandContext,
): Promise<z.infer<typeof reloadResponse>> {
  const { data } = await askSigner(command, context, {
    what: "reload",
    method: "POST",
    path: "/v1/reload",
    schema: reloadResponse,
  });
  return data;
}

/** What is written stays written: the error says so. */
async function takeEffect(command: Command, context: CommandContext, done: string) {
  try {
    return await askReload(command, context);
  } catch (error) {
    if (!(error instanceof HintedError)) throw error;
    throw new RemoteError(
      new AppError(error.code, `${done}, but the signer did not take it: ${error.message}`, { cause: error }),
      error.hint,
    );
  }
}
