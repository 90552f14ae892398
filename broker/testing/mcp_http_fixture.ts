import assert from "node:assert/strict";
import { AppError, type ErrorCode } from "@gateway/shared/errors";
import { type EndUserResult, refuse } from "@gateway/shared/oidc";
import { parseJson } from "@gateway/shared/json";
import { FakeClock } from "@gateway/shared/testing";
import { createMcpHttp } from "../frontends/mcp_http.ts";
import { describeTools, type Toolset } from "../tools/toolset.ts";
import { createSshExecuteTool } from "../tools/ssh_commands.ts";
import { createSshListServersTool } from "../tools/ssh_servers.ts";
import type { Tool } from "../tools/tool.ts";
import { BrokerFixture, fixedTools, TEST_LIMITS } from "./broker_fixture.ts";

/** The URL of the frontend in tests. */
const RESOURCE_URL = "https://gateway.example/mcp";

/** Both content types of answers, as clients of the protocol must accept them. */
export const ACCEPT = "application/json, text/event-stream";

export interface TestRequest {
  readonly method?: string;
  /** The user's token, if any. */
  readonly token?: string;
  readonly session?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly path?: string;
  readonly signal?: AbortSignal;
}

/**
 * The MCP frontend over HTTP without network. Valid tokens are `name` or `name:group,group`; `bad` is
 * invalid.
 */
export class McpHttpFixture implements AsyncDisposable {
  readonly broker = new BrokerFixture();
  readonly clock = new FakeClock();
  readonly faults: unknown[] = [];
  readonly refusals: string[] = [];
  readonly protocolErrors: string[] = [];
  readonly frontend: ReturnType<typeof createMcpHttp>;
  #random = 0;

  constructor(options: { readonly tools?: readonly Tool[]; readonly toolset?: Toolset } = {}) {
    this.frontend = createMcpHttp({
      tools: options.toolset ?? fixedTools(
        options.tools ?? [
          createSshListServersTool(this.broker),
          createSshExecuteTool(this.broker),
        ],
      ),
      instructions: describeTools(TEST_LIMITS),
      resource: { resourceUrl: RESOURCE_URL, issuer: "https://login.example", scopes: ["mcp"] },
      verifier: { verify: (token) => Promise.resolve(readTestToken(token)) },
      clock: this.clock,
      random: { bytes: (length) => new Uint8Array(length).fill(this.#random++) },
      onError: (error) => this.faults.push(error),
      onProtocolError: (error) => this.protocolErrors.push(error.message),
      onRefusal: (reason) => this.refusals.push(reason),
    });
  }

  /** Sends a request with a JSON body, or a GET request if there is no body. */
  send({ method, token, session, headers, body, path = "/mcp", signal }: TestRequest): Promise<Response> {
    const request = new Request(`https://localhost${path}`, {
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers: {
        host: "gateway.example",
        accept: ACCEPT,
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(session === undefined ? {} : { "mcp-session-id": session }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
    return this.frontend.fetch(request);
  }

  /** The error of a rejected request, which the listener turns into a response. */
  async refusalOf(request: TestRequest): Promise<{ readonly code: ErrorCode; readonly message: string }> {
    const error = await this.send(request).then(() => undefined, (error) => error);
    assert.ok(error instanceof AppError, "was served");
    return { code: error.code, message: error.message };
  }

  /** Opens a session and returns its ID. */
  async open(token: string, protocolVersion = "2025-11-25"): Promise<string> {
    const response = await this.send({ token, body: initialize(protocolVersion) });
    await response.text();
    const session = response.headers.get("mcp-session-id") ?? "";
    await (await this.send({ token, session, body: INITIALIZED })).text();
    return session;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.frontend.close();
  }
}

/** The request that opens a session. */
export function initialize(protocolVersion = "2025-11-25"): object {
  const params = { protocolVersion, capabilities: {}, clientInfo: { name: "test", version: "1" } };
  return { jsonrpc: "2.0", id: 0, method: "initialize", params };
}

export function rpc(id: number | string, method: string, params: object = {}): object {
  return { jsonrpc: "2.0", id, method, params };
}

/** The notification of a client after its session is open. */
export const INITIALIZED = { jsonrpc: "2.0", method: "notifications/initialized" };

/** Requests the tool list within a session. */
export const LIST = rpc(1, "tools/list");

/** The parameters of a call that runs `uptime` on `web01`. */
export const CALL = { name: "ssh_execute", arguments: { server: "web01", command: "uptime" } };

/** {@linkcode CALL} within a session, with the id 7. */
export const CALL_RPC = rpc(7, "tools/call", CALL);

/** A request of the stateless generation; also needs {@linkcode statelessHeaders}. */
export function statelessRpc(id: number, method: string, params: object = {}): object {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  return rpc(id, method, { ...params, _meta });
}

/** The headers that repeat fields of a stateless request. */
export function statelessHeaders(method: string, name?: string): Record<string, string> {
  return {
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": method,
    ...(name === undefined ? {} : { "mcp-name": name }),
  };
}

export interface ServerEvent {
  readonly id?: string;
  /** The message. Absent in an event that only announces its ID. */
  readonly data?: unknown;
}

/** Parses a `text/event-stream` text into events. */
export function parseEvents(text: string): readonly ServerEvent[] {
  return text.split("\n\n").filter((block) => block !== "" && !block.startsWith(":")).map((block) => {
    const fields = new Map(
      block.split("\n").map((line) => {
        const at = line.indexOf(": ");
        return [line.slice(0, at), line.slice(at + 2)];
      }),
    );
    const [id, data] = [fields.get("id"), fields.get("data")];
    return {
      ...(id === undefined ? {} : { id }),
      ...(data === undefined || data === "" ? {} : { data: parseJson(data) }),
    };
  });
}

/** Reads the given number of events from a stream and leaves the rest unread. */
export async function readEvents(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  count: number,
): Promise<readonly ServerEvent[]> {
  let text = "";
  while (parseEvents(text).length < count || !text.endsWith("\n\n")) {
    const { done, value } = await reader.read();
    if (done) throw new Error(`stream ended after ${JSON.stringify(text)}`);
    text += new TextDecoder().decode(value);
  }
  return parseEvents(text);
}

function readTestToken(token: string): EndUserResult {
  if (token === "bad") return refuse("token expired");
  if (token === "poor") return refuse("insufficient scope", "insufficient_scope");
  const [endUser = "", groups] = token.split(":");
  return {
    kind: "verified",
    endUser,
    groups: groups === undefined ? null : groups.split(",").filter(Boolean),
  };
}
