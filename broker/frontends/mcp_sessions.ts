import { type McpServer, WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server";
import { type Clock, every } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import type { McpOptions, McpServerOptions } from "./mcp_server.ts";
import type { AuthenticatedEndUser } from "./oauth.ts";
import { OpenRequests } from "./open_requests.ts";
import { ResumableEvents } from "./user_budget.ts";

const RETRY_MS = 1000;
const VERSION_HEADER = "mcp-protocol-version";
const SWEEP_SECONDS = 60;
const SESSION_LIMITS = { perUser: 32, total: 1024, idleMs: 30 * 60_000 };

interface McpSessionsOptions extends Pick<McpOptions, "clock" | "random" | "onProtocolError"> {
  readonly createServer: (onCall: McpServerOptions["onCall"]) => McpServer;
  readonly limits?: typeof SESSION_LIMITS;
}

/** A session of the protocol generation with sessions: one client of one end user. */
export class McpSession {
  readonly id: string;
  readonly user: string;
  readonly #clock: Clock;
  readonly #transport: WebStandardStreamableHTTPServerTransport;
  readonly #server: McpServer;
  readonly #ready: Promise<void>;
  readonly #requests = new OpenRequests();
  readonly #events: ReturnType<ResumableEvents["open"]>;
  /** The number of requests, streams and running calls, including calls of disconnected clients. */
  #busy = 0;
  #lastUsedMs: number;

  constructor(id: string, user: string, kept: ResumableEvents, options: McpSessionsOptions) {
    this.id = id;
    this.user = user;
    this.#clock = options.clock;
    this.#lastUsedMs = this.#clock.now();
    this.#events = kept.open(user);
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      eventStore: this.#events,
      retryInterval: RETRY_MS,
    });
    this.#transport = transport;
    transport.onerror = options.onProtocolError;
    const { send } = transport;
    transport.send = (message, options) =>
      send.call(transport, message, options).finally(() => this.#requests.sent(message));
    this.#server = options.createServer((call) => {
      this.#requests.watch(call);
      const busy = this.#begin();
      const end = () => busy[Symbol.dispose]();
      call.ended.then(end, end);
    });
    this.#ready = this.#server.connect(transport);
  }

  get isBusy(): boolean {
    return this.#busy > 0;
  }

  get idleMs(): number {
    return this.isBusy ? 0 : Math.max(0, this.#clock.now() - this.#lastUsedMs);
  }

  /** Answers a request of the session's user, whose token and groups may be new. */
  async handle(request: Request, authInfo: AuthenticatedEndUser, body?: unknown): Promise<Response> {
    authInfo.exchange.add(this.#begin());
    await this.#ready;
    using rejected = new DisposableStack();
    rejected.use(this.#requests.begin(Array.isArray(body) ? body : [body]));
    const parsed = body === undefined ? {} : { parsedBody: body };
    const headers = new Headers(request.headers);
    // The transport compares `Accept` literally, and the frontend has checked it.
    headers.set("accept", "application/json, text/event-stream");
    const version = this.#server.server.getNegotiatedProtocolVersion();
    // A client that names no version speaks the negotiated one.
    if (version !== undefined && !headers.has(VERSION_HEADER)) headers.set(VERSION_HEADER, version);
    const reduced = new Request(request.url, { method: request.method, headers });
    const response = await this.#transport.handleRequest(reduced, { authInfo, ...parsed });
    if (response.ok) rejected.move();
    return response;
  }

  /** Ends the stream for notifications, which its client would hold open forever. */
  endStandingStream(): void {
    this.#transport.closeStandaloneSSEStream();
  }

  async close(): Promise<void> {
    this.#events.close();
    await this.#server.close();
  }

  #begin(): Disposable {
    this.#busy += 1;
    return {
      [Symbol.dispose]: () => {
        this.#busy -= 1;
        this.#lastUsedMs = this.#clock.now();
      },
    };
  }
}

/** The open sessions. Each answers only the end user who opened it. */
export class McpSessions {
  readonly #options: McpSessionsOptions;
  readonly #limits: typeof SESSION_LIMITS;
  readonly #sessions = new Map<string, McpSession>();
  readonly #kept = new ResumableEvents();
  readonly #stop = new AbortController();
  readonly #sweeping: Promise<void>;

  constructor(options: McpSessionsOptions) {
    this.#options = options;
    this.#limits = options.limits ?? SESSION_LIMITS;
    const sweep = { clock: options.clock, seconds: SWEEP_SECONDS, signal: this.#stop.signal };
    this.#sweeping = every(sweep, () => {
      for (const session of this.#sessions.values()) {
        if (session.idleMs >= this.#limits.idleMs) this.#discard(session);
      }
    });
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** At the user's limit, replaces the longest unused session, because most clients never send DELETE. */
  open(user: string): McpSession {
    this.#stop.signal.throwIfAborted();
    const { perUser, total } = this.#limits;
    const own = [...this.#sessions.values()].filter((session) => session.user === user);
    if (own.length >= perUser) {
      const [oldest] = own.filter(({ isBusy }) => !isBusy).sort((left, right) => right.idleMs - left.idleMs);
      if (oldest === undefined) throw tooMany(`session limit of this user reached (${perUser})`);
      this.#discard(oldest);
    }
    if (this.#sessions.size >= total) throw tooMany(`session limit reached (${total})`);
    const id = this.#options.random.bytes(20).toHex();
    const session = new McpSession(id, user, this.#kept, this.#options);
    this.#sessions.set(id, session);
    return session;
  }

  find(id: string, user: string): McpSession {
    const session = this.#sessions.get(id);
    if (session === undefined) throw new AppError("not_found", "session not found");
    if (session.user !== user) throw new AppError("forbidden", "session user mismatch");
    return session;
  }

  async end(session: McpSession): Promise<void> {
    this.#sessions.delete(session.id);
    await session.close();
  }

  endStandingStreams(): void {
    for (const session of this.#sessions.values()) session.endStandingStream();
  }

  async close(): Promise<void> {
    this.#stop.abort(new AppError("canceled", "the broker is stopping"));
    await Promise.all([...this.#sessions.values()].map((session) => this.end(session)));
    await this.#sweeping;
  }

  #discard(session: McpSession): void {
    this.end(session).catch((error) => this.#options.onProtocolError(error));
  }
}

function tooMany(why: string): AppError {
  return new AppError("rate_limited", why, { retryAfterSeconds: SWEEP_SECONDS });
}
