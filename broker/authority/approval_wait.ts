import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { readProblem } from "@gateway/shared/http";
import type { SignerClient, SignerReply, SignOptions, UndecidedReason } from "./authority.ts";

/** The maximum number of requests that wait for approval. Each holds a connection to the control plane. */
export const MAX_WAITING = 64;
export const MAX_WAITING_OF_ONE = 16;

/** The longest time that the control plane holds a poll, in seconds. */
const HOLD_SECONDS = 8;
/**
 * The timeout of one poll: the time that the control plane holds it, and the time for signing after the
 * decision.
 */
const POLL_TIMEOUT_MS = 20_000;
/** The time between the starts of two polls that failed or were not held. */
const PAUSE_MS = 2_000;
/** The status of a failed signing. The control plane keeps the approval, unless the signer has rejected the request. */
const SIGNING_FAILED = 502;

interface ApprovalWaitPorts {
  /** Separate from the client for sign requests, so that waiting polls do not occupy its connections. */
  readonly client: SignerClient;
  readonly clock: Clock;
  /** The longest wait in seconds; 0: no wait. */
  readonly seconds: number;
}

interface ParkedRequest {
  readonly approvalId: string;
  readonly publicKey: string;
  readonly endUser: string;
}

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
   * @throws {AppError} `canceled`, or `upstream_failure` if the last poll failed
   */
  async collect(
    parked: ParkedRequest,
    options: SignOptions,
  ): Promise<SignerReply | UndecidedReason> {
    if (this.#ports.seconds === 0) return "not_configured";
    const { endUser } = parked;
    const own = this.#waiting.get(endUser) ?? 0;
    if (this.#count >= MAX_WAITING || own >= MAX_WAITING_OF_ONE) return "too_many";
    this.#count += 1;
    this.#waiting.set(endUser, own + 1);
    try {
      return await this.#poll(parked, options) ?? "deadline";
    } catch (cause) {
      if (options.signal.aborted) throw new AppError("canceled", "request canceled", { cause });
      throw cause;
    } finally {
      this.#count -= 1;
      const left = (this.#waiting.get(endUser) ?? 1) - 1;
      if (left === 0) this.#waiting.delete(endUser);
      else this.#waiting.set(endUser, left);
    }
  }

  async #poll(parked: ParkedRequest, { signal, onWaiting }: SignOptions): Promise<SignerReply | undefined> {
    const { clock, seconds } = this.#ports;
    // Counts elapsed time, so that setting the clock back does not prolong the wait.
    let leftMs = seconds * 1000;
    for (;;) {
      onWaiting?.(parked.approvalId);
      const isLast = leftMs <= 0;
      const startedAt = clock.now();
      const reply = await this.#ask(parked, Math.floor(Math.max(leftMs, 0) / 1000), signal).catch((cause) => {
        if (signal.aborted) throw cause;
        // The control plane keeps its approvals across a restart, so poll again after a lost answer.
        if (!isLast) return undefined;
        const why = cause instanceof AppError ? cause.message : "failed";
        throw new AppError("upstream_failure", `querying approval result: ${why}`, { cause });
      });
      if (reply !== undefined || isLast) return reply;
      const tookMs = Math.min(Math.max(clock.now() - startedAt, 0), POLL_TIMEOUT_MS);
      leftMs -= tookMs;
      const pauseMs = Math.min(PAUSE_MS - tookMs, leftMs);
      if (pauseMs <= 0) continue;
      await clock.sleep(pauseMs, signal);
      leftMs -= pauseMs;
    }
  }

  /** @returns `undefined` if the request still waits, or if its signing failed and can be tried again */
  async #ask(
    { approvalId, publicKey }: ParkedRequest,
    leftSeconds: number,
    signal: AbortSignal,
  ): Promise<SignerReply | undefined> {
    const query = new URLSearchParams({
      ...(publicKey !== "" && { pubkey: publicKey.trim() }),
      wait: String(Math.min(leftSeconds, HOLD_SECONDS)),
    });
    const path = `/v1/sign/result/${encodeURIComponent(approvalId)}?${query}`;
    const reply = await this.#ports.client.request({
      method: "GET",
      path,
      signal,
      timeoutMs: POLL_TIMEOUT_MS,
    });
    const hasFailed = reply.status === SIGNING_FAILED && readProblem(reply).code !== "signing_refused";
    return reply.status === 202 || hasFailed ? undefined : reply;
  }
}
