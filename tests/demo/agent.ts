import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { denoDir } from "../stage/deno_dir.ts";
import type { ServiceCommand } from "../stage/service_command.ts";

/** The text of a tool result, as the model reads it. */
export interface ToolAnswer {
  readonly isError: boolean;
  readonly text: string;
}

/** Limit of the broker's stderr, which is shown if the broker does not start. */
const STDERR_LIMIT = 4096;

/** An agent at the broker's stdio frontend, through the official MCP client. */
export class Agent {
  readonly #client: Client;
  readonly #transport: StdioClientTransport;
  readonly #signal: AbortSignal;

  private constructor(client: Client, transport: StdioClientTransport, signal: AbortSignal) {
    this.#client = client;
    this.#transport = transport;
    this.#signal = signal;
  }

  /** Process ID of the agent's broker. */
  get pid(): number {
    return this.#transport.pid ?? 0;
  }

  /** Starts the broker as an MCP client does, and initializes. The signal cancels pending calls. */
  static async start(
    broker: Pick<ServiceCommand, "args"> & { readonly command?: string },
    signal: AbortSignal,
  ): Promise<Agent> {
    const client = new Client({ name: "demo-agent", version: "1.0.0" });
    const transport = new StdioClientTransport({
      command: broker.command ?? Deno.execPath(),
      args: [...broker.args],
      // An MCP client passes few variables to servers. Without DENO_DIR, Deno would not find its packages.
      env: { DENO_DIR: denoDir() },
      stderr: "pipe",
    });
    let stderr = "";
    transport.stderr?.on("data", (bytes: Uint8Array) => {
      if (stderr.length < STDERR_LIMIT) stderr += new TextDecoder().decode(bytes);
    });
    try {
      await client.connect(transport);
    } catch (error) {
      throw new Error(`The broker did not start: ${String(error)}\n${stderr}`, { cause: error });
    }
    return new Agent(client, transport, signal);
  }

  async callTool(name: string, args: Record<string, unknown>): Promise<ToolAnswer> {
    const options = { signal: this.#signal };
    const result = await this.#client.callTool({ name, arguments: args }, options);
    const text = result.content.map((block) => block.type === "text" ? block.text : "").join("\n");
    return { isError: result.isError === true, text };
  }

  /** Runs a command on a host. */
  async execute(server: string, command: string): Promise<ToolAnswer> {
    return await this.callTool("ssh_execute", { server, command });
  }

  /** Stops the agent's broker. */
  async close(): Promise<void> {
    await this.#client.close();
  }
}
