import { resolve } from "node:path";
import * as z from "@zod/zod";
import type { Command } from "commander";
import { parseConfig } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import {
  type PolicyChanged,
  policyChanged,
  policyHistory,
  type PolicyRequest,
  type PolicyVersionHosts,
  policyVersionHosts,
} from "@gateway/shared/wire";
import { countOf } from "../kit/arguments.ts";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import { type CommandResult, RemoteError } from "../kit/output.ts";
import { readOperatorFile } from "../kit/files.ts";
import { addRemoteOptions, askSigner, joinPath, REMOTE_HELP } from "../kit/remote.ts";
import { formatTable } from "../kit/table.ts";
import { diffLines } from "../kit/diff.ts";

interface ImportFlags {
  readonly replace?: boolean;
  readonly dryRun?: boolean;
}

const NOTE = `
For signers with policy_source "database": there each change of the hosts is a version, kept for good, that is in
force at all of them when the command ends.
${REMOTE_HELP}`;

const IMPORT_HELP = `
Examples:
  broker-ctl policy import signer.json
  broker-ctl policy export > hosts.json
  broker-ctl policy import hosts.json --replace --dry-run

The file is a signer's config, or what broker-ctl policy export has written: its "hosts", all of them, are the next
version. Where the database has hosts already, --replace is needed. Comments do not go with them. Do it once before the
first signer gets policy_source "database": until then they decide by their files.
${NOTE}`;

const DIFF_HELP = `
Examples:
  broker-ctl policy diff 6 7
  broker-ctl policy diff 6
${NOTE}`;

const ROLLBACK_HELP = `
Examples:
  broker-ctl policy rollback 6 --dry-run
  broker-ctl policy rollback 6

The hosts of that version are the next version; nothing is lost.
${NOTE}`;

const version = countOf(1, 999_999_999);
const file = z.looseObject({ hosts: z.record(z.string(), z.unknown()).default({}) });

/** `policy import`, `export`, `history`, `diff` and `rollback`: the versions of the hosts in the signers' database. */
export const addVersions: AddCommand = (policy, context) => {
  addRemoteOptions(
    policy.command("import").argument("<file>", "a signer's config, or what policy export has written")
      .option("--replace", "in the place of the hosts that the database has")
      .option("--dry-run", "show what would change, and change nothing"),
  )
    .description("Put the hosts of a file into the signers' database.")
    .addHelpText("after", IMPORT_HELP)
    .action((path: string, flags: ImportFlags, command) =>
      context.run(command, ["clientConfig"], () => importHosts(path, flags, command, context))
    );
  addRemoteOptions(
    policy.command("export").argument("[version]", "which one; the newest when absent", version),
  )
    .description("Show the hosts of a version, as policy import reads them.")
    .addHelpText("after", NOTE)
    .action((number: number | undefined, _flags, command) =>
      context.run(command, ["clientConfig"], async () => {
        const ask = createAsker(command, context, "policy export");
        const { hosts } = await ask.version(number ?? await ask.newest());
        return { json: { hosts }, lines: JSON.stringify({ hosts }, null, 2).split("\n") };
      })
    );
  addRemoteOptions(policy.command("history"))
    .description("Show who changed the hosts in the signers' database, and when.")
    .addHelpText("after", NOTE)
    .action((_flags, command) => context.run(command, ["clientConfig"], () => showHistory(command, context)));
  addRemoteOptions(
    policy.command("diff").argument("<from>", "a version", version)
      .argument("[to]", "another; the newest when absent", version),
  )
    .description("Show what changed from one version of the hosts to another.")
    .addHelpText("after", DIFF_HELP)
    .action((from: number, to: number | undefined, _flags, command) =>
      context.run(command, ["clientConfig"], async () => {
        const ask = createAsker(command, context, "policy diff");
        const [before, after] = [await ask.version(from), await ask.version(to ?? await ask.newest())];
        const changes = diffHosts(before.hosts, after.hosts);
        const lines = changes.length === 0 ? ["no difference"] : changes;
        return { json: { from, to: after.version, changes }, lines };
      })
    );
  addRemoteOptions(
    policy.command("rollback").argument("<version>", "whose hosts are wanted back", version)
      .option("--dry-run", "show what would change, and change nothing"),
  )
    .description("Put the hosts of an earlier version in force again, as a new version.")
    .addHelpText("after", ROLLBACK_HELP)
    .action((number: number, flags: ImportFlags, command) =>
      context.run(command, ["clientConfig"], async () => {
        const ask = createAsker(command, context, "policy rollback");
        const wanted = await ask.version(number);
        const base = await ask.newest();
        const changes = diffHosts(await ask.hostsIfReadable(base), wanted.hosts);
        return await change(ask, {
          request: { base_version: base, from_version: number, dry_run: flags.dryRun === true },
          changes,
          done: `version ${number} is in force again`,
        });
      })
    );
};

