import {
  type AuthInfo,
  createMcpHandler,
  isInitializeRequest,
  isLegacyRequest,
} from "@modelcontextprotocol/server";
import * as z from "@zod/zod";
import type { Clock, Random } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { readJsonBody, requireJsonType } from "@gateway/shared/http";
import { refuseMethod } from "@gateway/shared/http/routes";
import { writableBigint } from "@gateway/shared/json";
import type { EndUserVerifier } from "@gateway/shared/oidc";
import {
  AuthenticatedEndUser,
  type BearerRefusal,
  callerOf,
  challengeResponse,
  readBearer,
} from "./oauth/bearer.ts";
import { metadataPaths, metadataUrl, type ProtectedResource, respondToMetadata } from "./oauth/metadata.ts";
import type { Tool } from "../tools/tool.ts";
import type { Toolset } from "../tools/toolset.ts";
import { AnswerRoom, RequestAnswers } from "./answer_room.ts";
import { accepts, allowedHostnames, checkBatch, checkHost, checkOrigin } from "./http_headers.ts";
import { announceTools, createMcpServer, type McpServerOptions } from "./mcp_server.ts";
import type { McpSession } from "./mcp_session.ts";
import { isEventId } from "./kept_events.ts";
import { McpSessions } from "./mcp_sessions.ts";
import { limitCalls, MAX_CALLS, MAX_EXCHANGES, MAX_RESUMED, UserLimit } from "./user_limit.ts";
import { watchEnd } from "./watched_response.ts";

/** The largest request body, in bytes: what a file transfer's content needs. */
export const MAX_BODY_BYTES = 1 << 20;

/** What this frontend adds to the limits that a model is told. */
const HTTP_LIMITS =
  `Over HTTP a user has at most ${MAX_CALLS} calls at once, and a request ${MAX_BODY_BYTES} bytes.`;

const SESSION_HEADER = "mcp-session-id";

/** What the MCP frontend over HTTP needs. */
interface McpHttpOptions {
  readonly tools: Toolset;
  /** What the model is told about all of them. */
  readonly instructions: string;
  readonly resource: ProtectedResource;
  readonly verifier: Pick<EndUserVerifier, "verify">;
  readonly clock: Clock;
  readonly random: Random;
  /** Told of every fault of a call; its text is not for the model. */
  readonly onError: (error: unknown) => void;
  /** Told of messages that are refused. */
  readonly onProtocolError: (error: Error) => void;
  /** Told why a token is refused; nothing of the token stands in it. */
  readonly onRefusal: (reason: string) => void;
}

/** The MCP frontend over HTTP. */
export interface McpHttp {
  /**
   * Answers one request. What it throws is for the listener to answer.
   *
   * @param trust called with the name of the end user when its token is found to be good
   */
  fetch(request: Request, trust?: (name: string) => void): Promise<Response>;
  /** Takes no more requests, and ends the streams on which nobody waits for an answer: a listener can close. */
  drain(): void;
  /** Ends all sessions; what runs is cancelled, and has ended when this resolves. */
  close(): Promise<void>;
}

/**
 * Serves MCP to clients that bring a token of an OpenID provider with every request: in sessions (protocol
 * revisions up to 2025-11-25), or stateless (2026-07-28).
 */
