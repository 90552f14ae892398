/**
 * A process that verifies an audit log as `broker-ctl audit verify` does. Arguments: file, seed file. Prints what
 * it found, how long that took, and the most memory it had.
 *
 * @module
 */
import { createAuditKey, verifyFile } from "@gateway/shared/audit";

const SAMPLE_MS = 50;

export interface Verification {
  readonly entries: number;
  readonly problems: number;
  readonly seconds: number;
  /** Resident, before it began and at most. */
  readonly before: number;
  readonly most: number;
}

if (import.meta.main) {
  const [path = "", seedPath = ""] = Deno.args;
  const { publicKey } = createAuditKey(await Deno.readFile(seedPath));
  const before = Deno.memoryUsage().rss;
  let most = before;
  const sample = () => most = Math.max(most, Deno.memoryUsage().rss);
  const timer = setInterval(sample, SAMPLE_MS);
  const from = performance.now();
  const { entries, problems } = await verifyFile({ path, publicKey, onProblem: () => {} });
  const seconds = (performance.now() - from) / 1000;
  clearInterval(timer);
  sample();
  const result: Verification = { entries, problems, seconds, before, most };
  Deno.stdout.writeSync(new TextEncoder().encode(JSON.stringify(result)));
}
