import { resolve } from "node:path";
import { type KeptRecords, planRepair, repairLog } from "@gateway/shared/audit";
import { systemClock } from "@gateway/shared/clock";
import { visibleText } from "@gateway/shared/text";
import { command, required } from "../kit/command.ts";
import { type Advice, withHint } from "../kit/output.ts";
import { loadAuditKey } from "./keys.ts";

const RUNNING: Advice = {
  when: ({ code }) => code === "conflict",
  hint: "stop the service first; at its next start it repairs an incomplete last record automatically",
};

export const REPAIR = command({
  name: "repair",
  summary: "Repair the damaged end of an audit log after a crash.",
  takes: {
    "--log <file>": required("audit log"),
    "--key <file>": "seed file that signs the log (audit_key)",
    "--apply": "make the repair instead of showing it",
  },
  help: `
Examples:
  broker-ctl audit repair --log log/signer/audit.log --key pki/signer_audit.seed
  broker-ctl audit repair --log log/signer/audit.log --key pki/signer_audit.seed --apply

For a log whose last lines are not records. Stop the service first. With --apply, the data after the last record moves
to <log>.corrupt-<time>, and the service continues from that record. A log with an invalid line between two records is
not repaired, because a crash does not cause that; with --key, nor is a log whose records fail verification.
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
            `damaged: ${tailBytes} bytes after byte ${keptBytes}: ${preview}${more}`,
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
  return lastSeq === undefined ? "kept: no records" : `kept: ${records} records, the last has seq ${lastSeq}`;
}
