import {
  type AuthInfo,
  type EventStore,
  type McpServer,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import type { Clock } from "@gateway/shared/clock";
import { OpenRequests, type StartedCall } from "./open_requests.ts";
import { watchEnd } from "./watched_response.ts";

/** What a client that lost its connection is told to wait before it comes again. */
const RETRY_MS = 1000;

interface SessionRequest {
  readonly request: Request;
  /** Whose request it is: the session's user, but perhaps with a newer token and other groups. */
  readonly authInfo: AuthInfo;
  readonly body?: unknown;
}

/** What a session is made of. */
export interface McpSessionParts {
  readonly id: string;
  readonly user: string;
  readonly clock: Clock;
  readonly events: EventStore;
  /** Makes the session's server, which tells of every call that begins. */
  readonly createServer: (onCall: (call: StartedCall) => void) => McpServer;
  /** Told of messages that are refused. */
  readonly onProtocolError: (error: Error) => void;
}

/** A session of the protocol generation that has them: one client of one end user. */
export class McpSession {
  readonly id: string;
  readonly user: string;
  readonly #clock: Clock;
  readonly #transport: WebStandardStreamableHTTPServerTransport;
  readonly #server: McpServer;
  readonly #ready: Promise<void>;
  readonly #requests = new OpenRequests();
  /** Requests and streams that are being answered, and calls that run, perhaps without anybody waiting. */
  #busy = 0;
  #lastUsedMs: number;

  constructor({ id, user, clock, events, createServer, onProtocolError }: McpSessionParts) {
    this.id = id;
    this.user = user;
    this.#clock = clock;
    this.#lastUsedMs = clock.now();
    this.#transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      eventStore: events,
      retryInterval: RETRY_MS,
    });
    this.#transport.onerror = onProtocolError;
    const { send } = this.#transport;
    this.#transport.send = async (message, options) => {
      await send.call(this.#transport, message, options).finally(() => this.#requests.sent(message));
    };
    this.#server = createServer((call) => {
      this.#requests.watch(call);
      const end = this.#begin();
      call.ended.then(end, end);
    });
    this.#ready = this.#server.connect(this.#transport);
  }

  /** How long nothing has happened in it; 0 while a request, a stream or a call is under way. */
  get idleMs(): number {
    return this.#busy > 0 ? 0 : Math.max(0, this.#clock.now() - this.#lastUsedMs);
  }

  get isBusy(): boolean {
    return this.#busy > 0;
  }

  /**
   * Answers a request.
   *
   * @throws {AppError} `invalid_request` when it uses the id of one that is under way
   */
  async handle({ request, authInfo, body }: SessionRequest): Promise<Response> {
    const end = this.#begin();
    let abandon = () => {};
    try {
      await this.#ready;
      abandon = this.#requests.begin(Array.isArray(body) ? body : [body]);
      const parsed = body === undefined ? {} : { parsedBody: body };
      const version = this.#server.server.getNegotiatedProtocolVersion();
      const response = await this.#transport.handleRequest(reduce(request, version), { authInfo, ...parsed });
      if (!response.ok) abandon();
      return watchEnd(response, end);
    } catch (error) {
      abandon();
      end();
      throw error;
    }
  }

  /** Ends the stream that carries no answer, which the client would hold open for good. */
  endStandingStream(): void {
    this.#transport.closeStandaloneSSEStream();
  }

  /** Ends the session; calls that run are cancelled. */
  async close(): Promise<void> {
    await this.#server.close();
  }

  #begin(): () => void {
    this.#busy += 1;
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.#busy -= 1;
      this.#lastUsedMs = this.#clock.now();
    };
  }
}

const HEADERS = ["content-type", "last-event-id", "mcp-protocol-version", "mcp-session-id"];

/** What the transport has to know. It reads `Accept` by the letter; what that allows has been checked before. */
function reduce({ url, method, headers }: Request, version: string | undefined): Request {
  const reduced = new Headers({ accept: "application/json, text/event-stream" });
  // A client that does not say which version it speaks speaks the one that was agreed upon.
  if (version !== undefined) reduced.set("mcp-protocol-version", version);
  for (const name of HEADERS) {
    const value = headers.get(name);
    if (value !== null) reduced.set(name, value);
  }
  return new Request(url, { method, headers: reduced });
}
