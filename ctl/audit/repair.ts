import { resolve } from "node:path";
import { type KeptRecords, planRepair, repairLog } from "@gateway/shared/audit";
import { systemClock } from "@gateway/shared/clock";
import { visibleText } from "@gateway/shared/text";
import { command, required } from "../kit/command.ts";
import { type Advice, withHint } from "../kit/output.ts";
import { loadAuditKey } from "./keys.ts";

const RUNNING: Advice = {
  when: ({ code }) => code === "conflict",
  hint: "stop the service first; at its start it mends a torn last record by itself",
};

export const REPAIR = command({
  name: "repair",
  summary: "Mend an audit log that a crash has left with a torn end.",
  takes: {
    "--log <file>": required("the audit log"),
    "--key <file>": "the seed file that the service signs with (its audit_key)",
    "--apply": "do it",
  },
  help: `
Examples:
  broker-ctl audit repair --log log/signer/audit.log --key pki/signer_audit.seed
  broker-ctl audit repair --log log/signer/audit.log --key pki/signer_audit.seed --apply

For a log that ends in lines that are not records, after a crash. Stop its service first. Without --apply it
changes nothing and shows what it would do. With it, what follows the last record moves to
<log>.corrupt-<time>, and the service continues from that record. A line that is not a record between two that are
is not repaired: no crash leaves that. With --key, nor is a log whose records do not verify.
`,
  uses: () => [],
  async run({ log, key, apply = false }, { workingFolder }) {
    const options = {
      path: resolve(workingFolder, log),
      publicKey: key === undefined ? undefined : await loadAuditKey(key, workingFolder),
    };
    const outcome = await withHint(
      RUNNING,
      async () => apply ? await repairLog(options, systemClock.now()) : await planRepair(options),
    );
    const json = {
      status: outcome.kind,
      kept_records: outcome.records,
      last_seq: outcome.lastSeq ?? null,
      kept_bytes: outcome.keptBytes,
    };
    switch (outcome.kind) {
      case "clean":
        return { json, lines: [`OK: ${outcome.records} records, nothing to repair`] };
      case "refused": {
        const { reason } = outcome;
        return { json: { ...json, reason }, lines: [`FAIL: ${reason}; nothing was changed`], failed: true };
      }
      case "torn": {
        const { tailBytes, keptBytes } = outcome;
        const preview = visibleText(new TextDecoder().decode(outcome.preview));
        const more = outcome.preview.length < tailBytes ? "…" : "";
        return {
          json: { ...json, tail_bytes: tailBytes, preview },
          lines: [
            describeKept(outcome),
            `torn: ${tailBytes} bytes from byte ${keptBytes} on: ${preview}${more}`,
            `nothing was changed; with --apply these bytes move to ${log}.corrupt-<time>`,
          ],
        };
      }
      case "repaired": {
        const { tailBytes, movedTo } = outcome;
        return {
          json: { ...json, tail_bytes: tailBytes, moved_to: movedTo },
          lines: [describeKept(outcome), `repaired: ${tailBytes} bytes moved to ${movedTo}`],
        };
      }
      default:
        return outcome satisfies never;
    }
  },
});

function describeKept({ records, lastSeq }: KeptRecords): string {
  return lastSeq === undefined ? "kept: no record" : `kept: ${records} records, the last has seq ${lastSeq}`;
}
