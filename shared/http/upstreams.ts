/**
 * The services that a service depends on. Checks whether they answer, and uses several equal ones like one.
 * If a request certainly did not reach one of them, it is sent to the next one immediately. If the request
 * may have been carried out, it is sent again only if repeating changes nothing. Otherwise it fails with
 * `answer_lost`, and the caller asks again, for instance for a new key. The signers then revoke the result of
 * the lost request.
 *
 * @module
 */
import { type Clock, every, type Random } from "../clock.ts";
import { AppError } from "../errors.ts";
import { isObject } from "../json.ts";
import { currentRequestId, REQUEST_ID_HEADER } from "../service/mod.ts";
import {
  JsonClient,
  type JsonClientOptions,
  type JsonClientRequest,
  type JsonClientResponse,
  UnsentError,
} from "./client.ts";
import { readProblem } from "./problem.ts";

/**
 * The part of a client that a probe uses. Use separate connections, so that a probe does not wait for other
 * requests.
 */
export interface UpstreamClient {
  /** Rejects if there is no answer. */
  request(options: {
    readonly method: "GET";
    readonly path: string;
    readonly timeoutMs: number;
    readonly signal: AbortSignal;
  }): Promise<{ readonly status: number }>;
}

/** Probes a service. Every status except 401, which rejects our certificate, shows that the service works. */
async function probe(client: UpstreamClient, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
  try {
    return (await client.request({ method: "GET", path: "/healthz", timeoutMs, signal })).status !== 401;
  } catch {
    return false;
  }
}

/** An upstream that is silent for this time makes its client unready. */
const SILENT_MS = 10_000;
const WATCH_SECONDS = 2;
const WATCH_TIMEOUT_MS = 4_000;

/** Probes a service for the `/readyz` of another service. */
export class UpstreamWatch {
  readonly #options: ConstructorParameters<typeof UpstreamWatch>[0];
  #answeredAt: number;

  /**
   * Assumes that the service has just answered. `what` names the service without its address, because anyone
   * may read the name.
   */
  constructor(options: { readonly what: string; readonly client: UpstreamClient; readonly clock: Clock }) {
    this.#options = options;
    this.#answeredAt = options.clock.now();
  }

  /** Probes until the signal is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { client, clock } = this.#options;
    const ask = async () => {
      if (await probe(client, WATCH_TIMEOUT_MS, signal)) this.#answeredAt = clock.now();
    };
    await ask();
    await every({ clock, seconds: WATCH_SECONDS, signal }, ask);
  }

  /** Describes the outage if the last answer is at least 10 s old. */
  problem(): string | undefined {
    const ms = this.silentMs;
    if (ms < SILENT_MS) return undefined;
    return `no answer from ${this.#options.what} for ${Math.floor(ms / 1000)} s`;
  }

  /** The time since the last answer, in milliseconds. */
  get silentMs(): number {
    const now = this.#options.clock.now();
    // Setting the clock back must not prolong the silence.
    this.#answeredAt = Math.min(this.#answeredAt, now);
    return now - this.#answeredAt;
  }
}

/** One service, or several as one. */
export type JsonService = Pick<JsonClient, "request">;

interface UpstreamsOptions extends Omit<JsonClientOptions, "baseUrl"> {
  readonly urls: readonly string[];
  /** Chooses the first service, and names requests. */
  readonly random: Random;
}

/** Several services, and their health. */
export interface Upstreams {
  /** Opens a client with separate connections. */
  client(limits: Pick<JsonClientOptions, "maxConnections" | "maxResponseBytes">): JsonService;
  /** Uses new credentials, as {@linkcode JsonClient.renew} does. */
  renew(tls: Parameters<JsonClient["renew"]>[0]): void;
  /** Closes all connections. Pending requests fail. */
  close(): void;
}

const PROBE_SECONDS = 1;
const PROBE_TIMEOUT_MS = 2_000;

/**
 * Connects with the first request. Several services are probed from the beginning.
 *
 * @throws {AppError} `invalid_config` if a URL is not `https:`, or certificate, key or CA cannot be used
 */
