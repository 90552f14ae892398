import { serveStdio } from "@modelcontextprotocol/server/stdio";
import type { Clock, Random } from "@gateway/shared/clock";
import { announceTools, createMcpServer, type McpServerOptions } from "./mcp_server.ts";
import { PausedCalls } from "./paused_calls.ts";
import { AppError } from "@gateway/shared/errors";
import { parseJson, stringifyJson } from "@gateway/shared/json";
import {
  INVALID_REQUEST,
  type JSONRPCMessage,
  PARSE_ERROR,
  parseJSONRPCMessage,
  type Transport,
} from "@modelcontextprotocol/server";
import { OpenRequests } from "./open_requests.ts";

/** Who calls over stdio: the one who started the process; policies, freezes and audit queries use this name. */
const STDIO_CALLER = "mcp-stdio";

export interface McpStdioOptions
  extends Pick<McpServerOptions, "tools" | "instructions" | "onError">, StdioStreams {
  /** Default {@linkcode STDIO_CALLER}. */
  readonly caller?: string;
  /** Absent: the client has the broker for itself. */
  readonly bounds?: SharedBounds;
  readonly clock: Clock;
  readonly random: Random;
  /** Whether the human at the client may be asked for approvals. */
  readonly askInChat: boolean;
  /** Told of lines that are not messages, and of writes that failed. */
  readonly onProtocolError: (error: Error) => void;
}

/** An MCP server on the standard streams. */
export interface McpStdio {
  /** Resolves when the client has closed its end. */
  readonly ended: Promise<void>;
  /** How many requests are under way or have an answer that the client has not taken. */
  readonly openRequests: number;
  /** Ends the connection; what runs is cancelled, and has ended when this resolves. */
  close(): Promise<void>;
}

/**
 * Serves one client, in whichever protocol generation it opens with: with sessions (`initialize`) or stateless
 * (2026-07-28).
 */
export function serveMcpStdio(options: McpStdioOptions): McpStdio {
  const transport = new StdioTransport(options, options.bounds);
  const { caller = STDIO_CALLER } = options;
  const pausedCalls = new PausedCalls(options);
  const calls = new Set<Promise<unknown>>();
  const handle = serveStdio(({ era }) => {
    const server = createMcpServer({
      tools: options.tools,
      instructions: options.instructions,
      caller: () => ({ caller, callerGroups: null, bearerToken: undefined }),
      era,
      clock: options.clock,
      ...(options.askInChat ? { chat: { pausedCalls } } : {}),
      onCall(call) {
        transport.requests.watch(call);
        const { ended } = call;
        calls.add(ended);
        const forget = () => calls.delete(ended);
        ended.then(forget, forget);
      },
      onError: options.onError,
    });
    announceTools(server, options.tools);
    return server;
  }, { transport, onerror: options.onProtocolError });
  return {
    ended: transport.ended,
    get openRequests() {
      return transport.requests.size;
    },
    async close() {
      await handle.close();
      await pausedCalls.close();
      await Promise.allSettled(calls);
    },
  };
}

/** The longest line that is accepted, in bytes. */
const MAX_LINE_BYTES = 10 * 1024 * 1024;

/** The two ends of the connection. */
export interface StdioStreams {
  readonly input: ReadableStream<Uint8Array>;
  readonly output: WritableStream<Uint8Array>;
}

/** What bounds a client that shares its broker with others. */
interface SharedBounds {
  /** The longest line that is accepted, in bytes. */
  readonly maxLineBytes: number;
  /** Awaited before a message of so many characters is parsed. */
  readonly turn: (length: number) => Promise<void>;
}

/**
 * JSON-RPC messages as lines. In place of the SDK's stdio transport (2.4.0), because that one reads with `JSON.parse`
 * past the one door for JSON and writes with `JSON.stringify`, which fails at a 64-bit serial; answers nothing to a line
 * that is not a message, and takes an id of 64 bits for another one; and puts all that it has of a line together again
 * for each piece that comes: 9 MiB in pieces of 64 KiB took it 7 s, here they take 0.05 s.
 */
