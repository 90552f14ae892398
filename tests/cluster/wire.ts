/** A TCP connection with network faults: lost bytes in one or both directions, delays and resets. */
import type { Buffer } from "node:buffer";
import { connect, createServer, type Server, type Socket } from "node:net";
import { freePort } from "../stage/free_port.ts";

/** The effect of a wire on its bytes. Held bytes are forwarded after the repair. */
export type WireFault = "holds both" | "holds requests" | "holds answers" | "resets" | "is slow";

/** Forwards to a port of this machine, which can be changed. */
export class Wire implements AsyncDisposable {
  readonly port: number = freePort();
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  target: number;
  #fault: WireFault | undefined;
  #delayMs = 0;
  #mended = Promise.withResolvers<void>();

  private constructor(target: number) {
    this.target = target;
    this.#server = createServer((near) => this.#join(near));
  }

  static async open(target: number): Promise<Wire> {
    const wire = new Wire(target);
    await new Promise<void>((resolve) => wire.#server.listen(wire.port, "127.0.0.1", resolve));
    return wire;
  }

  /** Breaks the wire until {@linkcode mend}. With `is slow`, all bytes are delayed by this time. */
  break(fault: WireFault, delayMs = 0): void {
    this.#fault = fault;
    this.#delayMs = delayMs;
    if (fault === "resets") this.cut();
  }

  /** Repairs the wire and forwards the held bytes. */
  mend(): void {
    this.#fault = undefined;
    this.#mended.resolve();
    this.#mended = Promise.withResolvers();
  }

  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.mend();
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #join(near: Socket): void {
    if (this.#fault === "resets") return void near.resetAndDestroy();
    const far = connect({ host: "127.0.0.1", port: this.target });
    this.#pass(near, far, "holds requests");
    this.#pass(far, near, "holds answers");
  }

  #pass(from: Socket, to: Socket, held: WireFault): void {
    this.#sockets.add(from);
    from.on("error", () => {});
    let last: Promise<unknown> = Promise.resolve();
    const inTurn = (action: () => void) => {
      last = last.then(() => this.#hold(held)).then(action);
    };
    from.on("data", (bytes: Buffer) => {
      from.pause();
      inTurn(() => {
        if (!to.destroyed) to.write(bytes);
        from.resume();
      });
    });
    from.on("end", () => inTurn(() => void to.end()));
    from.on("close", () => {
      this.#sockets.delete(from);
      inTurn(() => void to.destroy());
    });
  }

  async #hold(held: WireFault): Promise<void> {
    if (this.#fault === "is slow") {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const late = new Promise<void>((resolve) => timer = setTimeout(resolve, this.#delayMs));
      await Promise.race([late, this.#mended.promise]);
      clearTimeout(timer);
    }
    while (this.#fault === held || this.#fault === "holds both") await this.#mended.promise;
  }
}