async function importHosts(
  path: string,
  { replace = false, dryRun = false }: ImportFlags,
  command: Command,
  context: CommandContext,
): Promise<CommandResult> {
  const bytes = await readOperatorFile(resolve(context.workingFolder, path), "hosts");
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  const { hosts } = parseConfig({ what: "hosts", source: path, text, schema: file });
  if (Object.keys(hosts).length === 0) {
    throw new AppError("invalid_request", `${quoteText(path)} has no hosts: nothing was changed`);
  }
  const ask = createAsker(command, context, "policy import");
  const base = await ask.newest();
  const before = base === 0 ? {} : await ask.hostsIfReadable(base);
  const changes = diffHosts(before, hosts);
  if (base > 0 && changes.length === 0) {
    return {
      json: { status: "unchanged", version: base },
      lines: [`version ${base} has these hosts: nothing to change`],
    };
  }
  if (base > 0 && !replace && !dryRun) {
    throw new AppError(
      "conflict",
      `the database has other hosts already (version ${base}): nothing was changed; --dry-run shows the difference, ` +
        "--replace puts these in their place",
    );
  }
  return await change(ask, {
    request: { base_version: base, hosts, dry_run: dryRun },
    changes,
    done: `the hosts of ${quoteText(path)} are in the database`,
  });
}

async function change(
  ask: ReturnType<typeof createAsker>,
  { request, changes, done }: {
    readonly request: PolicyRequest;
    readonly changes: readonly string[];
    readonly done: string;
  },
): Promise<CommandResult> {
  const { version, hosts } = await ask.change(request);
  const lines = request.dry_run
    ? [...changes, `nothing was changed (--dry-run); it would be version ${version} with ${hosts} hosts`]
    : [`${done}: version ${version}, ${hosts} hosts, in force at all signers`];
  return { json: { version, hosts, dry_run: request.dry_run, changes }, lines };
}

async function showHistory(command: Command, context: CommandContext): Promise<CommandResult> {
  const history = await createAsker(command, context, "policy history").history();
  const rows = history.map((each) => [`${each.version}`, each.made_at, each.made_by, each.change]);
  return {
    json: history,
    lines: rows.length === 0
      ? ["(the database has no hosts yet)"]
      : formatTable(["VERSION", "MADE (UTC)", "BY", "CHANGE"], rows, context.terminal.columns),
  };
}

/** Asks a signer about versions, for a command. */
function createAsker(command: Command, context: CommandContext, what: string) {
  const path = joinPath("v1", "policy", "versions");
  const history = async () =>
    (await askSigner(command, context, { what, method: "GET", path, schema: policyHistory })).data;
  const version = async (number: number): Promise<PolicyVersionHosts> => {
    const about = { what, path: `${path}/${number}`, schema: policyVersionHosts };
    return (await askSigner(command, context, { ...about, method: "GET" })).data;
  };
  return {
    history,
    version,
    /** 0: there is none. */
    newest: async () => (await history())[0]?.version ?? 0,
    /** None where a version was made by hand that can't be read: it has to be possible to replace it. */
    hostsIfReadable: async (number: number) => {
      try {
        return (await version(number)).hosts;
      } catch (error) {
        if (error instanceof RemoteError && error.code === "conflict") return {};
        throw error;
      }
    },
    change: async (body: PolicyRequest): Promise<PolicyChanged> =>
      (await askSigner(command, context, { what, method: "POST", path, body, schema: policyChanged })).data,
  };
}

type Hosts = Readonly<Record<string, unknown>>;

/** What two sets of hosts differ in, host by host, by name; each with the lines that differ. */
export function diffHosts(before: Hosts, after: Hosts): readonly string[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  return names.flatMap((name) => diffLines(format(before, name), format(after, name), `hosts.${name}`));
}

/** Empty: there is none. The order of keys means nothing. */
function format(hosts: Hosts, name: string): string {
  return Object.hasOwn(hosts, name) ? JSON.stringify(sorted(hosts[name]), null, 2) : "";
}

function sorted(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value).sort(([one], [other]) => one < other ? -1 : 1);
  return Object.fromEntries(entries.map(([key, member]) => [key, sorted(member)]));
}
