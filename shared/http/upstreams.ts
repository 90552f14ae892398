/**
 * Several services that answer alike, asked like one. What was certainly not carried out is asked of the next one at
 * once. What may have been is asked again only where that changes nothing; otherwise `answer_lost` says that it has to
 * be asked anew, such as for a new key.
 *
 * ```ts ignore
 * import { openUpstreams } from "@gateway/shared/http";
 *
 * const signers = openUpstreams({ what: "the signer", urls, ...tls, clock, random });
 * const { status } = await signers.client({}).request({ method: "GET", path: "/v1/hosts" });
 * signers.close();
 * ```
 *
 * @module
 */
import { AppError } from "../errors.ts";
import type { Random } from "../clock.ts";
import { currentRequestId, REQUEST_ID_HEADER } from "../service/request_context.ts";
import {
  JsonClient,
  type JsonClientOptions,
  type JsonClientRequest,
  type JsonClientResponse,
  UnsentError,
} from "./json_client.ts";
import { LostRequests } from "./lost_requests.ts";
import { readProblem } from "./problem.ts";
import { UpstreamHealth } from "./upstream_health.ts";

/** What asks one service, or several as one. */
export type JsonService = Pick<JsonClient, "request">;

/** Where the services are, and who asks. */
interface UpstreamsOptions extends Omit<JsonClientOptions, "baseUrl"> {
  /** At least one. */
  readonly urls: readonly string[];
  /** Chooses which of them is asked at first, and names requests. */
  readonly random: Random;
}

/** The limits of one of several clients of the same services. */
type PoolLimits = Pick<JsonClientOptions, "maxConnections" | "maxResponseBytes">;

/** Several services, and what is known of their health. */
export interface Upstreams {
  /** A client with connections of its own; closed with the rest. */
  client(limits: PoolLimits): JsonService;
  /** Shows other credentials, as {@linkcode JsonClient.renew} does. */
  renew(tls: Pick<JsonClientOptions, "cert" | "key" | "ca">): void;
  /** Closes all connections; requests under way fail. */
  close(): void;
}

const SIGN = "/v1/sign";
/** Of a control plane: it gives a result out once. */
const RESULT = "/v1/sign/result/";
/** What makes an id a broker's own, or a control plane's behind it. */
const OWN_END = /\.[0-9a-f]{12}$/;
/** As long as an id may be, without one such end, or two. */
const [BEFORE_ONE, BEFORE_TWO] = [64 - 13, 64 - 26];

/**
 * Connects with the first request. More than one are looked at in the background from the beginning.
 *
 * @throws {AppError} `invalid_config` when a URL is not `https:`, or certificate, key or CA cannot be used
 */
export function openUpstreams({ urls, random, ...options }: UpstreamsOptions): Upstreams {
  const opened: JsonClient[] = [];
  const open = (limits: PoolLimits) =>
    urls.map((baseUrl) => {
      const client = new JsonClient({ ...options, ...limits, baseUrl });
      opened.push(client);
      return client;
    });
  const [only, ...others] = urls;
  const renew: Upstreams["renew"] = (tls) => opened.forEach((client) => client.renew(tls));
  if (only === undefined) throw new TypeError("There is no URL");
  if (others.length === 0) {
    return {
      client: (limits) => open(limits)[0] as JsonClient,
      renew,
      close: () => opened.forEach((client) => client.close()),
    };
  }
  const stop = new AbortController();
  const { clock, what = "the service" } = options;
  const health = new UpstreamHealth({
    probes: open({ maxConnections: 1 }),
    clock,
    first: random.bytes(1)[0] ?? 0,
  });
  void health.run(stop.signal);
  const reporter: JsonService = new Failover({ clients: open({ maxConnections: 1 }), health, what, random });
  const lost = new LostRequests({ client: reporter, clock, signal: stop.signal });
  return {
    client: (limits) => new Failover({ clients: open(limits), health, what, random, lost }),
    renew,
    close() {
      stop.abort();
      opened.forEach((client) => client.close());
    },
  };
}

interface FailoverOptions {
  /** In the places that the health knows. */
  readonly clients: readonly JsonService[];
  readonly health: UpstreamHealth;
  readonly what: string;
  readonly random: Random;
  readonly lost?: LostRequests;
}

class Failover implements JsonService {
  readonly #options: FailoverOptions;

  constructor(options: FailoverOptions) {
    this.#options = options;
  }

  async request(request: JsonClientRequest): Promise<JsonClientResponse> {
    const { clients, health, what, random } = this.#options;
    const named = isSign(request) || isResult(request) ? withOwnId(request, random) : request;
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
        if (error instanceof AppError && error.code === "canceled") {
          // It may be on its way, and what comes of it nobody takes.
          if (!isRepeatable(request)) this.#options.lost?.add(named);
          throw error;
        }
        health.failed(place);
        failure = error;
        if (error instanceof UnsentError || isRepeatable(request)) continue;
        this.#options.lost?.add(named);
        throw new AppError("answer_lost", `The answer of ${what} was lost: it has to be asked anew`, {
          cause: error,
        });
      }
    }
    // One that answers at all says more than those that don't.
    if (stale !== undefined) return stale;
    throw failure;
  }
}

function isSign({ method, path }: JsonClientRequest): boolean {
  return method === "POST" && path === SIGN;
}

/** Whether it may have an approved request signed. */
function isResult({ method, path }: JsonClientRequest): boolean {
  return method === "GET" && path.startsWith(RESULT);
}

/** Whether it comes to the same when it is done twice. */
function isRepeatable(request: JsonClientRequest): boolean {
  const { method, path, body } = request;
  if (method === "GET") return !isResult(request);
  if (path.startsWith("/v1/revocations/")) return true;
  return path === SIGN && isQuestion(body);
}

/** A dry run signs nothing, unless what comes of it runs without another question. */
function isQuestion(body: unknown): boolean {
  if (typeof body !== "object" || body === null) return false;
  const { dry_run, preflight } = body as { readonly dry_run?: unknown; readonly preflight?: unknown };
  return dry_run === true && preflight !== true;
}

/**
 * Each request that something may be signed for has an id that no other has, whatever id it came with: by it, what came of
 * one whose answer is lost is found. The id that it came with stays the beginning, so that a broker's finds what its control plane asked for.
 */
function withOwnId(request: JsonClientRequest, random: Random): JsonClientRequest {
  const id = currentRequestId() ?? random.bytes(16).toHex();
  const base = id.slice(0, OWN_END.test(id) ? BEFORE_ONE : BEFORE_TWO);
  const own = `${base}.${random.bytes(6).toHex()}`;
  return { ...request, headers: { ...request.headers, [REQUEST_ID_HEADER]: own } };
}

/** For how long an instance can decide nothing, as it says; nothing has come of the request then. */
function staleSeconds(reply: JsonClientResponse): number | undefined {
  if (reply.status !== 503 || readProblem(reply).code !== "state_stale") return undefined;
  const seconds = Number(reply.headers["retry-after"]);
  return seconds > 0 ? Math.min(seconds, 60) : 1;
}
