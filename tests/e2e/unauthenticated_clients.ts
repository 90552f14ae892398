/** The connections that an attacker tries to hold: more than a listener accepts from all peers together. */
export const CLIENTS = 1100;
/** Concurrent connections of an attacker. */
const WORKERS = 50;
const REQUEST = "GET /v1/hosts HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n";
const BODY =
  "POST /v1/sign HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n{";

export interface Way {
  readonly name: string;
  readonly isTls: boolean;
  readonly text: string;
  /** A byte more comes later. */
  readonly drips?: boolean;
}

/** Bytes of an unauthenticated client, sent with or without TLS on a connection that stays open. */
export const WAYS: readonly Way[] = [
  { name: "TCP without TLS", isTls: false, text: "" },
  { name: "TLS without a request", isTls: true, text: "" },
  { name: "TLS kept after a 401", isTls: true, text: `${REQUEST}\r\n` },
  { name: "headers that do not end", isTls: true, text: `${REQUEST}X: ` },
  { name: "a body of one byte now and then", isTls: true, text: BODY, drips: true },
];

export class UnauthenticatedClients implements Disposable {
  readonly #port: number;
  readonly #caCerts: string[];
  readonly #open = new Set<Deno.Conn>();

  constructor(port: number, ca: string) {
    this.#port = port;
    this.#caCerts = [ca];
  }

  /** Opens connections without reading from them. Connections rejected by the other side are not counted. */
  async hold({ isTls, text, drips }: Way): Promise<void> {
    let left = CLIENTS;
    const address = { hostname: "127.0.0.1", port: this.#port };
    await Promise.all(Array.from({ length: WORKERS }, async () => {
      while (left-- > 0) {
        const connection = await Deno.connect(address).catch(() => undefined);
        if (connection === undefined) continue;
        const kept = isTls ? await this.#startTls(connection) : connection;
        if (kept === undefined) continue;
        this.#open.add(kept);
        if (text !== "") await kept.write(new TextEncoder().encode(text)).catch(() => {});
      }
    }));
    if (drips === true) await this.#drip();
  }

  async #startTls(connection: Deno.TcpConn): Promise<Deno.TlsConn | undefined> {
    try {
      const secure = await Deno.startTls(connection, { hostname: "127.0.0.1", caCerts: this.#caCerts });
      await secure.handshake();
      return secure;
    } catch {
      return undefined;
    }
  }

  async #drip(): Promise<void> {
    const byte = new TextEncoder().encode(" ");
    await Promise.all([...this.#open].map((connection) => connection.write(byte).catch(() => {})));
  }

  [Symbol.dispose](): void {
    for (const connection of this.#open) connection.close();
    this.#open.clear();
  }
}

export async function portOf(configPath: string): Promise<number> {
  const [, port] = /"listen": "[^"]*:(\d+)"/.exec(await Deno.readTextFile(configPath)) ?? [];
  return Number(port);
}
