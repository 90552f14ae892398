import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { readProblem } from "@gateway/shared/http";
import type { SignerClient, SignerReply, SignOptions, UndecidedReason } from "./authority.ts";

/** Requests that wait at a time, in all; each holds a connection to the control plane. */
export const MAX_WAITING = 64;
/** Of these, the requests of one end user. */
export const MAX_WAITING_OF_ONE = 16;

/** How long the control plane is asked to hold a poll, in seconds; the longest that it does. */
const HOLD_SECONDS = 8;
/** A held poll with the signing at its end. */
const POLL_TIMEOUT_MS = 20_000;
/** Between the starts of polls that were not held, or failed. */
const PAUSE_MS = 2_000;
/**
 * The control plane has answered, and signing has failed: it gives the approval back to be collected again, which is
 * of no use where the signer has refused.
 */
const SIGNING_FAILED = 502;

interface ApprovalWaitPorts {
  /** Its connections are taken up by waiting: not the client that signs. */
  readonly client: SignerClient;
  readonly clock: Clock;
  /** How long to wait for each approval; 0 is not at all. */
  readonly seconds: number;
}

/** An approval that somebody has been asked for. */
interface ParkedRequest {
  readonly approvalId: string;
  /** The key that the certificate is to be made for; `""` where no certificate is asked for. */
  readonly publicKey: string;
  readonly endUser: string;
}

/** How a wait ended: with a reply that decides, or without. */
type Collected =
  | { readonly kind: "replied"; readonly reply: SignerReply }
  | { readonly kind: "undecided"; readonly why: UndecidedReason };

/** Waits for humans: polls the control plane until an approval is decided and collected. */
export class ApprovalWaits {
  readonly #ports: ApprovalWaitPorts;
  readonly #waiting = new Map<string, number>();
  #count = 0;

  constructor(ports: ApprovalWaitPorts) {
    this.#ports = ports;
  }

  /**
   * Waits for the result of a parked request.
   *
   * @throws {AppError} `canceled`, or `upstream_failure` when the control plane could not be asked at the end
   */
  async collect(parked: ParkedRequest, options: SignOptions): Promise<Collected> {
    if (this.#ports.seconds === 0) return { kind: "undecided", why: "not_configured" };
    if (!this.#enter(parked.endUser)) return { kind: "undecided", why: "too_many" };
    try {
      return await this.#poll(parked, options);
    } catch (cause) {
      if (options.signal.aborted) throw new AppError("canceled", "request canceled", { cause });
      throw cause;
    } finally {
      this.#leave(parked.endUser);
    }
  }

  async #poll(parked: ParkedRequest, { signal, onWaiting }: SignOptions): Promise<Collected> {
    const { clock, seconds } = this.#ports;
    // Counted down by what has passed, so that a clock that is set back gives a wait no second life.
    let leftMs = seconds * 1000;
    for (;;) {
      onWaiting?.(parked.approvalId);
      const isLast = leftMs <= 0;
      const startedAt = clock.now();
      const polled = await this.#ask(parked, Math.floor(Math.max(leftMs, 0) / 1000), signal);
      if (polled.kind === "replied") return polled;
      if (isLast) {
        if (polled.kind === "failed") throw polled.error;
        return { kind: "undecided", why: "deadline" };
      }
      const tookMs = Math.min(Math.max(clock.now() - startedAt, 0), POLL_TIMEOUT_MS);
      leftMs -= tookMs;
      const pauseMs = Math.min(PAUSE_MS - tookMs, leftMs);
      if (pauseMs <= 0) continue;
      await clock.sleep(pauseMs, signal);
      leftMs -= pauseMs;
    }
  }

  async #ask(
    { approvalId, publicKey }: ParkedRequest,
    leftSeconds: number,
    signal: AbortSignal,
  ): Promise<
    | { readonly kind: "replied"; readonly reply: SignerReply }
    | { readonly kind: "waiting" }
    | { readonly kind: "failed"; readonly error: AppError }
  > {
    const query = new URLSearchParams({
      ...(publicKey === "" ? {} : { pubkey: publicKey.trim() }),
      wait: String(Math.min(leftSeconds, HOLD_SECONDS)),
    });
    const path = `/v1/sign/result/${encodeURIComponent(approvalId)}?${query}`;
    try {
      const reply = await this.#ports.client.request({
        method: "GET",
        path,
        signal,
        timeoutMs: POLL_TIMEOUT_MS,
      });
      const hasFailed = reply.status === SIGNING_FAILED && readProblem(reply).code !== "signing_refused";
      if (reply.status === 202 || hasFailed) return { kind: "waiting" };
      return { kind: "replied", reply };
    } catch (cause) {
      if (signal.aborted) throw cause;
      // A control plane that restarts keeps its approvals: losing one answer does not lose the approval.
      const why = cause instanceof AppError ? cause.message : "failed";
      const error = new AppError("upstream_failure", `querying approval result: ${why}`, { cause });
      return { kind: "failed", error };
    }
  }

  #enter(endUser: string): boolean {
    const own = this.#waiting.get(endUser) ?? 0;
    if (this.#count >= MAX_WAITING || own >= MAX_WAITING_OF_ONE) return false;
    this.#count += 1;
    this.#waiting.set(endUser, own + 1);
    return true;
  }

  #leave(endUser: string): void {
    this.#count -= 1;
    const own = (this.#waiting.get(endUser) ?? 1) - 1;
    if (own === 0) this.#waiting.delete(endUser);
    else this.#waiting.set(endUser, own);
  }
}
