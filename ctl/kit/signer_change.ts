import { diffLines, type Line } from "./table.ts";
import { dirname, resolve } from "node:path";
import * as z from "@zod/zod";
import { parseConfig, readConfigText, removeMember } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import { quoteText, shellQuote } from "@gateway/shared/text";
import type { ControlPlaneConfig } from "@gateway/control-plane/config";
import { findPolicyProblems } from "@gateway/shared/policy";
import { LARGE_SIGNER_KEYS, type SignerConfig, UNSUPPORTED_SIGNER_KEYS } from "@gateway/signer/config";
import { type Call, command, type CommandData, type CommandSpec, type Given, type Takes } from "./command.ts";
import { describeEntry } from "./entries.ts";
import {
  CONFIG_KINDS,
  findSignerProblems,
  type HostConfig,
  loadLocalBroker,
  loadSignerFile,
  localHosts,
  requireTests,
} from "./signer_file.ts";
import {
  type Advice,
  badConfig,
  conflict,
  HintedError,
  notFound,
  RemoteError,
  type Use,
  withHint,
} from "./output.ts";
import { editLocked } from "./files.ts";
import { askSigner, REMOTE_HELP, type ServiceQuestion, usesSigner } from "./remote.ts";

/** A change of a config that a command makes. */
export interface Change {
  /** Returns the new text; throws if there is nothing to edit. */
  readonly edit: (text: string, config: HostConfig) => string;
  /** Describes the change, given the config after it; the first line is the result. */
  readonly describe: (config: HostConfig, file: string) => DescribedChange | Promise<DescribedChange>;
}

interface DescribedChange {
  readonly json: Readonly<Record<string, unknown>>;
  readonly lines: readonly string[];
}

const CHANGE_HELP = `
Edits the signer's config in place and keeps its comments. A config that the signer would reject is not written. The
change takes effect at the signer's next reload; --reload requests it. With --dry-run nothing is written or reloaded.
`;

const CHANGE = {
  "--dry-run": "show the change and write nothing",
  "--reload": "reload the running signer after the change",
};

/** A command that changes the signer's config: it shows the change, writes it, or writes it and reloads the signer. */
export function changing<const T extends Takes = Record<never, string>>(
  { takes, help, uses = [], advice, change, acceptsLocal = false, ...spec }:
    & Omit<CommandSpec<T>, "run" | "uses">
    & {
      readonly uses?: readonly Use[];
      readonly advice?: Advice;
      readonly change: (given: Given<T>, call: Call, isLocal: boolean) => Change | Promise<Change>;
      /** The command can also change the config of a local installation. */
      readonly acceptsLocal?: boolean;
    },
): CommandData {
  return {
    ...spec,
    takes: { ...CHANGE, ...takes },
    help: `${help}${CHANGE_HELP}`,
    uses: ({ reload }: Given<typeof CHANGE>) => [
      ...uses,
      "config",
      ...reload === true ? ["clientConfig"] as const : [],
    ],
    run: (given: Given<T> & Given<typeof CHANGE>, call) =>
      withHint(advice, async () => {
        const file = resolve(call.workingFolder, given.config ?? "signer.json");
        const isLocal = await loadLocalBroker(file) !== undefined;
        if (isLocal && (!acceptsLocal || given.reload === true)) {
          const fix = given.reload === true
            ? "omit --reload, and restart the MCP client"
            : `broker-ctl init --from-local ${shellQuote(dirname(file))}`;
          throw conflict(`Cannot use ${quoteText(file)}: a local installation has no signer`, undefined, fix);
        }
        return await runChange(given, call, file, isLocal, await change(given, call, isLocal));
      }),
  };
}

async function runChange(
  { dryRun = false, reload = false }: Given<typeof CHANGE>,
  call: Call,
  file: string,
  isLocal: boolean,
  { edit, describe }: Change,
) {
  const { config, diff } = isLocal
    ? await editFile(LOCAL_FILE, file, edit, dryRun)
    : await editFile(SIGNER_FILE, file, edit, dryRun);
  const { json, lines } = await describe(config, file);
  const changed = diff.length > 0;
  if (dryRun) {
    const nothing = changed ? [] : ["no change"];
    return {
      json: { ...json, dry_run: true, diff },
      lines: [...diff, ...nothing, "nothing was written (--dry-run)", ...lines.slice(1)],
    };
  }
  if (!reload) {
    const apply = isLocal ? "restart the MCP client" : "broker-ctl reload";
    const next = changed ? [`Not yet active. To apply it: ${apply}`] : [];
    return { json: { ...json, changed }, lines: [...lines, ...next] };
  }
  try {
    const { hosts } = await askReload(call);
    const done = `signer reloaded via HTTP (hosts: ${hosts})`;
    return { json: { ...json, changed, reloaded: true }, lines: [...lines, done] };
  } catch (error) {
    if (!(error instanceof HintedError)) throw error;
    const message = `${lines[0]}, but the signer did not load the change: ${error.message}`;
    throw new RemoteError(new AppError(error.code, message, { cause: error }), error.hint);
  }
}

