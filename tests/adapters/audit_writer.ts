/**
 * A process that appends records until it is killed and prints the serial of each one that was acknowledged.
 * Arguments: log, first serial, bytes at which a file is rotated.
 */
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
      // Some of several pages, so that a write is not one step for the kernel.
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
