import type { StdioStreams } from "../frontends/mcp_stdio.ts";

/** The client side of the standard streams. */
export class LinePipe {
  readonly streams: StdioStreams;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;
  readonly #output: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  #text = "";

  constructor() {
    const input = new TransformStream<Uint8Array, Uint8Array>();
    const output = new TransformStream<Uint8Array, Uint8Array>(undefined, undefined, { highWaterMark: 1024 });
    this.streams = { input: input.readable, output: output.writable };
    this.#input = input.writable.getWriter();
    this.#output = output.readable.getReader();
  }

  async send(line: string): Promise<void> {
    await this.sendBytes(new TextEncoder().encode(`${line}\n`));
  }

  async sendBytes(bytes: Uint8Array): Promise<void> {
    await this.#input.write(bytes);
  }

  /** The next written line, without its line end. */
  async line(): Promise<string> {
    for (;;) {
      const end = this.#text.indexOf("\n");
      if (end !== -1) {
        const line = this.#text.slice(0, end);
        this.#text = this.#text.slice(end + 1);
        return line;
      }
      const { done, value } = await this.#output.read();
      if (done) throw new Error(`Output ended after ${JSON.stringify(this.#text)}`);
      this.#text += this.#decoder.decode(value, { stream: true });
    }
  }

  /** Closes the client's side of the input. */
  async end(): Promise<void> {
    await this.#input.close();
  }

  /** Stops reading, like a crashed client. */
  async closeOutput(): Promise<void> {
    await this.#output.cancel();
  }
}
