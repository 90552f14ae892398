import {
  type AuthInfo,
  createMcpHandler,
  isInitializeRequest,
  isLegacyRequest,
  localhostAllowedHostnames,
  validateHostHeader,
  validateOriginHeader,
} from "@modelcontextprotocol/server";
import { AppError } from "@gateway/shared/errors";
import { readJsonBody, requireJsonType } from "@gateway/shared/http";
import { refuseMethod } from "@gateway/shared/http/routes";
import { writableBigint } from "@gateway/shared/json";
import type { EndUserVerifier } from "@gateway/shared/oidc";
import * as z from "@zod/zod";
import { announceTools, createMcpServer, type McpOptions, type McpServerOptions } from "./mcp_server.ts";
import { type McpSession, McpSessions } from "./mcp_sessions.ts";
import {
  AuthenticatedEndUser,
  type BearerRefusal,
  challengeResponse,
  metadataPaths,
  type ProtectedResource,
  readBearer,
  respondToMetadata,
} from "./oauth.ts";
import { isEventId, textLength, USER_BOUNDS, UserBudget } from "./user_budget.ts";

/** The largest request body: a file transfer's content fits. */
export const MAX_BODY_BYTES = 1 << 20;

const HTTP_LIMITS =
  `Over HTTP: ${USER_BOUNDS.calls} concurrent calls per user, ${MAX_BODY_BYTES} bytes per request.`;

const SESSION_HEADER = "mcp-session-id";
/** The first protocol revision without batches. */
const WITHOUT_BATCHES = "2025-06-18";

interface McpHttpOptions extends McpOptions {
  readonly resource: ProtectedResource;
  readonly verifier: Pick<EndUserVerifier, "verify">;
  /** Called with the reason when a token is rejected. The reason contains no part of the token. */
  readonly onRefusal: (reason: string) => void;
}

