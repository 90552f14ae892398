/** Process that appends records until it is killed. Prints the serial of each acknowledged record. */
import { openFileAuditLog } from "../../shared/audit/log.ts";
import { systemClock } from "@gateway/shared/clock";
import { SEED } from "./audit_fixture.ts";

async function main(path: string, first: string, maxFileBytes: string): Promise<void> {
  const log = await openFileAuditLog({
    path,
    seed: SEED,
    clock: systemClock,
    redact: (text) => text,
    maxFileBytes: Number(maxFileBytes),
  });
  const encoder = new TextEncoder();
  let serial = BigInt(first);

  async function appendForever(): Promise<never> {
    while (true) {
      const mine = serial++;
      // Some records span several pages, so that the kernel does not write them in one step.
      await log.append({ outcome: "issued", serial: mine, command: "c".repeat(Number(mine % 50n) * 400) });
      Deno.stdout.writeSync(encoder.encode(`${mine}\n`));
    }
  }

  await Promise.all(Array.from({ length: 16 }, appendForever));
}

if (import.meta.main) {
  const [path = "", first = "", maxFileBytes = ""] = Deno.args;
  await main(path, first, maxFileBytes);
}
