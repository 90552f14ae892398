import { serveStdio } from "@modelcontextprotocol/server/stdio";
import {
  INVALID_REQUEST,
  type JSONRPCMessage,
  PARSE_ERROR,
  parseJSONRPCMessage,
  type Transport,
} from "@modelcontextprotocol/server";
import { AppError } from "@gateway/shared/errors";
import { parseJson, stringifyJson } from "@gateway/shared/json";
import { PausedCalls } from "./elicitation.ts";
import { announceTools, createMcpServer, type McpOptions } from "./mcp_server.ts";
import { OpenRequests } from "./open_requests.ts";
import type { UserBudget } from "./user_budget.ts";

/** The caller over stdio: the user who started the process. Policies, freezes and audit queries use this name. */
const STDIO_CALLER = "mcp-stdio";
const MAX_LINE_BYTES = 10 * 1024 * 1024;

export interface StdioStreams {
  readonly input: ReadableStream<Uint8Array>;
  readonly output: WritableStream<Uint8Array>;
}

export interface McpStdioOptions extends McpOptions, StdioStreams {
  readonly caller?: string;
  /** Bounds for a client that shares its broker with other clients. */
  readonly bounds?: SharedBounds;
  readonly askInChat: boolean;
}

interface SharedBounds {
  readonly maxLineBytes: number;
  /** Awaited before a message of this length, in characters, is parsed. */
  readonly turn: (length: number) => Promise<void>;
  readonly budget: UserBudget;
}

/** Serves one client in its protocol generation: with sessions (`initialize`) or stateless (2026-07-28). */
export function serveMcpStdio(options: McpStdioOptions) {
  const { tools, instructions, onError, clock, bounds, caller = STDIO_CALLER } = options;
  const transport = new StdioTransport(options, bounds);
  const pausedCalls = options.askInChat ? new PausedCalls(options) : undefined;
  const handle = serveStdio(({ era }) => {
    const server = createMcpServer({
      ...{ tools, instructions, onError, clock, era, pausedCalls },
      async run(tool, args, context) {
        using _call = bounds?.budget.take(caller, "calls");
        return await tool.call(args, { ...context, caller, callerGroups: null, bearerToken: undefined });
      },
      onCall: (call) => transport.requests.watch(call),
    });
    announceTools(server, tools);
    return server;
  }, { transport, onerror: options.onProtocolError });
  return {
    ended: transport.ended,
    /** The number of requests without an answer that the client has read. */
    get openRequests() {
      return transport.requests.size;
    },
    async close(): Promise<void> {
      await handle.close();
      await pausedCalls?.close();
    },
  };
}

/**
 * JSON-RPC messages as lines. The SDK's stdio transport (2.4.0) has these faults: it reads with `JSON.parse` and writes
 * with `JSON.stringify`, which fails at a 64-bit serial. It does not answer a line that is not a message, and reads an
 * ID of 64 bits as another ID. It joins all pieces of a line again for each new piece: 9 MiB in pieces of 64 KiB took
 * 7 s, and take 0.05 s here.
 */
export class StdioTransport implements Transport {
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  onmessage?: ((message: JSONRPCMessage) => void) | undefined;
  readonly requests = new OpenRequests();
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #ended = Promise.withResolvers<void>();
  /** Resolves when the input has ended, the output is closed, or the connection was closed here. */
  readonly ended = this.#ended.promise;
  readonly #lines: LineBuffer;
  readonly #turn: SharedBounds["turn"] | undefined;
  #closed = false;

  constructor({ input, output }: StdioStreams, bounds?: SharedBounds) {
    this.#lines = new LineBuffer(bounds?.maxLineBytes ?? MAX_LINE_BYTES);
    this.#turn = bounds?.turn;
    this.#reader = input.getReader();
    this.#writer = output.getWriter();
  }

  start(): Promise<void> {
    this.#pump().catch((error) => this.onerror?.(error)).finally(() => this.close());
    return Promise.resolve();
  }

  async send(message: JSONRPCMessage): Promise<void> {
    await this.#write(message).finally(() => this.requests.sent(message));
  }

  close(): Promise<void> {
    if (!this.#closed) {
      this.#closed = true;
      // Do not await this, because a read of the standard input cannot be ended.
      this.#reader.cancel().catch(() => {});
      this.onclose?.();
      this.#ended.resolve();
    }
    return Promise.resolve();
  }

  async #pump(): Promise<void> {
    for (;;) {
      const { done, value } = await this.#reader.read();
      if (done || this.#closed) return;
      for (const line of this.#lines.push(value)) {
        await this.#turn?.(line.length);
        if (this.#closed) return;
        if (line.trim() !== "") await this.#receive(line);
      }
    }
  }

  async #receive(line: string): Promise<void> {
    let message: JSONRPCMessage;
    try {
      message = parseJSONRPCMessage(parseJson(line));
    } catch (cause) {
      const [text, code, answer] = cause instanceof SyntaxError
        ? ["Line is not JSON", PARSE_ERROR, "Parse error"]
        : ["Line is not a JSON-RPC message", INVALID_REQUEST, "Invalid Request"];
      return await this.#refuse(null, new Error(text, { cause }), { code, message: answer });
    }
    try {
      this.requests.begin([message]);
    } catch (error) {
      if (!(error instanceof AppError) || !("id" in message)) throw error;
      // With the ID, so that a client does not mistake the answer to its first request for this one.
      const refusal = { code: INVALID_REQUEST, message: `Invalid Request: ${error.message}` };
      return await this.#refuse(message.id, error, refusal);
    }
    this.onmessage?.(message);
  }

  async #refuse(id: unknown, reason: Error, error: object): Promise<void> {
    this.onerror?.(reason);
    await this.#write({ jsonrpc: "2.0", id, error });
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
 * Splits bytes into lines. Lines are copied, because a view of one byte would keep the 64 KiB buffer of its
 * chunk in memory.
 */
class LineBuffer {
  readonly #maxBytes: number;
  #kept = new Uint8Array(0);
  #length = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  *push(chunk: Uint8Array): Generator<string> {
    let from = 0;
    for (let end = chunk.indexOf(0x0a); end !== -1; end = chunk.indexOf(0x0a, from)) {
      this.#keep(chunk.subarray(from, end));
      from = end + 1;
      const line = new TextDecoder().decode(this.#kept.subarray(0, this.#length));
      this.#kept = new Uint8Array(0);
      this.#length = 0;
      yield line;
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
}
