export interface McpCommand {
  /** By default Deno. */
  readonly program?: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** `broker serve-mcp` as started by a client. Tests exchange raw lines with it. */
export class McpProcess implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;
  readonly #output: ReadableStreamDefaultReader<string>;
  readonly #logged: Promise<void>;
  #text = "";
  #log = "";
  #id = 0;
  #ended = false;

  constructor({ program = Deno.execPath(), args, env, ...options }: McpCommand) {
    this.#child = new Deno.Command(program, {
      ...options,
      args: [...args],
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
      env: { NO_COLOR: "1", ...env },
    }).spawn();
    this.#input = this.#child.stdin.getWriter();
    this.#output = this.#child.stdout.pipeThrough(new TextDecoderStream()).getReader();
    this.#logged = this.#collect(this.#child.stderr);
  }

  /** Starts a broker and initializes the connection. */
  static async start(command: McpCommand): Promise<McpProcess> {
    const mcp = new McpProcess(command);
    await mcp.initialize();
    return mcp;
  }

  get pid(): number {
    return this.#child.pid;
  }

  get log(): string {
    return this.#log;
  }

  async initialize(capabilities: object = {}) {
    const answer = await this.request("initialize", {
      protocolVersion: "2025-11-25",
      capabilities,
      clientInfo: { name: "test", version: "1" },
    });
    await this.notify("notifications/initialized", {});
    return JSON.parse(answer).result;
  }

  /** Sends a request and returns the raw line of its answer. */
  async request(method: string, params: object): Promise<string> {
    await this.start(method, params);
    return await this.line();
  }

  async call(name: string, args: object) {
    return JSON.parse(await this.request("tools/call", { name, arguments: args })).result;
  }

  /** Sends a request without waiting for its answer and returns its ID. */
  async start(method: string, params: object): Promise<number> {
    this.#id += 1;
    const id = this.#id;
    await this.send({ jsonrpc: "2.0", id, method, params });
    return id;
  }

  async notify(method: string, params: object): Promise<void> {
    await this.send({ jsonrpc: "2.0", method, params });
  }

  async respond(id: unknown, result: object): Promise<void> {
    await this.send({ jsonrpc: "2.0", id, result });
  }

  async line(): Promise<string> {
    while (!this.#text.includes("\n")) {
      const { done, value } = await this.#output.read();
      if (done) throw new Error(`broker ended: ${this.#log}`);
      this.#text += value;
    }
    const end = this.#text.indexOf("\n");
    const line = this.#text.slice(0, end);
    this.#text = this.#text.slice(end + 1);
    return line;
  }

  kill(signal: Deno.Signal): void {
    this.#child.kill(signal);
  }

  /** Closes the client side and returns the exit code. */
  async end(): Promise<number> {
    await this.#input.close().catch(() => {});
    return await this.ended();
  }

  /** Waits until the process ends and returns the exit code. */
  async ended(): Promise<number> {
    const { code } = await this.#child.status;
    this.#ended = true;
    await this.#input.abort().catch(() => {});
    await this.#output.cancel();
    await this.#logged;
    return code;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#ended) return;
    this.kill("SIGKILL");
    await this.ended();
  }

  async send(message: object): Promise<void> {
    await this.#input.write(new TextEncoder().encode(`${JSON.stringify(message)}\n`));
  }

  async #collect(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    for await (const bytes of stream) this.#log += decoder.decode(bytes, { stream: true });
  }
}