/** Serves MCP to clients with a token in every request: in sessions (up to 2025-11-25), or stateless (2026-07-28). */
export function createMcpHttp(options: McpHttpOptions) {
  const { resource, tools, onProtocolError } = options;
  const hostnames = [new URL(resource.resourceUrl).hostname, ...localhostAllowedHostnames()];
  const publicPaths = metadataPaths(resource.resourceUrl);
  const budget = new UserBudget();
  let draining = false;
  const serverFor = (era: McpServerOptions["era"], onCall: McpServerOptions["onCall"] = () => {}) =>
    createMcpServer({
      ...{ tools, era, onCall, clock: options.clock, onError: options.onError },
      instructions: `${options.instructions} ${HTTP_LIMITS}`,
      async run(tool, args, context, authInfo) {
        const { name, groups, token, exchange } = endUserOf(authInfo);
        using _call = budget.take(name, "calls");
        const caller = { caller: name, callerGroups: groups, bearerToken: token };
        const { text, structured } = await tool.call(args, { ...caller, ...context });
        await budget.hold(name, exchange, textLength({ text, structured }), context.signal);
        return { text, structured: exactMembers(structured) };
      },
    });
  const sessions = new McpSessions({
    ...options,
    createServer(onCall) {
      const server = serverFor("legacy", onCall);
      announceTools(server, tools);
      return server;
    },
  });
  const stateless = createMcpHandler(({ era }) => serverFor(era), {
    legacy: "reject",
    onerror: onProtocolError,
  });
  const endAnnouncing = tools.watch(() => stateless.notify.toolsChanged());

  async function authenticate(request: Request): Promise<AuthenticatedEndUser | BearerRefusal> {
    const token = readBearer(request);
    if (typeof token !== "string") return token;
    const result = await options.verifier.verify(token);
    return result.kind === "verified" ? new AuthenticatedEndUser(token, result) : result;
  }

  async function post(request: Request, endUser: AuthenticatedEndUser): Promise<Response> {
    requireJsonType(request);
    const body = await readJsonBody(request, { maxBytes: MAX_BODY_BYTES, schema: z.unknown() });
    requireAccept(request, ["application/json", "text/event-stream"]);
    const version = request.headers.get("mcp-protocol-version");
    if (Array.isArray(body) && version !== null && version >= WITHOUT_BATCHES) {
      throw new AppError("invalid_request", `protocol version ${WITHOUT_BATCHES} and later have no batches`);
    }
    if (!await isLegacyRequest(request, body)) {
      return await stateless.fetch(request, { authInfo: endUser, parsedBody: body });
    }
    const isNew = isInitializeRequest(body) && !request.headers.has(SESSION_HEADER);
    const session = isNew ? sessions.open(endUser.name) : findSession(request, endUser);
    return await session.handle(request, endUser, body);
  }

  function findSession(request: Request, { name }: AuthenticatedEndUser): McpSession {
    const id = request.headers.get(SESSION_HEADER);
    if (id === null) throw new AppError("invalid_request", "Mcp-Session-Id header is required");
    return sessions.find(id, name);
  }

  async function get(request: Request, endUser: AuthenticatedEndUser): Promise<Response> {
    requireAccept(request, ["text/event-stream"]);
    const lastEventId = request.headers.get("last-event-id");
    if (lastEventId !== null && !isEventId(lastEventId)) {
      throw new AppError("invalid_request", "Last-Event-ID is not from this server");
    }
    const session = findSession(request, endUser);
    if (lastEventId !== null) endUser.exchange.add(budget.take(endUser.name, "resumed streams"));
    return await session.handle(request, endUser);
  }

  async function leave(request: Request, endUser: AuthenticatedEndUser): Promise<Response> {
    await sessions.end(findSession(request, endUser));
    return new Response(null, { status: 204 });
  }

  const methods = new Map([["GET", get], ["POST", post], ["DELETE", leave]]);

  return {
    /** Answers one request, and calls `trust` with the name of the end user after the token is verified. */
    async fetch(request: Request, trust?: (name: string) => void): Promise<Response> {
      if (draining) throw new AppError("canceled", "the broker is stopping");
      const { headers } = request;
      // DNS rebinding: a web page can point its own host name to this address.
      if (!validateHostHeader(headers.get("host"), hostnames).ok) {
        throw new AppError("forbidden", "Forbidden: invalid Host header");
      }
      if (publicPaths.has(new URL(request.url).pathname)) return respondToMetadata(request.method, resource);
      // Programs send no Origin header. Pages of other hosts send their own origin, which is rejected.
      if (!validateOriginHeader(headers.get("origin"), hostnames).ok) {
        throw new AppError("forbidden", "Forbidden: invalid Origin header");
      }
      const endUser = await authenticate(request);
      if (!(endUser instanceof AuthenticatedEndUser)) {
        if (endUser.code !== "no_token") options.onRefusal(endUser.reason);
        return challengeResponse(resource, endUser);
      }
      trust?.(endUser.name);
      const { exchange } = endUser;
      using failed = new DisposableStack();
      failed.use(exchange);
      exchange.add(budget.take(endUser.name, "requests"));
      const method = methods.get(request.method);
      const response = method === undefined
        ? refuseMethod([...methods.keys()])
        : await method(request, endUser);
      failed.move();
      return exchange.endWith(response);
    },
    /** Rejects further requests, and ends the streams without an answer, so that a listener can close. */
    drain(): void {
      draining = true;
      sessions.endStandingStreams();
    },
    async close(): Promise<void> {
      draining = true;
      endAnnouncing();
      await Promise.all([sessions.close(), stateless.close()]);
    },
  };
}

function endUserOf(authInfo: AuthInfo | undefined): AuthenticatedEndUser {
  if (authInfo instanceof AuthenticatedEndUser) return authInfo;
  throw new TypeError("A call came without its end user");
}

function requireAccept({ headers }: Request, types: readonly string[]): void {
  if (accepts(headers.get("accept"), types)) return;
  throw new AppError("invalid_request", `Accept must allow ${types.join(" and ")}`);
}

/** Whether an `Accept` header allows all of these media types (RFC 9110 section 12.5.1). */
export function accepts(header: string | null, types: readonly string[]): boolean {
  const ranges = (header ?? "").split(",").map((range) => range.split(";", 1)[0]?.trim().toLowerCase());
  return types.every((type) =>
    [type, `${type.split("/", 1)[0]}/*`, "*/*"].some((range) => ranges.includes(range))
  );
}

/** Makes each `bigint` writable as its digits: the MCP library encodes its HTTP answers with `JSON.stringify`. */
function exactNumbers(value: unknown): unknown {
  if (typeof value === "bigint") return writableBigint(value);
  if (Array.isArray(value)) return value.map(exactNumbers);
  return typeof value !== "object" || value === null ? value : exactMembers(value);
}

export function exactMembers(object: object): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(object).map(([key, member]) => [key, exactNumbers(member)]));
}
