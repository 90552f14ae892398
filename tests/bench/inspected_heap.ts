/** What a process holds on its JavaScript heap, as its inspector tells (Chrome DevTools Protocol). */
export class InspectedHeap implements Disposable {
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, PromiseWithResolvers<Readonly<Record<string, unknown>>>>();
  #id = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => {
      const { id, result, error } = JSON.parse(data);
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error === undefined) waiting?.resolve(result);
      else waiting?.reject(new Error(`The inspector refused: ${error.message}`));
    });
    socket.addEventListener("close", () => {
      for (const { reject } of this.#waiting.values()) reject(new Error("The inspected process has ended"));
    });
  }

  /** Connects to a process that was started with `--inspect` and this `host:port`. */
  static async connect(address: string): Promise<InspectedHeap> {
    const [target] = await (await fetch(`http://${address}/json`)).json();
    const socket = new WebSocket(target.webSocketDebuggerUrl);
    await new Promise((resolve, reject) => {
      socket.addEventListener("open", resolve, { once: true });
      socket.addEventListener("error", reject, { once: true });
    });
    return new InspectedHeap(socket);
  }

  /** Collects all garbage, and gives how many bytes are left. */
  async liveBytes(): Promise<number> {
    // What finalizers let go of is garbage only now.
    for (let time = 0; time < 2; time++) await this.#send("HeapProfiler.collectGarbage");
    const { usedSize } = await this.#send("Runtime.getHeapUsage");
    return Number(usedSize);
  }

  [Symbol.dispose](): void {
    this.#socket.close();
  }

  #send(method: string): Promise<Readonly<Record<string, unknown>>> {
    this.#id += 1;
    const answer = Promise.withResolvers<Readonly<Record<string, unknown>>>();
    this.#waiting.set(this.#id, answer);
    this.#socket.send(JSON.stringify({ id: this.#id, method }));
    return answer.promise;
  }
}