export class StdioTransport implements Transport {
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  onmessage?: ((message: JSONRPCMessage) => void) | undefined;
  readonly requests = new OpenRequests();
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #ended = Promise.withResolvers<void>();
  readonly #lines: LineBuffer;
  readonly #turn: SharedBounds["turn"] | undefined;
  #closed = false;

  constructor({ input, output }: StdioStreams, bounds?: SharedBounds) {
    this.#lines = new LineBuffer(bounds?.maxLineBytes ?? MAX_LINE_BYTES);
    this.#turn = bounds?.turn;
    this.#reader = input.getReader();
    this.#writer = output.getWriter();
  }

  /** Resolves when the connection is over: the input has ended, the output is gone, or it was closed here. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  start(): Promise<void> {
    this.#pump().catch((error) => this.onerror?.(toError(error))).finally(() => this.close());
    return Promise.resolve();
  }

  async send(message: JSONRPCMessage): Promise<void> {
    await this.#write(message).finally(() => this.requests.sent(message));
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    // Not awaited: a read of the standard input that is under way can't be ended.
    this.#reader.cancel().catch(() => {});
    this.onclose?.();
    this.#ended.resolve();
    await Promise.resolve();
  }

  async #pump(): Promise<void> {
    for (;;) {
      const { done, value } = await this.#reader.read();
      if (done || this.#closed) return;
      for (const line of this.#lines.push(value)) {
        await this.#turn?.(line.length);
        if (this.#closed) return;
        await this.#receive(line);
      }
    }
  }

  async #receive(line: string): Promise<void> {
    if (line.trim() === "") return;
    let message: JSONRPCMessage;
    try {
      message = parseJSONRPCMessage(parseJson(line));
    } catch (cause) {
      const isJson = !(cause instanceof SyntaxError);
      this.onerror?.(new Error(isJson ? "Line is not a JSON-RPC message" : "Line is not JSON", { cause }));
      const error = isJson
        ? { code: INVALID_REQUEST, message: "Invalid Request" }
        : { code: PARSE_ERROR, message: "Parse error" };
      await this.#write({ jsonrpc: "2.0", id: null, error });
      return;
    }
    try {
      this.requests.begin([message]);
    } catch (error) {
      if (!(error instanceof AppError) || !("id" in message)) throw error;
      this.onerror?.(error);
      // With its own id: a client that has lost its first request of that id must not take that one's answer for this.
      const refusal = { code: INVALID_REQUEST, message: `Invalid Request: ${error.message}` };
      await this.#write({ jsonrpc: "2.0", id: message.id, error: refusal });
      return;
    }
    this.onmessage?.(message);
  }

  async #write(message: unknown): Promise<void> {
    if (this.#closed) return;
    try {
      await this.#writer.write(new TextEncoder().encode(`${stringifyJson(message)}\n`));
    } catch (error) {
      await this.close();
      throw error;
    }
  }
}

/**
 * Splits a stream of bytes into lines. It copies what it keeps: a chunk that is read holds its whole buffer, so that a
 * client that sends byte by byte would hold 64 KiB for each byte.
 */
class LineBuffer {
  readonly #maxBytes: number;
  #kept = new Uint8Array(0);
  #length = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The lines that this chunk completes. */
  *push(chunk: Uint8Array): Generator<string> {
    let from = 0;
    for (let end = chunk.indexOf(0x0a); end !== -1; end = chunk.indexOf(0x0a, from)) {
      this.#keep(chunk.subarray(from, end));
      from = end + 1;
      yield this.#take();
    }
    this.#keep(chunk.subarray(from));
  }

  #keep(part: Uint8Array): void {
    const length = this.#length + part.length;
    if (length > this.#maxBytes) throw new Error(`Message is longer than ${this.#maxBytes} bytes`);
    if (length > this.#kept.length) {
      const larger = new Uint8Array(Math.max(length, 2 * this.#kept.length));
      larger.set(this.#kept.subarray(0, this.#length));
      this.#kept = larger;
    }
    this.#kept.set(part, this.#length);
    this.#length = length;
  }

  #take(): string {
    const text = new TextDecoder().decode(this.#kept.subarray(0, this.#length));
    this.#kept = new Uint8Array(0);
    this.#length = 0;
    return text;
  }
}

function toError(value: unknown): Error {
  return value instanceof Error ? value : new Error(String(value));
}