export function openUpstreams({ urls, random, ...options }: UpstreamsOptions): Upstreams {
  const { clock, what = "the service" } = options;
  const opened: JsonClient[] = [];
  const stop = new AbortController();
  const open = (limits: Parameters<Upstreams["client"]>[0]): readonly JsonClient[] => {
    const clients = urls.map((baseUrl) => new JsonClient({ ...options, ...limits, baseUrl }));
    opened.push(...clients);
    return clients;
  };
  let client: Upstreams["client"] = (limits) => open(limits)[0] as JsonClient;
  if (urls.length === 0) throw new TypeError("There is no URL");
  if (urls.length > 1) {
    const health = new Health(urls.length, clock, random);
    const common = { health, what, random };
    open({ maxConnections: 1 }).forEach((client, place) =>
      void every({ clock, seconds: PROBE_SECONDS, signal: stop.signal }, async () => {
        health.set(place, await probe(client, PROBE_TIMEOUT_MS, stop.signal));
      })
    );
    const reporter = failover({ ...common, clients: open({ maxConnections: 1 }) });
    const lost = new UnansweredRequests({ client: reporter, clock, signal: stop.signal });
    client = (limits) => failover({ ...common, clients: open(limits), lost });
  }
  return {
    client,
    renew: (tls) => opened.forEach((each) => each.renew(tls)),
    close() {
      stop.abort();
      opened.forEach((each) => each.close());
    },
  };
}

/** The health of several services, by their places in the config. */
class Health {
  readonly #clock: Clock;
  readonly #isWell: boolean[];
  /** A service that asked for a pause is not preferred before this time. */
  readonly #notBefore: number[];
  #current: number;

  constructor(count: number, clock: Clock, random: Random) {
    this.#clock = clock;
    this.#isWell = Array.from({ length: count }, () => true);
    this.#notBefore = this.#isWell.map(() => -Infinity);
    this.#current = (random.bytes(1)[0] ?? 0) % count;
  }

  /** The order of the attempts: the last used service first if it is healthy, and unhealthy ones last. */
  order(): readonly number[] {
    const now = this.#clock.now();
    const places = this.#isWell.map((_, index) => (this.#current + index) % this.#isWell.length);
    const isWell = (place: number) => this.#isWell[place] === true && (this.#notBefore[place] ?? 0) <= now;
    return [...places.filter(isWell), ...places.filter((place) => !isWell(place))];
  }

  set(place: number, isWell: boolean): void {
    this.#isWell[place] = isWell;
  }

  answered(place: number): void {
    this.#current = place;
    this.set(place, true);
  }

  avoid(place: number, seconds: number): void {
    this.#notBefore[place] = this.#clock.now() + seconds * 1000;
  }
}

function failover({ clients, health, what, random, lost }: {
  readonly clients: readonly JsonService[];
  readonly health: Health;
  readonly what: string;
  readonly random: Random;
  readonly lost?: UnansweredRequests;
}): JsonService {
  const request = async (request: JsonClientRequest): Promise<JsonClientResponse> => {
    const maySign = request.method === "POST" && request.path === SIGN;
    const named = maySign || isResult(request) ? withOwnId(request, random) : request;
    let stale: JsonClientResponse | undefined;
    let failure: unknown;
    for (const place of health.order()) {
      try {
        const reply = await clients[place]?.request(named);
        if (reply === undefined) continue;
        const seconds = staleSeconds(reply);
        if (seconds === undefined) {
          health.answered(place);
          return reply;
        }
        health.avoid(place, seconds);
        stale = reply;
      } catch (error) {
        const isCanceled = error instanceof AppError && error.code === "canceled";
        failure = error;
        if (!isCanceled) {
          health.set(place, false);
          if (error instanceof UnsentError || isRepeatable(request)) continue;
        }
        // The server may have processed the request, but the result is lost.
        if (!isRepeatable(request)) lost?.add(named);
        if (isCanceled) throw error;
        const message = `The answer of ${what} was lost: send a new request`;
        throw new AppError("answer_lost", message, { cause: error });
      }
    }
    if (stale !== undefined) return stale;
    throw failure;
  };
  return { request };
}

const SIGN = "/v1/sign";

/**
 * Whether a request collects a result. A control plane returns a result only once, and has the signer sign
 * the approved request for it.
 */
function isResult({ method, path }: JsonClientRequest): boolean {
  return method === "GET" && path.startsWith(`${SIGN}/result/`);
}

