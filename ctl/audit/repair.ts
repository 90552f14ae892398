import { resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { visibleText } from "@gateway/shared/text";
import {
  type KeptRecords,
  planRepair,
  repairLog,
  type RepairOutcome,
  type RepairPlan,
} from "@gateway/shared/audit";
import { once } from "../kit/arguments.ts";
import { loadAuditKey } from "./instance_keys.ts";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import { type Advice, type CommandResult, withHint } from "../kit/output.ts";

interface RepairFlags {
  readonly log: string;
  readonly key?: string;
  readonly apply?: boolean;
}

const EXAMPLES = `
Examples:
  broker-ctl audit repair --log log/signer/audit.log --key pki/signer_audit.seed
  broker-ctl audit repair --log log/signer/audit.log --key pki/signer_audit.seed --apply

For a log that ends in lines that are not records, after a crash. Stop its service first. Without --apply it
changes nothing and shows what it would do. With it, what follows the last record moves to
<log>.corrupt-<time>, and the service continues from that record. A line that is not a record between two that are
is not repaired: no crash leaves that. With --key, nor is a log whose records do not verify.
`;

const RUNNING: Advice = {
  when: ({ code }) => code === "conflict",
  hint: "stop the service first; at its start it mends a torn last record by itself",
};

/** `audit repair`: cuts from a log what follows its last record. */
export const addRepair: AddCommand = (audit, context) => {
  audit.command("repair")
    .description("Mend an audit log that a crash has left with a torn end.")
    .requiredOption("--log <file>", "the audit log", once)
    .option("--key <file>", "the seed file that the service signs with (its audit_key)", once)
    .option("--apply", "do it")
    .addHelpText("after", EXAMPLES)
    .action((flags: RepairFlags, command) => context.run(command, [], () => repair(flags, context)));
};

async function repair(flags: RepairFlags, context: CommandContext): Promise<CommandResult> {
  const path = resolve(context.workingFolder, flags.log);
  const options = { path, publicKey: await loadAuditKey(flags.key, context.workingFolder) };
  const outcome = await withHint<RepairPlan | RepairOutcome>(
    RUNNING,
    () => flags.apply === true ? repairLog(options, systemClock.now()) : planRepair(options),
  );
  const { kind } = outcome;
  const json = {
    status: kind,
    kept_records: outcome.records,
    last_seq: outcome.lastSeq ?? null,
    kept_bytes: outcome.keptBytes,
  };
  switch (outcome.kind) {
    case "clean":
      return { json, lines: [`OK: ${outcome.records} records, nothing to repair`] };
    case "refused":
      return {
        json: { ...json, reason: outcome.reason },
        lines: [`FAIL: ${outcome.reason}; nothing was changed`],
        failed: true,
      };
    case "torn": {
      const { tailBytes, preview } = outcome;
      const shown = visibleText(new TextDecoder().decode(preview));
      return {
        json: { ...json, tail_bytes: tailBytes, preview: shown },
        lines: [
          describeKept(outcome),
          `torn: ${tailBytes} bytes from byte ${outcome.keptBytes} on: ${shown}${
            preview.length < tailBytes ? "…" : ""
          }`,
          `nothing was changed; with --apply these bytes move to ${flags.log}.corrupt-<time>`,
        ],
      };
    }
    case "repaired":
      return {
        json: { ...json, tail_bytes: outcome.tailBytes, moved_to: outcome.movedTo },
        lines: [describeKept(outcome), `repaired: ${outcome.tailBytes} bytes moved to ${outcome.movedTo}`],
      };
    default:
      return outcome satisfies never;
  }
}

function describeKept({ records, lastSeq }: KeptRecords): string {
  return lastSeq === undefined ? "kept: no record" : `kept: ${records} records, the last has seq ${lastSeq}`;
}
