import { setValue } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import type { SignerConfig } from "@gateway/signer/config";
import { once, repeated } from "../kit/arguments.ts";
import type { AddCommand } from "../kit/context.ts";
import { splitNames, writeFields } from "../kit/entries.ts";
import { loadSignerFile } from "../kit/signer_file.ts";
import {
  addChangeOptions,
  addRemove,
  CHANGE_HELP,
  type ChangeFlags,
  changeUses,
  requireEntry,
  runChange,
  type SignerChange,
} from "../kit/signer_change.ts";
import { EMPTY_CELL, formatTable } from "../kit/table.ts";

interface AddFlags extends ChangeFlags {
  readonly name: string;
  readonly groups: readonly string[];
  readonly onlyVia?: readonly string[];
  readonly force?: boolean;
}

const ADD_EXAMPLES = `
Examples:
  broker-ctl callers add --name agent-7 --groups web,db --reload
  broker-ctl callers add --name agent-7 --groups web --force --dry-run
  broker-ctl callers add --name agent-8 --groups ''
  broker-ctl callers add --name broker-2 --groups web --only-via control-plane-local

--groups '' is a caller that sees no host. --force changes the groups of a caller that is there, and --only-via where that
is given, and nothing else of it. A broker that is not --only-via a control plane can ask the signer itself, past what
that watches.
The first caller that is added ends the time in which every caller sees every host: list all that there are. A caller
of the name _default stands for all that are not listed.
${CHANGE_HELP}`;

const REMOVE_EXAMPLES = `
Examples:
  broker-ctl callers remove agent-7 --reload

A caller that is not listed sees nothing, unless there is a _default. The last one can't be taken out: without any,
every caller would see every host. A caller that must be stopped now is frozen: broker-ctl freeze --caller agent-7.
${CHANGE_HELP}`;

/** `callers add`, `callers list` and `callers remove`: who sees the hosts of which groups. */
export const addCallers: AddCommand = (program, context) => {
  const callers = program.command("callers").description(
    "See and change who may use the hosts of which groups.",
  );
  callers.command("list")
    .description("List the callers of the signer's config.")
    .action((_flags, command) =>
      context.run(command, ["config"], async () => {
        const { config } = command.optsWithGlobals() as { readonly config?: string };
        const { callers } = await loadSignerFile(config, context.workingFolder);
        return { json: callers, lines: formatCallers(callers, context.terminal.columns) };
      })
    );
  addChangeOptions(callers.command("add"))
    .description("Add a caller to the signer's config, or change its groups.")
    .requiredOption("--name <cn>", "the CN of its certificate", once)
    .requiredOption("--groups <groups>", "the groups whose hosts it sees; '' is none", repeated)
    .option("--only-via <cns>", "the control planes that its requests come through; '' is any way", repeated)
    .option("--force", "change a caller that is there")
    .addHelpText("after", ADD_EXAMPLES)
    .action((flags: AddFlags, command) =>
      context.run(command, changeUses(flags), () => runChange(command, context, addition(flags)))
    );
  addRemove(callers, context, {
    ...{ what: "caller", argument: "<cn>", aliases: ["rm"], help: REMOVE_EXAMPLES, path: ["callers"] },
    check({ callers }, name) {
      requireEntry(callers, "caller", name);
      if (Object.keys(callers).length > 1) return;
      const why = "it is the last one, and without any every caller sees every host";
      throw new AppError("conflict", `Cannot remove caller ${quoteText(name)}: ${why}`);
    },
  });
};

function addition({ name, groups, onlyVia, force = false }: AddFlags): SignerChange {
  const list = splitNames(groups) ?? [];
  const via = splitNames(onlyVia);
  let [isNew, isFirst] = [true, false];
  return {
    edit(text, { callers }) {
      isNew = !Object.hasOwn(callers, name);
      isFirst = Object.keys(callers).length === 0;
      if (!isNew && !force) {
        throw new AppError(
          "conflict",
          `Cannot add caller ${quoteText(name)}: it is there; --force changes it`,
        );
      }
      // An empty list stays in the text: it says that there is none, and was not forgotten.
      const grouped = setValue(text, ["callers", name, "allowed_groups"], list);
      return writeFields(grouped, { path: ["callers", name], isNew: false }, { only_via: via });
    },
    describe: () => ({
      json: { name, added: isNew, allowed_groups: list, ...via !== undefined && { only_via: via } },
      lines: [
        `caller ${quoteText(name)} ${isNew ? "added" : "updated"} (groups=${list.join(",")})`,
        ...(isFirst ? ["it is the only one: every other caller sees nothing from then on"] : []),
      ],
    }),
  };
}

function formatCallers(callers: SignerConfig["callers"], columns: number | undefined): readonly string[] {
  const names = Object.keys(callers).sort();
  if (names.length === 0) return ["(no callers configured)"];
  const rows = names.map((name) => [name, callers[name]?.allowed_groups?.join(",") || EMPTY_CELL]);
  return formatTable(["NAME", "ALLOWED_GROUPS"], rows, columns);
}
