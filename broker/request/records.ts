import type { AuditEntry, AuditGate } from "@gateway/shared/audit";
import { AppError, errorText } from "@gateway/shared/errors";
import type { Metrics } from "@gateway/shared/service";
import type { WireDecision } from "@gateway/shared/wire";
import type { Authority, SignOptions } from "../authority/authority.ts";

export type Events = Pick<AuditGate, "require" | "bestEffort">;

/** Counts each event by outcome, even if the event could not be recorded. */
export function countEvents(events: Events, count: (outcome: string) => void): Events {
  return {
    require: (entry) => events.require(entry).finally(() => count(entry.outcome)),
    bestEffort: (entry) => events.bestEffort(entry).finally(() => count(entry.outcome)),
  };
}

/** Runs a step and records its failure, by default with the outcome `error`. */
export async function audited<T>(
  events: Events,
  { entry, signal }: {
    readonly entry: Omit<AuditEntry, "outcome"> & Partial<Pick<AuditEntry, "outcome">>;
    readonly signal: AbortSignal;
  },
  step: () => Promise<T>,
): Promise<T> {
  try {
    return await step();
  } catch (cause) {
    const error = signal.aborted ? canceledBy(signal, cause) : cause;
    await events.bestEffort({ outcome: "error", ...entry, err: errorText(error) });
    throw error;
  }
}

/**
 * The error of a step that ended because its signal was aborted. If the signal's reason is a fault, that
 * fault is the error.
 */
export function canceledBy({ reason }: AbortSignal, cause?: unknown): AppError {
  // The log does not distinguish a cancel by the agent from a lost connection of the agent.
  const isFault = reason instanceof AppError && reason.code !== "canceled";
  return isFault ? reason : new AppError("canceled", "canceled", { cause });
}

/** Describes the rule and the warning of a decision for a record. */
export function describeDecision(
  decision: WireDecision | undefined,
): Pick<AuditEntry, "policy_rule" | "warning"> {
  return { policy_rule: decision?.matched_rule ?? "", warning: decision?.warning ?? "" };
}

type Run<Request, Result> = (request: Request, signal: AbortSignal) => Promise<Result>;

export type Runs = ReturnType<typeof trackRuns>;

/** Tracks the running actions, so that a broker that stops leaves no command running on a host. */
export function trackRuns() {
  const stop = new AbortController();
  const running = new Set<Promise<unknown>>();
  return {
    track: <Request, Result>(run: Run<Request, Result>): Run<Request, Result> => (request, signal) => {
      const tracked = run(request, AbortSignal.any([signal, stop.signal]));
      running.add(tracked);
      const forget = () => running.delete(tracked);
      tracked.then(forget, forget);
      return tracked;
    },
    /** Cancels all actions, later ones too. Resolves when each has ended and is recorded. */
    async cancel(): Promise<void> {
      stop.abort();
      await Promise.allSettled(running);
    },
  };
}

export function createTimings(metrics: Metrics) {
  return {
    sign: metrics.histogram(
      "broker_sign_duration_seconds",
      "Time to get a certificate or decision",
      "exchange",
    ),
    approval: metrics.histogram(
      "broker_approval_wait_seconds",
      "Time waiting for a human's approval",
      "human",
    ),
    connect: metrics.histogram("broker_connect_duration_seconds", "Time to log in to a host", "exchange"),
    exec: metrics.histogram("broker_exec_duration_seconds", "Run time of remote commands", "command"),
  };
}

/**
 * Measures how long an authority takes to answer. Time counts as signing until a wait for a human starts, and
 * then as approval.
 */
export function timeAuthority(
  authority: Authority,
  { sign, approval }: Pick<ReturnType<typeof createTimings>, "sign" | "approval">,
): Authority {
  const timed = <Request, Answer extends { readonly kind: string }>(
    ask: (request: Request, options: SignOptions) => Promise<Answer>,
  ) =>
  async (request: Request, options: SignOptions): Promise<Answer> => {
    let end = sign.start();
    let isWaiting = false;
    const onWaiting = (id: string) => {
      if (!isWaiting) end = approval.start();
      isWaiting = true;
      options.onWaiting?.(id);
    };
    try {
      const answer = await ask(request, { ...options, onWaiting });
      end(answer.kind);
      return answer;
    } catch (error) {
      end(error instanceof AppError ? error.code : "internal");
      throw error;
    }
  };
  return {
    hosts: () => authority.hosts(),
    rules: (hosts, signal) => authority.rules(hosts, signal),
    clusters: () => authority.clusters(),
    sign: timed((request, options) => authority.sign(request, options)),
    token: timed((request, options) => authority.token(request, options)),
  };
}
