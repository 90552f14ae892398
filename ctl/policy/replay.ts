import type { PolicyOutcome } from "@gateway/shared/policy";
import { type ReplayResult, startReplay } from "@gateway/shared/policy/analysis";
import { readLogs } from "../audit/logs.ts";
import { prepareSearch, SEARCH, usesConfig } from "../audit/search.ts";
import { command } from "../kit/command.ts";
import { notFound } from "../kit/output.ts";
import { compileSigner, loadHosts } from "../kit/signer_file.ts";
import { INDENT, shortenText, type Table } from "../kit/table.ts";
import { WIDER } from "./analyze.ts";

/** `policy replay`: the requests in the signer's audit log, decided by a new config. */
export const REPLAY = command({
  name: "replay",
  summary: "Decide recorded requests again with a new config.",
  takes: {
    "<new>": "new signer config",
    ...SEARCH,
    "--log <file>": "audit log of a signer (default: that of the config)",
  },
  help: `
Examples:
  broker-ctl policy replay signer.new.json --since 30d
  broker-ctl policy replay signer.new.json --set logs --since 2026-01-01

Reads the signer's log and its rotated files, and does not verify them. Compares what the config alone decides, without
freezes, grants, waivers and limits. A record without its whole request, such as a masked command, is not judged. Exit
code 3: a decision changes.
`,
  uses: usesConfig,
  async run({ new: path, ...flags }, { workingFolder }) {
    const search = await prepareSearch(flags, workingFolder);
    const isDefault = flags.log === undefined && typeof flags.set !== "string";
    const logs = (await search.listSome()).filter(({ instance }) => !isDefault || instance === search.main);
    if (logs.length === 0) {
      throw notFound("Cannot find the audit log of the signer", undefined, "pass --log <file>");
    }
    const config = await loadHosts(path, workingFolder);
    const replay = startReplay({
      policy: compileSigner(config),
      trustedForwarders: config.trusted_forwarders ?? [],
      krlCallers: Object.keys(config.krl_callers ?? {}),
    });
    let malformed = 0;
    for await (const line of readLogs(logs, { all: true })) {
      if (line === undefined) malformed += 1;
      else if (search.matches(line.record)) replay.add(line.record);
    }
    const result = replay.finish();
    return {
      json: { ...result, malformed },
      lines: [
        ...format(result),
        ...malformed === 0 ? [] : [`${malformed} malformed line(s) skipped; see broker-ctl audit verify`],
      ],
      ...result.changes.length > 0 && { exitCode: WIDER },
    };
  },
});

const TITLES = {
  denied: { denied: "", approval: "newly allowed after approval", allowed: "newly allowed" },
  approval: { denied: "would have been denied", approval: "", allowed: "approval no longer needed" },
  allowed: { denied: "would have been denied", approval: "approval newly needed", allowed: "" },
} as const satisfies Record<PolicyOutcome, Record<PolicyOutcome, string>>;

function format({ records, first, last, unchanged, changes, not_judged }: ReplayResult) {
  if (records === 0) return ["No request was found: nothing is known about the config."];
  const table: Table = {
    none: "The config decides no judged request differently.",
    columns: ["HOST", "CALLER", "CHANGE", "RECORDS", "RULE", "EXAMPLE"],
    rows: changes.map(({ from, to, host, caller, rule, count, examples: [example = "", ...more] }) => {
      const wide = [example, ...more].map(shortenText).join(" | ");
      return [host, caller, TITLES[from][to], `${count}`, rule, { text: shortenText(example), wide }];
    }),
  };
  const totals = new Map([["unchanged", unchanged]]);
  for (const { from, to, count } of changes) {
    totals.set(TITLES[from][to], count + (totals.get(TITLES[from][to]) ?? 0));
  }
  return [
    table,
    `${records} records of requests, from ${first} to ${last}:`,
    ...Array.from(totals, ([title, count]) => `${INDENT}${count} ${title}`),
    ...not_judged.length === 0 ? [`${INDENT}0 not judged`] : [],
    ...not_judged.map(({ reason, count }) => `${INDENT}${count} not judged: ${reason}`),
  ];
}
