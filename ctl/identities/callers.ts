import { setValue } from "@gateway/shared/config";
import { quoteText } from "@gateway/shared/text";
import type { SignerConfig } from "@gateway/signer/config";
import { command, type CommandGroup, repeat, required } from "../kit/command.ts";
import { splitNames, writeFields } from "../kit/entries.ts";
import { addition, changing, type Collection, removing, requireEntry } from "../kit/signer_change.ts";
import { loadSignerFile } from "../kit/signer_file.ts";
import { byName, EMPTY_CELL, tableOr } from "../kit/table.ts";
import { conflict } from "../kit/output.ts";

const CALLERS_OF: Collection<SignerConfig["callers"][string]> = {
  what: "caller",
  path: ["callers"],
  of: ({ callers }) => callers,
};

const LIST = command({
  name: "list",
  summary: "List the callers of the signer's config.",
  async run({ config }, { workingFolder, terminal }) {
    const { callers } = await loadSignerFile(config, workingFolder);
    const rows = byName(callers).map(([name, { allowed_groups }]) => [
      name,
      allowed_groups?.join(",") || EMPTY_CELL,
    ]);
    const heading = ["NAME", "ALLOWED_GROUPS"];
    return { json: callers, lines: tableOr("(no callers configured)", heading, rows, terminal.columns) };
  },
});

const ADD = changing({
  name: "add",
  summary: "Add a caller to the signer's config, or change its groups.",
  takes: {
    "--name <cn>": required("the CN of its certificate"),
    "--groups <groups>": required(repeat("the groups whose hosts it sees; '' is none")),
    "--only-via <cns>": repeat("the control planes that its requests come through; '' is any way"),
    "--force": "change a caller that is there",
  },
  help: `
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
`,
  change(given) {
    const list = splitNames(given.groups) ?? [];
    const via = splitNames(given.onlyVia);
    let isFirst = false;
    return addition(CALLERS_OF, given, {
      edit(text, _there, { callers }) {
        isFirst = Object.keys(callers).length === 0;
        const path = ["callers", given.name];
        // An empty list stays in the text: it says that there is none, and was not forgotten.
        const grouped = setValue(text, [...path, "allowed_groups"], list);
        return writeFields(grouped, { path, isNew: false }, { only_via: via });
      },
      describe: () => ({
        json: { allowed_groups: list, ...via !== undefined && { only_via: via } },
        facts: `groups=${list.join(",")}`,
        lines: isFirst ? ["it is the only one: every other caller sees nothing from then on"] : [],
      }),
    });
  },
});

const REMOVE = removing(CALLERS_OF, {
  argument: "<cn>",
  aliases: ["rm"],
  help: `
Examples:
  broker-ctl callers remove agent-7 --reload

A caller that is not listed sees nothing, unless there is a _default. The last one can't be taken out: without any,
every caller would see every host. A caller that must be stopped now is frozen: broker-ctl freeze --caller agent-7.
`,
  check(config, name) {
    requireEntry(CALLERS_OF, config, name);
    if (Object.keys(config.callers).length > 1) return;
    const why = "it is the last one, and without any every caller sees every host";
    throw conflict(`Cannot remove caller ${quoteText(name)}: ${why}`);
  },
});

/** `callers`: the callers of the signer's config, and the groups whose hosts they see. */
export const CALLERS: CommandGroup = {
  name: "callers",
  summary: "See and change who may use the hosts of which groups.",
  commands: [LIST, ADD, REMOVE],
};