/** Whether repeating the request changes nothing. */
function isRepeatable(request: JsonClientRequest): boolean {
  const { method, path, body } = request;
  if (method === "GET") return !isResult(request);
  if (path.startsWith("/v1/revocations/")) return true;
  // A broker runs the result of a preflight without another decision, so a preflight is not repeatable.
  return path === SIGN && isObject(body) && body["dry_run"] === true && body["preflight"] !== true;
}

/** The unique suffix of an ID, added by a broker, a control plane, or both. */
const OWN_END = /\.[0-9a-f]{12}$/;
const MAX_ID = 64;
const END_LENGTH = 13;

/**
 * Gives a request that may be signed a unique id, so that the result of a lost request can be found. The previous id
 * stays at the beginning: a broker's id also finds the requests of its control plane.
 */
function withOwnId(request: JsonClientRequest, random: Random): JsonClientRequest {
  const id = currentRequestId() ?? random.bytes(16).toHex();
  const base = id.slice(0, MAX_ID - (OWN_END.test(id) ? 1 : 2) * END_LENGTH);
  const own = `${base}.${random.bytes(6).toHex()}`;
  return { ...request, headers: { ...request.headers, [REQUEST_ID_HEADER]: own } };
}

/**
 * How long an instance with stale state makes no decisions; `undefined` for other replies. It did not process
 * the request.
 */
function staleSeconds(reply: JsonClientResponse): number | undefined {
  if (reply.status !== 503 || readProblem(reply).code !== "state_stale") return undefined;
  const seconds = Number(reply.headers["retry-after"]);
  return seconds > 0 ? Math.min(seconds, 60) : 1;
}

/** After this time, the result of a request is valid nowhere, so it need not be reported. */
const REPORTED_FOR_MS = 15 * 60_000;
const PAUSE_MS = 1_000;
/** The most ids in one report. */
const BATCH = 100;
/** The maximum number of waiting IDs. If more are waiting, a signer could not process them either. */
const MOST = 1_000;

/** Reports requests without an answer (`POST /v1/revocations/requests`) until a signer has received the report. */
export class UnansweredRequests {
  readonly #options: ConstructorParameters<typeof UnansweredRequests>[0];
  #waiting: readonly { readonly id: string; readonly onBehalfOf: string; readonly since: number }[] = [];
  #isRunning = false;

  constructor(
    options: { readonly client: JsonService; readonly clock: Clock; readonly signal: AbortSignal },
  ) {
    this.#options = options;
  }

  add({ headers = {}, body }: JsonClientRequest): void {
    const id = headers[REQUEST_ID_HEADER];
    if (id === undefined || this.#waiting.length >= MOST) return;
    const named = isObject(body) ? body["on_behalf_of"] : "";
    const onBehalfOf = typeof named === "string" ? named : "";
    this.#waiting = [...this.#waiting, { id, onBehalfOf, since: this.#options.clock.now() }];
    if (!this.#isRunning) void this.#run();
  }

  async #run(): Promise<void> {
    const { clock, signal } = this.#options;
    this.#isRunning = true;
    while (!signal.aborted) {
      const now = clock.now();
      this.#waiting = this.#waiting.filter(({ since }) => now - since < REPORTED_FOR_MS);
      const [first] = this.#waiting;
      if (first === undefined) break;
      const named = this.#waiting.filter(({ onBehalfOf }) => onBehalfOf === first.onBehalfOf).slice(0, BATCH);
      const isReported = await this.#report(first.onBehalfOf, named.map(({ id }) => id));
      const others = this.#waiting.filter((each) => !named.includes(each));
      // Move them to the end, so that a broker whose reports are rate-limited does not delay the others.
      this.#waiting = isReported ? others : [...others, ...named];
      if (!isReported) await clock.sleep(PAUSE_MS, signal).catch(() => {});
    }
    // Reset this in the same turn as the last check, so that add() starts a new run.
    this.#isRunning = false;
  }

  async #report(onBehalfOf: string, ids: readonly string[]): Promise<boolean> {
    try {
      const { status } = await this.#options.client.request({
        method: "POST",
        path: "/v1/revocations/requests",
        body: { request_ids: ids, reason: "answer-lost" },
        headers: onBehalfOf === "" ? {} : { "x-on-behalf-of": onBehalfOf },
        signal: this.#options.signal,
      });
      // Other rejections are final. If a signer is busy, unreachable or of an older version, another one gets
      // the report.
      return status < 500 && status !== 429 && status !== 404;
    } catch {
      return false;
    }
  }
}
