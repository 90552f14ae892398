import type { AuditEntry } from "@gateway/shared/audit";
import { AppError, errorText } from "@gateway/shared/errors";
import type { WireDecision } from "@gateway/shared/wire";
import type { Histogram, Metrics } from "@gateway/shared/service";
import type {
  Authority,
  CertificateRequest,
  SignAnswer,
  SignOptions,
  TokenRequest,
} from "../authority/authority.ts";
import type { SshTimings } from "../ssh/run_command.ts";

/** What happened, for the audit log and the counters. */
export interface Events {
  /**
   * Records what may not have an effect unrecorded.
   *
   * @throws {AppError} `audit_unavailable` when it can't be recorded and the fail mode is closed
   */
  require(entry: AuditEntry): Promise<void>;
  /** Records what nothing hangs on: refusals, errors, dry runs. */
  bestEffort(entry: AuditEntry): Promise<void>;
}

/** Wraps the audit gate so that each event is also counted by outcome, recorded or not. */
export function countEvents(events: Events, count: (outcome: string) => void): Events {
  return {
    async require(entry) {
      try {
        await events.require(entry);
      } finally {
        count(entry.outcome);
      }
    },
    async bestEffort(entry) {
      await events.bestEffort(entry);
      count(entry.outcome);
    },
  };
}

interface AuditedStep {
  /** The record of a failure; its outcome is `error` unless it says otherwise. */
  readonly entry: Omit<AuditEntry, "outcome"> & Partial<Pick<AuditEntry, "outcome">>;
  readonly signal: AbortSignal;
}

/** Takes a step and records its failure. An aborted signal whose reason is a fault says what to tell. */
export async function audited<T>(
  events: Events,
  { entry, signal }: AuditedStep,
  step: () => Promise<T>,
): Promise<T> {
  try {
    return await step();
  } catch (cause) {
    const error = signal.aborted ? canceledBy(signal, cause) : cause;
    await events.bestEffort({
      outcome: "error",
      ...entry,
      err: errorText(error),
    });
    throw error;
  }
}

/** What ended a step that was under way. */
export function canceledBy({ reason }: AbortSignal, cause?: unknown): AppError {
  // Who canceled, the agent or its connection, makes no difference to anybody who looks for it in the log.
  const says = reason instanceof AppError && reason.code !== "canceled";
  return says ? reason : new AppError("canceled", "canceled", { cause });
}

/** The fields of a record that name the rule and the warning of a decision. */
export function describeDecision(
  decision: WireDecision | undefined,
): Pick<AuditEntry, "policy_rule" | "warning"> {
  return { policy_rule: decision?.matched_rule ?? "", warning: decision?.warning ?? "" };
}

/** Records the decision of a dry run. */
export async function recordPreview(
  events: Pick<Events, "bestEffort">,
  entry: Omit<AuditEntry, "outcome">,
  decision: WireDecision,
): Promise<void> {
  const outcome = decision.allowed ? "dry_run_allowed" : "dry_run_denied";
  await events.bestEffort({ ...entry, ...describeDecision(decision), outcome });
}

/** Something that runs until it is done or its signal is aborted. */
type Run<Request, Result> = (request: Request, signal: AbortSignal) => Promise<Result>;

export interface Runs {
  track<Request, Result>(run: Run<Request, Result>): Run<Request, Result>;
  /** Cancels all of them, and those that would still come; resolves when each has ended and is recorded. */
  cancel(): Promise<void>;
}

/** Keeps account of what runs, so that a broker that stops leaves nothing behind on a host. */
export function trackRuns(): Runs {
  const stop = new AbortController();
  const running = new Set<Promise<unknown>>();
  return {
    track: (run) => (request, signal) => {
      const tracked = run(request, AbortSignal.any([signal, stop.signal]));
      running.add(tracked);
      const forget = () => running.delete(tracked);
      tracked.then(forget, forget);
      return tracked;
    },
    async cancel() {
      stop.abort();
      await Promise.allSettled(running);
    },
  };
}

/** How long the parts of a call take. */
interface Timings extends SshTimings {
  /** For certificates and decisions, the waits for a human aside. */
  readonly sign: Histogram;
  readonly approval: Histogram;
}

export function createTimings(metrics: Metrics): Timings {
  return {
    sign: metrics.histogram(
      "broker_sign_duration_seconds",
      "What the signer or control plane takes for a certificate or a decision",
      "exchange",
    ),
    approval: metrics.histogram(
      "broker_approval_wait_seconds",
      "Waits for a human's approval, until its result is there or nobody waits any longer",
      "human",
    ),
    connect: metrics.histogram(
      "broker_connect_duration_seconds",
      "From the first byte to a host until the login, through all bastions",
      "exchange",
    ),
    exec: metrics.histogram(
      "broker_exec_duration_seconds",
      "What remote commands take, once connected",
      "command",
    ),
  };
}

/** An authority whose answers are timed: as an approval from when it is waited for, as signing otherwise. */
export function timeAuthority(authority: Authority, { sign, approval }: Timings): Authority {
  const timed = <Request, Answer extends { readonly kind: SignAnswer["kind"] }>(
    ask: (request: Request, options: SignOptions) => Promise<Answer>,
  ) =>
  async (request: Request, options: SignOptions): Promise<Answer> => {
    let waited: ((result?: string) => void) | undefined;
    const onWaiting = (id: string) => {
      waited ??= approval.start();
      options.onWaiting?.(id);
    };
    const signed = sign.start();
    try {
      const answer = await ask(request, { ...options, onWaiting });
      (waited ?? signed)(answer.kind);
      return answer;
    } catch (error) {
      (waited ?? signed)(codeOf(error));
      throw error;
    }
  };
  return {
    hosts: () => authority.hosts(),
    rules: (hosts, signal) => authority.rules(hosts, signal),
    clusters: () => authority.clusters(),
    sign: timed((request: CertificateRequest, options) => authority.sign(request, options)),
    token: timed((request: TokenRequest, options) => authority.token(request, options)),
  };
}

function codeOf(error: unknown): string {
  return error instanceof AppError ? error.code : "internal";
}