const reloadResponse = z.object({
  hosts: z.int(),
  status: z.string(),
  // A signer of an earlier version does not report them.
  new_patterns: z.array(z.string()).default([]),
});

/** Requests a reload of the running signer. */
export async function askReload(call: Call) {
  const question = { what: "reload", method: "POST", path: "/v1/reload", schema: reloadResponse } as const;
  return (await askSigner(call, question)).data;
}

/** A config, and the checks of the program that loads it. */
export interface EditedFile<C> {
  readonly what: string;
  readonly parse: (text: string, source: string, previous?: C) => C;
  readonly problems: (config: C) => readonly string[];
  /** Throws if the config requires decisions that it does not make. */
  readonly requireTests?: (config: C) => Promise<void>;
}

export const SIGNER_FILE: EditedFile<SignerConfig> = {
  what: CONFIG_KINDS.signer.what,
  parse: (text, source, previous) =>
    parseConfig({
      ...{ text, source, previous, ...CONFIG_KINDS.signer },
      ...{ unsupported: UNSUPPORTED_SIGNER_KEYS, large: LARGE_SIGNER_KEYS },
    }),
  problems: findSignerProblems,
  requireTests,
};

export const LOCAL_FILE: EditedFile<HostConfig> = {
  what: CONFIG_KINDS.broker.what,
  parse: (text, source) => localHosts(parseConfig({ ...CONFIG_KINDS.broker, text, source })),
  problems: findPolicyProblems,
  requireTests,
};

export const CONTROL_PLANE_FILE: EditedFile<ControlPlaneConfig> = {
  what: CONFIG_KINDS.controlPlane.what,
  parse: (text, source) => parseConfig({ ...CONFIG_KINDS.controlPlane, text, source }),
  problems: () => [],
};

/**
 * Edits the text of a config.
 *
 * @throws {AppError} `invalid_config` if the program of the config would reject the new text, or its tests fail
 */
export async function checkEdit<C>(
  { what, parse, problems, requireTests }: EditedFile<C>,
  { file, text, edit }: {
    readonly file: string;
    readonly text: string;
    readonly edit: (text: string, config: C) => string;
  },
) {
  const before = parse(text, file);
  const edited = edit(text, before);
  // Unchanged hosts are not checked again.
  const config = parse(edited, file, before);
  const found = problems(config);
  if (found.length > 0) throw badConfig(`Cannot use ${what}: ${found.join("\n  ")}`);
  await requireTests?.(config);
  return { edited, before, config, diff: diffLines(text, edited, file) };
}

/**
 * Edits a config file atomically. A text that its program would reject is not written.
 *
 * @param dryRun only checks
 * @returns the config after the edit, and the edit as `diff -u` shows it
 */
export async function editFile<C>(
  kind: EditedFile<C>,
  file: string,
  edit: (text: string, config: C) => string,
  dryRun = false,
) {
  const { what } = kind;
  const checked = async (text: string) => {
    const { edited, config, diff } = await checkEdit(kind, { file, text, edit });
    return [edited, { config, diff }] as const;
  };
  const read = () => readConfigText(file, what);
  const text = await read();
  return dryRun ? (await checked(text))[1] : await editLocked(file, what, checked, read);
}

/** Entries of the signer's config, such as hosts. */
export interface Collection<E> {
  readonly what: string;
  /** The name in the output, if it differs. */
  readonly label?: string;
  readonly path: readonly string[];
  readonly of: (config: HostConfig) => Readonly<Record<string, E>>;
}

export function requireEntry<E>(what: string, entries: Readonly<Record<string, E>>, name: string): E {
  const entry = Object.hasOwn(entries, name) ? entries[name] : undefined;
  if (entry !== undefined) return entry;
  const list = `broker-ctl ${what.toLowerCase().replace(" ", "-")} list`;
  throw notFound(`Cannot find ${what} ${quoteText(name)} in the config`, undefined, list);
}

