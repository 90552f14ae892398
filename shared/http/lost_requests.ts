/**
 * Requests for signatures whose answers nobody has: they are named to the signers, which revoke what came of
 * them, and let nothing come of them any more (`POST /v1/revocations/requests`).
 *
 * @module
 */
import type { Clock } from "../clock.ts";
import { REQUEST_ID_HEADER } from "../service/request_context.ts";
import type { JsonClient, JsonClientRequest } from "./json_client.ts";

/** Afterwards no host believes what was signed. */
const TRIED_FOR_MS = 15 * 60_000;
const PAUSE_MS = 1_000;
/** The most that one request may name. */
const BATCH = 100;
/** At a time; of more a signer could do nothing either. */
const MOST = 1_000;

/** What {@linkcode LostRequests} needs. */
interface LostRequestsOptions {
  readonly client: Pick<JsonClient, "request">;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

interface Lost {
  readonly id: string;
  /** Whom it was asked for; empty: for whoever asked. */
  readonly onBehalfOf: string;
  readonly since: number;
}

/** Names lost requests until a signer has heard of them. */
export class LostRequests {
  readonly #options: LostRequestsOptions;
  #waiting: readonly Lost[] = [];
  #isRunning = false;

  constructor(options: LostRequestsOptions) {
    this.#options = options;
  }

  /** Takes a request that may have been carried out; it has an id of its own. */
  add({ headers = {}, body }: JsonClientRequest): void {
    const id = headers[REQUEST_ID_HEADER];
    if (id === undefined || this.#waiting.length >= MOST) return;
    const named = typeof body === "object" && body !== null && "on_behalf_of" in body
      ? body.on_behalf_of
      : "";
    const onBehalfOf = typeof named === "string" ? named : "";
    this.#waiting = [...this.#waiting, { id, onBehalfOf, since: this.#options.clock.now() }];
    if (this.#isRunning) return;
    this.#isRunning = true;
    void this.#run();
  }

  async #run(): Promise<void> {
    const { clock, signal } = this.#options;
    while (!signal.aborted && this.#waiting.length > 0) {
      const now = clock.now();
      this.#waiting = this.#waiting.filter(({ since }) => now - since < TRIED_FOR_MS);
      const [first] = this.#waiting;
      if (first === undefined) break;
      const named = this.#waiting.filter(({ onBehalfOf }) => onBehalfOf === first.onBehalfOf).slice(0, BATCH);
      const isTold = await this.#tell(first.onBehalfOf, named.map(({ id }) => id));
      const others = this.#waiting.filter((each) => !named.includes(each));
      // Whoever is put off waits behind the others: one broker's limit must not hold up all.
      this.#waiting = isTold ? others : [...others, ...named];
      if (!isTold) await clock.sleep(PAUSE_MS, signal).catch(() => {});
    }
    // At once: whoever adds something after the last look starts it anew.
    this.#isRunning = false;
  }

  async #tell(onBehalfOf: string, ids: readonly string[]): Promise<boolean> {
    try {
      const { status } = await this.#options.client.request({
        method: "POST",
        path: "/v1/revocations/requests",
        body: { request_ids: ids, reason: "answer-lost" },
        headers: onBehalfOf === "" ? {} : { "x-on-behalf-of": onBehalfOf },
        signal: this.#options.signal,
      });
      // A refusal is for good; who is too busy or away, or of an older version, may leave it to another.
      return status < 500 && status !== 429 && status !== 404;
    } catch {
      return false;
    }
  }
}
