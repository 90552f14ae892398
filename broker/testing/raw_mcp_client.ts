import assert from "node:assert/strict";
import { systemRandom } from "@gateway/shared/clock";
import { FakeClock } from "@gateway/shared/testing";
import { serveMcpStdio } from "../frontends/mcp_stdio.ts";
import { describeTools, type Toolset } from "../tools/toolset.ts";
import { createSshExecuteTool } from "../tools/ssh_commands.ts";
import { createSshListServersTool } from "../tools/ssh_servers.ts";
import { BrokerFixture, fixedTools, TEST_LIMITS } from "./broker_fixture.ts";
import { LinePipe } from "./line_pipe.ts";

/** The protocol generations: with sessions, and stateless. */
export const GENERATIONS = ["2025-11-25", "2026-07-28"] as const;
/** One of {@linkcode GENERATIONS}. */
export type Generation = (typeof GENERATIONS)[number];

/** The capabilities of the client and the settings of the broker. */
export interface RawMcpClientOptions {
  readonly capabilities?: object;
  readonly askInChat?: boolean;
  readonly tools?: Toolset;
}

/** A client of the stdio frontend that writes and reads raw lines. */
export class RawMcpClient implements AsyncDisposable {
  readonly broker = new BrokerFixture();
  readonly clock = new FakeClock();
  readonly faults: unknown[] = [];
  readonly #pipe = new LinePipe();
  readonly #generation: Generation;
  readonly #capabilities: object;
  readonly #server: ReturnType<typeof serveMcpStdio>;
  #id = 0;

  constructor(generation: Generation, options: RawMcpClientOptions = {}) {
    this.#generation = generation;
    this.#capabilities = options.capabilities ?? {};
    this.#server = serveMcpStdio({
      ...this.#pipe.streams,
      tools: options.tools ?? fixedTools([
        createSshListServersTool(this.broker),
        createSshExecuteTool(this.broker),
      ]),
      instructions: describeTools(TEST_LIMITS),
      clock: this.clock,
      random: systemRandom,
      askInChat: options.askInChat ?? true,
      onError: (error) => this.faults.push(error),
      onProtocolError: (error) => this.faults.push(error),
    });
  }

  /** Creates a client and opens its connection. */
  static async connect(generation: Generation, options?: RawMcpClientOptions): Promise<RawMcpClient> {
    const client = new RawMcpClient(generation, options);
    await client.open();
    return client;
  }

  /** Sends the messages that the generation requires first. */
  async open(): Promise<void> {
    if (this.#generation === "2026-07-28") return;
    await this.initialize(this.#generation);
    await this.notify("notifications/initialized", {});
  }

  async initialize(protocolVersion: string) {
    return await this.request("initialize", {
      protocolVersion,
      capabilities: this.#capabilities,
      clientInfo: { name: "test", version: "1" },
    });
  }

  /** Sends a request and returns the raw line of its answer. */
  async requestLine(method: string, params: object = {}): Promise<string> {
    await this.start(method, params);
    return await this.#pipe.line();
  }

  /** The next message from the server. */
  async message() {
    return JSON.parse(await this.#pipe.line());
  }

  /** Answers a request of the server. */
  async answer(id: unknown, result: unknown): Promise<void> {
    await this.#send({ jsonrpc: "2.0", id, result });
  }

  async request(method: string, params: object = {}) {
    return JSON.parse(await this.requestLine(method, params));
  }

  /** Sends a request without waiting for its answer. */
  async start(method: string, params: object = {}): Promise<number> {
    this.#id += 1;
    await this.#send({ jsonrpc: "2.0", id: this.#id, method, params: this.#dress(params) });
    return this.#id;
  }

  /** Sends a request with the given ID. */
  async startAs(id: number, method: string, params: object): Promise<void> {
    await this.#send({ jsonrpc: "2.0", id, method, params: this.#dress(params) });
  }

  /** Sends any JSON as a line. */
  async sendRaw(value: object): Promise<void> {
    await this.#send(value);
  }

  async notify(method: string, params: object): Promise<void> {
    await this.#send({ jsonrpc: "2.0", method, params: this.#dress(params) });
  }

  async call(name: string, args?: object) {
    const { result } = await this.request("tools/call", {
      name,
      ...(args === undefined ? {} : { arguments: args }),
    });
    return result;
  }

  async end(): Promise<void> {
    await this.#pipe.end();
    await this.#server.ended;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.end();
  }

  get server() {
    return this.#server;
  }

  #dress(params: object): object {
    if (this.#generation !== "2026-07-28") return params;
    const meta = "_meta" in params && typeof params._meta === "object" ? params._meta : {};
    return {
      ...params,
      _meta: {
        ...meta,
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": this.#capabilities,
      },
    };
  }

  async #send(message: object): Promise<void> {
    await this.#pipe.send(JSON.stringify(message));
  }
}

/** Waits for a condition that has no promise. */
export async function until(isSo: () => boolean): Promise<void> {
  for (let turn = 0; !isSo(); turn++) {
    assert.ok(turn < 10_000, "did not come about");
    await new Promise((resolve) => setImmediate(resolve));
  }
}
