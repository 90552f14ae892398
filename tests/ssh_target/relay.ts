/** A relay to a port of this machine. It can become a black hole that reads bytes and forwards none. */
export class Relay implements AsyncDisposable {
  readonly #listener: Deno.TcpListener;
  readonly #connections = new Set<Deno.TcpConn>();
  readonly #serving: Promise<void>;
  #swallows = false;

  /** @param target the port that it forwards to */
  constructor(target: number) {
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    this.#serving = this.#serve(target);
  }

  get port(): number {
    return this.#listener.addr.port;
  }

  /** Stops forwarding on old and new connections without notifying either side. */
  swallow(): void {
    this.#swallows = true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    for (const connection of this.#connections) this.#close(connection);
    await this.#serving;
  }

  async #serve(target: number): Promise<void> {
    const passing: Promise<void>[] = [];
    for await (const inside of this.#listener) {
      passing.push(this.#connect(inside, target));
    }
    await Promise.all(passing);
  }

  async #connect(inside: Deno.TcpConn, target: number): Promise<void> {
    this.#connections.add(inside);
    const outside = await Deno.connect({ hostname: "127.0.0.1", port: target });
    this.#connections.add(outside);
    await Promise.all([this.#pass(inside, outside), this.#pass(outside, inside)]);
  }

  async #pass(from: Deno.TcpConn, to: Deno.TcpConn): Promise<void> {
    const buffer = new Uint8Array(16_384);
    try {
      for (let count = await from.read(buffer); count !== null; count = await from.read(buffer)) {
        if (this.#swallows) continue;
        for (let rest = buffer.subarray(0, count); rest.length > 0;) {
          rest = rest.subarray(await to.write(rest));
        }
      }
    } catch {
      // The connection was reset, or closed by this side.
    }
    // A black hole does not forward the end of a connection either.
    if (!this.#swallows) this.#close(to);
  }

  #close(connection: Deno.TcpConn): void {
    if (!this.#connections.delete(connection)) return;
    connection.close();
  }
}
