import assert from "node:assert/strict";
import { type Clock, systemClock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { createRedactor } from "@gateway/shared/redact";
import type { ApprovalDecision, ApprovalRecord } from "@gateway/shared/wire";
import { Bridge } from "../../ctl/bridge/bridge.ts";
import type { Chat } from "../../ctl/bridge/chat.ts";
import type { IdentityMap } from "../../ctl/bridge/guard.ts";
import { BridgeStore } from "../../ctl/bridge/store.ts";
import { poll } from "../stage/poll.ts";

export const ID = "0123456789abcdef0123456789abcdef";

export const PENDING: ApprovalRecord = {
  id: ID,
  caller: "broker-1",
  end_user: "ann@example.com",
  host: "web01",
  command: "systemctl restart nginx",
  rule: "require_approval:^systemctl restart ",
  status: "pending",
  created_at: "2026-01-02T03:04:05Z",
  decided_at: "0001-01-01T00:00:00Z",
};

export class FakePlane {
  records = new Map<string, ApprovalRecord>([[ID, PENDING]]);
  readonly decisions: (ApprovalDecision & { readonly id: string })[] = [];
  refusal: AppError | undefined;
  isDown = false;

  list(): Promise<readonly ApprovalRecord[]> {
    if (this.isDown) {
      return Promise.reject(new AppError("upstream_failure", "Failed contacting the control plane"));
    }
    return Promise.resolve([...this.records.values()]);
  }

  decide(id: string, decision: ApprovalDecision): Promise<void> {
    const { refusal } = this;
    this.refusal = undefined;
    if (refusal !== undefined) return Promise.reject(refusal);
    this.decisions.push({ id, ...decision });
    this.decideElsewhere(id, decision.approve, "bridge-1", decision.comment);
    return Promise.resolve();
  }

  decideElsewhere(id: string, approve: boolean, by = "approver-1", comment?: string): void {
    const record = this.records.get(id);
    if (record === undefined) return;
    const decided = { decided_by: by, decided_at: "2026-01-02T03:05:05Z", ...(comment && { comment }) };
    this.records.set(id, { ...record, ...decided, status: approve ? "approved" : "denied" });
  }

  add(changes: Partial<ApprovalRecord>): string {
    const id = crypto.randomUUID().replaceAll("-", "");
    this.records.set(id, { ...PENDING, ...changes, id });
    return id;
  }
}

export interface BridgeScene {
  readonly controlPlane: FakePlane;
  readonly log: string[];
  /** The path of the state file. Open it only while no bridge runs. */
  readonly statePath: string;
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export interface BridgeOptions {
  readonly controlPlane?: FakePlane;
  readonly identities?: IdentityMap;
  readonly clock?: Clock;
  readonly chat: (signal: AbortSignal, logger: ReturnType<typeof memoryLogger>) => Chat;
}

/** The machine's clock without the long pauses between attempts. */
export const impatientClock: Clock = {
  now: systemClock.now,
  sleep: (ms, signal) => systemClock.sleep(ms < 10_000 ? 10 : ms, signal),
};

/** Waits for a message. A decision ends the wait immediately with a failure. */
export async function pollUndecided(
  controlPlane: FakePlane,
  isDone: () => boolean,
  options: { readonly what: string },
): Promise<void> {
  await poll(() => controlPlane.decisions.length > 0 || isDone(), options);
  assert.deepEqual(controlPlane.decisions, [], `decided, in the place of ${options.what}`);
}

export const IDENTITIES: ReadonlyMap<string, string> = new Map([
  ["U0BOB", "bob@example.com"],
  ["U0ANN", "ANN@example.com."],
  ["bobbobbobbobbobbobbobbobbo", "bob@example.com"],
  ["annannannannannannannannan", "ann@example.com"],
]);

export function memoryLogger(log: string[]) {
  const write = (message: string, fields: object = {}) => {
    const cause = "error" in fields && fields.error instanceof Error ? ` ${fields.error.message}` : "";
    log.push(`${message} ${JSON.stringify(fields)}${cause}`);
  };
  return { info: write, warn: write, error: write };
}

export async function withBridge(
  { controlPlane = new FakePlane(), clock = systemClock, chat, ...options }: BridgeOptions,
  test: (scene: BridgeScene) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "gateway-bridge-" });
  const log: string[] = [];
  const statePath = `${folder}/bridge.db`;
  let running: { readonly stop: AbortController; readonly done: Promise<void> } | undefined;
  const start = () => {
    const stop = new AbortController();
    const logger = memoryLogger(log);
    const store = BridgeStore.open({ path: statePath, warn: logger.warn });
    const bridge = new Bridge({
      controlPlane,
      chat: chat(stop.signal, logger),
      store,
      clock,
      logger,
      redact: createRedactor(undefined),
      pageOf: (id) => `https://gw.example/ui/approvals/${id}`,
      readIdentities: () => Promise.resolve("identities" in options ? options.identities : IDENTITIES),
      makeNonce: () => crypto.randomUUID(),
    });
    const done = bridge.run({ signal: stop.signal, pollSeconds: 0.02 }).finally(() => store.close());
    running = { stop, done };
  };
  const stop = async () => {
    running?.stop.abort();
    await running?.done;
    running = undefined;
  };
  start();
  try {
    await test({
      controlPlane,
      log,
      statePath,
      stop,
      restart: async () => {
        await stop();
        start();
      },
    });
  } finally {
    await stop();
    await Deno.remove(folder, { recursive: true });
  }
}
