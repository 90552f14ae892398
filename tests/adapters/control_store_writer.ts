/**
 * A process that parks, decides and collects approvals until it is killed. It prints `audited` before each
 * effect, and the other steps when they are acknowledged. Arguments: the database.
 */
import { systemClock, systemRandom } from "@gateway/shared/clock";
import { ApprovalRegistry } from "../../control_plane/approvals/registry.ts";
import { openSqliteControlStore } from "../../control_plane/state/sqlite.ts";
import { draftOf } from "../../control_plane/testing/sample_approval.ts";

const CALLER = "broker-1";

function say(what: string, id: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${what} ${id}\n`));
}

/** Collects an approval if possible. Its result is served when the promise resolves. */
async function collect(registry: ApprovalRegistry, id: string): Promise<void> {
  const claimed = registry.claim(id, { caller: CALLER });
  if (claimed.kind !== "claimed") return say(claimed.kind, id);
  await claimed.claim.consume(() => Promise.resolve(say("granted", id)));
  say("served", id);
}

async function main(path: string): Promise<never> {
  const registry = await ApprovalRegistry.open({
    store: openSqliteControlStore({ path, warn: (message) => say("warned", message) }),
    clock: systemClock,
    random: systemRandom,
    timeoutSeconds: 3600,
    maxPendingPerCaller: 1e6,
    logger: { info() {}, warn() {}, error() {} },
    onStoreError: () => say("failed", ""),
  });
  // Approvals granted before the kill.
  for (const { id, state } of registry.list()) if (state.kind === "approved") await collect(registry, id);
  for (let n = 0;; n++) {
    // All requests are different. Some span several pages, so that a commit is not one step for the kernel.
    const created = await registry.create(
      draftOf({ command: `${crypto.randomUUID()} ${"x".repeat((n % 8) * 2000)}` }),
    );
    if (created.kind !== "parked") throw new Error("too many");
    const { id } = created.approval;
    say("parked", id);
    if (n % 4 === 0) continue;
    const approve = n % 4 !== 1;
    const outcome = await registry.decide(id, { approver: "alice", approve, learnTtlSeconds: n }, () => {
      return Promise.resolve(say(approve ? "audited-approval" : "audited-denial", id));
    });
    if (outcome.kind !== "decided") throw new Error(outcome.kind);
    say(approve ? "approved" : "denied", id);
    if (n % 4 === 2) await Promise.all([collect(registry, id), collect(registry, id)]);
  }
}

if (import.meta.main) await main(Deno.args[0] ?? "");