/** Adds an entry or, with `force`, changes it. */
export function addition<E>(
  { what, label = what, of }: Collection<E>,
  { name, force = false, edits = false }: Readonly<{ name: string; force?: boolean; edits?: boolean }>,
  { edit, describe }: {
    /** @param there the existing entry; absent: the entry is new */
    readonly edit: (text: string, there: E | undefined, config: HostConfig) => string;
    readonly describe: (entry: E, config: HostConfig, file: string) => Promise<Added> | Added;
  },
): Change {
  let isNew = true;
  return {
    edit(text, config) {
      const there = Object.hasOwn(of(config), name) ? of(config)[name] : undefined;
      isNew = there === undefined;
      if (edits) requireEntry(what, of(config), name);
      if (isNew || force) return edit(text, there, config);
      const fix = "pass --force to change it, or run the command edit";
      throw conflict(`Cannot add ${what} ${quoteText(name)}: it exists`, undefined, fix);
    },
    async describe(config, file) {
      const entry = requireEntry(what, of(config), name);
      const { json, facts, lines = [] } = await describe(entry, config, file);
      const done = `${label} ${quoteText(name)} ${isNew ? "added" : "updated"} (${facts})`;
      return { json: { name, added: isNew, ...json }, lines: [done, ...lines] };
    },
  };
}

/** Checks if the groups of any caller permit an entry. Without callers in the config, every caller may use it. */
export function hasUser(
  { callers }: Pick<SignerConfig, "callers">,
  { groups = [] }: { readonly groups?: readonly string[] },
) {
  const rows = Object.values(callers);
  return rows.length === 0 ||
    rows.some(({ allowed_groups = [] }) => groups.some((group) => allowed_groups.includes(group)));
}

interface Added {
  readonly json: object;
  readonly facts: string;
  readonly lines?: readonly string[];
}

/** The commands `show`, `add`, `edit` and `remove` of a collection; `edit` is `add --force` for an existing entry. */
export function managing<E extends object>(
  collection: Collection<E>,
  add: CommandData,
  remove: Removal,
  load: (config: string | undefined, workingFolder: string) => Promise<HostConfig> = loadSignerFile,
): readonly CommandData[] {
  const { what } = collection;
  const { "--force": _force, ...takes } = add.takes ?? {};
  const show = command({
    name: "show",
    summary: `Show ${withArticle(what)} of the signer's config.`,
    takes: { "<name>": `${what} name` },
    async run({ name, config }, { workingFolder }) {
      const entry = requireEntry(what, collection.of(await load(config, workingFolder)), name);
      return { json: { name, ...entry }, lines: await describeEntry(name, entry) };
    },
  });
  const edit: CommandData = {
    ...add,
    name: "edit",
    summary: add.summary.replace("Add or change", "Change"),
    takes,
    help: "\nChanges only the given fields of an existing entry, as the command add with --force.\n",
    run: (given: object, call) => add.run({ ...given, force: true, edits: true } as never, call),
  };
  return [show, add, edit, removing(collection, remove)];
}

function withArticle(what: string): string {
  return `${/^[aeiou]/i.test(what) ? "an" : "a"} ${what}`;
}

export interface Removal extends Pick<CommandData, "aliases" | "help"> {
  readonly argument: readonly [flag: string, help: string];
  /** Rejects a name that must stay in the config. */
  readonly check?: (config: HostConfig, name: string) => void;
  readonly acceptsLocal?: boolean;
}

/** The command `remove` of a collection. */
function removing<E>(
  { what, label = what, path, of }: Collection<E>,
  { argument: [argument, about], check, ...spec }: Removal,
): CommandData {
  return changing({
    ...spec,
    name: "remove",
    summary: `Remove ${withArticle(what)} from the signer's config.`,
    takes: { [argument]: about },
    change(given: Readonly<Record<string, unknown>>) {
      const name = String(given[argument.slice(1, -1)]);
      return {
        edit(text, config) {
          requireEntry(what, of(config), name);
          check?.(config, name);
          return removeMember(text, [...path, name]);
        },
        describe: () => ({ json: { name, removed: true }, lines: [`${label} ${quoteText(name)} removed`] }),
      };
    },
  });
}

/** The command `list` of a collection, from the config or, with --remote, from the running signer. */
export function listing<E, R>(
  { of }: Collection<E>,
  { load = loadSignerFile, question, format, formatRemote, ...spec }:
    & Pick<CommandData, "summary">
    & {
      readonly help: string;
      readonly load?: (config: string | undefined, workingFolder: string) => Promise<HostConfig>;
      readonly format: (entries: Readonly<Record<string, E>>, config: HostConfig) => readonly Line[];
      readonly question: ServiceQuestion<R>;
      readonly formatRemote: (entries: R) => readonly Line[];
    },
): CommandData {
  return command({
    ...spec,
    name: "list",
    takes: { "--remote": "list from the running signer, not from its config" },
    help: `${spec.help}${REMOTE_HELP}`,
    uses: ({ remote }) => remote === true ? usesSigner() : ["config"],
    run: async (given, call) => {
      if (given.remote === true) {
        const { body, data } = await askSigner(call, question);
        return { json: body, lines: formatRemote(data) };
      }
      const config = await load(given.config, call.workingFolder);
      return { json: of(config), lines: format(of(config), config) };
    },
  });
}
