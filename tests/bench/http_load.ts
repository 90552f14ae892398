import { once } from "node:events";
import { Agent, request } from "node:https";
import { connect, type TLSSocket } from "node:tls";

export interface LoadOptions {
  readonly port: number;
  readonly cert: string;
  readonly key: string;
  readonly ca: string;
  readonly path: string;
  readonly body: string;
  readonly connections: number;
  readonly seconds: number;
}

export interface LoadResult {
  readonly perSecond: number;
  /** Milliseconds from the request to the complete response, sorted. */
  readonly latencies: readonly number[];
  /** Responses with a status other than 200. */
  readonly failures: number;
}

/**
 * Sends the same request repeatedly on keep-alive connections. Each connection waits for a response before the next
 * request. It uses bare sockets, so that it measures the server and not a client library.
 */
export async function load(options: LoadOptions): Promise<LoadResult> {
  const { port, cert, key, ca, connections, seconds } = options;
  const request = new TextEncoder().encode(
    `POST ${options.path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n` +
      `content-length: ${new TextEncoder().encode(options.body).length}\r\n\r\n${options.body}`,
  );
  const sockets = await Promise.all(Array.from({ length: connections }, async () => {
    const socket = connect({ host: "127.0.0.1", port, cert, key, ca, minVersion: "TLSv1.3" });
    await once(socket, "secureConnect");
    const reader = new AnswerReader(socket);
    // Not counted, because in TLS 1.3 the client finishes before the server has verified its certificate.
    socket.write(request);
    await reader.next();
    return { socket, reader };
  }));
  const latencies: number[] = [];
  let failures = 0;
  const start = performance.now();
  const end = start + seconds * 1000;
  await Promise.all(sockets.map(async ({ socket, reader }) => {
    while (performance.now() < end) {
      const sent = performance.now();
      socket.write(request);
      if (await reader.next() !== 200) failures += 1;
      latencies.push(performance.now() - sent);
    }
    socket.destroy();
  }));
  const elapsed = (performance.now() - start) / 1000;
  latencies.sort((a, b) => a - b);
  return { perSecond: latencies.length / elapsed, latencies, failures };
}

/** Sends the same load with one `node:https` agent that keeps its connections, like a broker. */
export async function loadByAgent(options: LoadOptions): Promise<LoadResult> {
  const { port, cert, key, ca, connections, seconds, body } = options;
  const agent = new Agent({ keepAlive: true, maxSockets: connections, cert, key, ca, minVersion: "TLSv1.3" });
  const headers = { "content-type": "application/json", "content-length": body.length };
  const send = () =>
    new Promise<number>((resolve, reject) => {
      const outgoing = request(
        { agent, host: "127.0.0.1", port, method: "POST", path: options.path, headers },
        (answer) => {
          answer.resume();
          answer.on("end", () => resolve(answer.statusCode ?? 0));
        },
      );
      outgoing.on("error", reject);
      outgoing.end(body);
    });
  const latencies: number[] = [];
  let failures = 0;
  const start = performance.now();
  const end = start + seconds * 1000;
  await Promise.all(Array.from({ length: connections }, async () => {
    while (performance.now() < end) {
      const sent = performance.now();
      if (await send() !== 200) failures += 1;
      latencies.push(performance.now() - sent);
    }
  }));
  const elapsed = (performance.now() - start) / 1000;
  agent.destroy();
  latencies.sort((a, b) => a - b);
  return { perSecond: latencies.length / elapsed, latencies, failures };
}

/** Yields the status of each response on a connection when the response is complete. */
class AnswerReader {
  #text = "";
  #waiting: ((status: number) => void) | undefined;

  constructor(socket: TLSSocket) {
    socket.setEncoding("latin1");
    socket.on("data", (text: string) => {
      this.#text += text;
      this.#deliver();
    });
    socket.on("error", () => this.#waiting?.(0));
    socket.on("close", () => this.#waiting?.(0));
  }

  next(): Promise<number> {
    return new Promise((resolve) => {
      this.#waiting = resolve;
      this.#deliver();
    });
  }

  #deliver(): void {
    const head = this.#text.indexOf("\r\n\r\n");
    if (head < 0 || this.#waiting === undefined) return;
    const length = Number(/content-length: (\d+)/i.exec(this.#text)?.[1] ?? NaN);
    if (Number.isNaN(length)) throw new Error(`answer without content-length: ${this.#text.slice(0, head)}`);
    const end = head + 4 + length;
    if (this.#text.length < end) return;
    const status = Number(this.#text.slice(9, 12));
    this.#text = this.#text.slice(end);
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting(status);
  }
}