export function createMcpHttp(options: McpHttpOptions): McpHttp {
  const { resource, onProtocolError } = options;
  const hostnames = allowedHostnames(resource.resourceUrl);
  const publicPaths = metadataPaths(resource.resourceUrl);
  const challenge = { metadataUrl: metadataUrl(resource.resourceUrl), scopes: resource.scopes };
  const exchanges = new UserLimit(MAX_EXCHANGES, "requests");
  const resumed = new UserLimit(MAX_RESUMED, "resumed streams");
  const room = new AnswerRoom();
  const answersOf = new WeakMap<AuthInfo, RequestAnswers>();
  const calls = new Set<Promise<unknown>>();
  let draining = false;
  const tools: Toolset = {
    ...options.tools,
    tools: limitCalls(options.tools.tools).map(withExactNumbers),
  };
  const serverFor = (era: McpServerOptions["era"], onCall?: McpServerOptions["onCall"]) =>
    createMcpServer({
      tools,
      instructions: `${options.instructions} ${HTTP_LIMITS}`,
      caller(authInfo) {
        const answers = authInfo === undefined ? undefined : answersOf.get(authInfo);
        if (answers === undefined) throw new TypeError("A call came without its request");
        return { ...callerOf(authInfo), holdAnswer: (length, signal) => answers.hold(length, signal) };
      },
      era,
      clock: options.clock,
      onError: options.onError,
      onCall(call) {
        const { ended } = call;
        calls.add(ended);
        const forget = () => calls.delete(ended);
        ended.then(forget, forget);
        onCall?.(call);
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

  async function authenticate(request: Request): Promise<AuthenticatedEndUser | Response> {
    const refuse = (refusal: BearerRefusal) => {
      if (refusal.code !== "no_token") options.onRefusal(refusal.reason);
      return challengeResponse(challenge, refusal);
    };
    const bearer = readBearer(request);
    switch (bearer.kind) {
      case "missing":
        return refuse({ code: "no_token" });
      case "in_url":
        return refuse({ code: "invalid_request", reason: "a token must not be in the URL" });
      case "token": {
        const result = await options.verifier.verify(bearer.token);
        return result.kind === "verified" ? new AuthenticatedEndUser(bearer.token, result) : refuse(result);
      }
      default:
        return bearer satisfies never;
    }
  }

  async function post(request: Request, endUser: AuthenticatedEndUser): Promise<Response> {
    requireJsonType(request);
    const body = await readJsonBody(request, { maxBytes: MAX_BODY_BYTES, schema: z.unknown() });
    if (!accepts(request.headers.get("accept"), ["application/json", "text/event-stream"])) {
      throw new AppError("invalid_request", "Accept must allow application/json and text/event-stream");
    }
    checkBatch(request.headers, body);
    if (!await isLegacyRequest(request, body)) {
      return await stateless.fetch(request, { authInfo: endUser, parsedBody: body });
    }
    if (isInitializeRequest(body) && !request.headers.has(SESSION_HEADER)) {
      return await sessions.open(endUser.name).handle({ request, authInfo: endUser, body });
    }
    return await findSession(request, endUser).handle({ request, authInfo: endUser, body });
  }

  function findSession(request: Request, { name }: AuthenticatedEndUser): McpSession {
    const id = request.headers.get(SESSION_HEADER);
    if (id === null) throw new AppError("invalid_request", "Mcp-Session-Id header is required");
    return sessions.find(id, name);
  }

  async function get(request: Request, endUser: AuthenticatedEndUser): Promise<Response> {
    if (!accepts(request.headers.get("accept"), ["text/event-stream"])) {
      throw new AppError("invalid_request", "Accept must allow text/event-stream");
    }
    const lastEventId = request.headers.get("last-event-id");
    if (lastEventId !== null && !isEventId(lastEventId)) {
      throw new AppError("invalid_request", "Last-Event-ID is not one of this server's");
    }
    const session = findSession(request, endUser);
    if (lastEventId === null) return await session.handle({ request, authInfo: endUser });
    const end = resumed.begin(endUser.name);
    return await answering(() => session.handle({ request, authInfo: endUser }), end);
  }

  async function leave(request: Request, endUser: AuthenticatedEndUser): Promise<Response> {
    await sessions.end(findSession(request, endUser));
    return new Response(null, { status: 204 });
  }

  const methods = new Map([["GET", get], ["POST", post], ["DELETE", leave]]);

  async function serve(request: Request, endUser: AuthenticatedEndUser): Promise<Response> {
    const method = methods.get(request.method);
    return method === undefined ? refuseMethod([...methods.keys()]) : await method(request, endUser);
  }

  return {
    async fetch(request, trust) {
      if (draining) throw new AppError("canceled", "the broker is stopping");
      checkHost(request.headers, hostnames);
      if (publicPaths.has(new URL(request.url).pathname)) return respondToMetadata(request.method, resource);
      checkOrigin(request.headers, hostnames);
      const endUser = await authenticate(request);
      if (endUser instanceof Response) return endUser;
      trust?.(endUser.name);
      const end = exchanges.begin(endUser.name);
      const answers = new RequestAnswers(room, endUser.name);
      answersOf.set(endUser, answers);
      return await answering(() => serve(request, endUser), () => {
        answers.end();
        end();
      });
    },
    drain() {
      draining = true;
      sessions.endStandingStreams();
    },
    async close() {
      draining = true;
      endAnnouncing();
      await Promise.all([sessions.close(), stateless.close()]);
      await Promise.allSettled(calls);
    },
  };
}

/** Tells when an answer has been taken, or there is none. */
async function answering(answer: () => Promise<Response>, onEnd: () => void): Promise<Response> {
  try {
    return watchEnd(await answer(), onEnd);
  } catch (error) {
    onEnd();
    throw error;
  }
}

function withExactNumbers(tool: Tool): Tool {
  return {
    ...tool,
    async call(args, context) {
      const { text, structured } = await tool.call(args, context);
      return { text, structured: exactMembers(structured) };
    },
  };
}

/**
 * The same value with each `bigint` as something that `JSON.stringify` writes as its digits: the MCP library
 * writes its HTTP answers with that, which by itself knows no `bigint`.
 */
function exactNumbers(value: unknown): unknown {
  if (typeof value === "bigint") return writableBigint(value);
  if (Array.isArray(value)) return value.map(exactNumbers);
  if (typeof value !== "object" || value === null) return value;
  return exactMembers(value);
}

/** {@linkcode exactNumbers} of an object's members. */
export function exactMembers(object: object): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(object).map(([key, member]) => [key, exactNumbers(member)]));
}
