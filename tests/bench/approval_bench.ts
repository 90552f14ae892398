import { systemClock, systemRandom } from "@gateway/shared/clock";
import { stringifyJson } from "@gateway/shared/json";
import { ApprovalRegistry } from "../../control_plane/approvals/registry.ts";
import { openSqliteControlStore } from "../../control_plane/state/sqlite.ts";
import { draftOf, PUBLIC_KEY } from "../../control_plane/testing/sample_approval.ts";
import { compared, median, type Row, type SectionContext, under } from "./harness.ts";

const FEW = 10;
const MANY = 10_000;
const ROUNDS = 300;
const POLLS = 200;
const MAX_LIST_MS = 100;
const MAX_RATIO = 1.5;

/** Measures the registry of the control plane over its database, with ten thousand and with ten pending approvals. */
export async function benchApprovals({ dir, say }: SectionContext): Promise<readonly Row[]> {
  say(`  ${MANY} approvals …`);
  await using few = await Filled.open(`${dir}/few.db`, FEW);
  await using many = await Filled.open(`${dir}/many.db`, MANY);
  const list = Array.from({ length: 20 }, () => many.list());
  const times = { few: new Times(), many: new Times() };
  // In turns, so that other load on the machine slows both.
  for (let round = 0; round < ROUNDS; round++) {
    await few.round(times.few);
    await many.round(times.many);
  }
  return [
    under(`list of ${MANY} approvals, as JSON`, median(list), MAX_LIST_MS),
    ...(["poll", "create", "decide", "collect"] as const).map((what) => {
      const [measured, baseline] = [median(times.many[what]), median(times.few[what])];
      return compared(
        {
          what: `${what} with ${MANY} approvals pending`,
          measured: `${(measured * 1000).toFixed(1)} us`,
          baseline: `${(baseline * 1000).toFixed(1)} us with ${FEW}`,
        },
        measured / baseline,
        { atMost: MAX_RATIO },
      );
    }),
  ];
}

/** Durations in milliseconds. */
class Times {
  readonly poll: number[] = [];
  readonly create: number[] = [];
  readonly decide: number[] = [];
  readonly collect: number[] = [];
}

/** A registry over a database, with a number of pending approvals. */
class Filled implements AsyncDisposable {
  readonly #registry: ApprovalRegistry;
  readonly #close: () => Promise<void>;
  readonly #ids: readonly string[];
  #next = 0;

  private constructor(registry: ApprovalRegistry, ids: readonly string[], close: () => Promise<void>) {
    this.#registry = registry;
    this.#ids = ids;
    this.#close = close;
  }

  static async open(path: string, count: number): Promise<Filled> {
    const store = openSqliteControlStore({ path, warn: () => {} });
    const registry = await ApprovalRegistry.open({
      store,
      clock: systemClock,
      random: systemRandom,
      timeoutSeconds: 3600,
      maxPendingPerCaller: 2 * MANY,
      logger: { info() {}, warn() {}, error() {} },
      onStoreError: () => {},
    });
    const ids: string[] = [];
    while (ids.length < count) ids.push(await park(registry));
    return new Filled(registry, ids, async () => {
      await registry.close();
      await store.close();
    });
  }

  /** Does the work of `GET /v1/approvals` and returns its duration. */
  list(): number {
    const from = performance.now();
    stringifyJson(this.#registry.list().map((approval) => this.#registry.describe(approval)));
    return performance.now() - from;
  }

  /** Polls pending approvals, then creates, decides and collects one. */
  async round(times: Times): Promise<void> {
    let from = performance.now();
    for (let n = 0; n < POLLS; n++) {
      const id = this.#ids[this.#next++ % this.#ids.length] ?? "";
      const { kind } = this.#registry.claim(id, { caller: "broker-1", publicKey: PUBLIC_KEY });
      if (kind !== "pending") throw new Error(`a poll came to ${kind}`);
    }
    times.poll.push((performance.now() - from) / POLLS);
    from = performance.now();
    const id = await park(this.#registry);
    times.create.push(performance.now() - from);
    from = performance.now();
    await this.#registry.decide(id, { approver: "alice", approve: true, learnTtlSeconds: 0 }, noAudit);
    times.decide.push(performance.now() - from);
    from = performance.now();
    const claimed = this.#registry.claim(id, { caller: "broker-1", publicKey: PUBLIC_KEY });
    if (claimed.kind !== "claimed") throw new Error(`a collection came to ${claimed.kind}`);
    await claimed.claim.consume(noAudit);
    times.collect.push(performance.now() - from);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#close();
  }
}

const noAudit = () => Promise.resolve();

async function park(registry: ApprovalRegistry): Promise<string> {
  const created = await registry.create(draftOf({ command: crypto.randomUUID() }));
  if (created.kind !== "parked") throw new Error("too many approvals");
  return created.approval.id;
}
