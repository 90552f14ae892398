import assert from "node:assert/strict";
import { HOST, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";

/** Connections that an attacker holds, or tries to, in each way. */
const STRANGERS = 2000;
/** At a time: an attacker who has to wait for nobody. */
const WORKERS = 50;
/** Measured: 41 to 258 ms on two busy cores. The bound has room for a worse machine; a lock-out has no end. */
const SOON_MS = 5000;

const REQUEST = "GET /v1/hosts HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n";
const BODY =
  "POST /v1/sign HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n{";

/** What a stranger sends, after TLS or without it, and then keeps its connection. */
const WAYS = [
  { name: "TCP without TLS", isTls: false, text: "" },
  { name: "TLS without a request", isTls: true, text: "" },
  { name: "TLS kept after a 401", isTls: true, text: `${REQUEST}\r\n` },
  { name: "headers that do not end", isTls: true, text: `${REQUEST}X: ` },
  { name: "a body of one byte now and then", isTls: true, text: BODY, drips: true },
];

/** The connections of an attacker. */
class Strangers implements Disposable {
  readonly #port: number;
  readonly #caCerts: string[];
  readonly #open = new Set<Deno.Conn>();

  constructor(port: number, ca: string) {
    this.#port = port;
    this.#caCerts = [ca];
  }

  /** Opens connections, and reads nothing; what the other side refuses is not opened. */
  async open({ isTls, text }: { readonly isTls: boolean; readonly text: string }): Promise<void> {
    let left = STRANGERS;
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

  /** One byte more on each. */
  async drip(): Promise<void> {
    const byte = new TextEncoder().encode(" ");
    await Promise.all([...this.#open].map((connection) => connection.write(byte).catch(() => {})));
  }

  [Symbol.dispose](): void {
    for (const connection of this.#open) connection.close();
    this.#open.clear();
  }
}

async function portOf(configPath: string): Promise<number> {
  const [, port] = /"listen": "[^"]*:(\d+)"/.exec(await Deno.readTextFile(configPath)) ?? [];
  return Number(port);
}

/** Freezes and unfreezes over connections of their own, and says how long the freeze took. */
async function freezeAnew(stage: Stage): Promise<number> {
  const operator = await stage.signerClient("operator");
  const body = { kind: "caller", value: "broker-local" };
  const begin = performance.now();
  const frozen = await operator.request({ method: "POST", path: "/v1/freeze", body });
  const took = performance.now() - begin;
  assert.equal(frozen.status, 200, frozen.text);
  const thawed = await operator.request({ method: "POST", path: "/v1/unfreeze", body });
  assert.equal(thawed.status, 200, thawed.text);
  operator.close();
  return took;
}

Deno.test.each(WAYS)(
  `${STRANGERS} strangers that hold $name keep nobody from a freeze, nor a broker from its hosts`,
  (way) =>
    withStage({}, async (stage) => {
      await stage.startSigner();
      const known = await stage.signerClient("broker");
      const hosts = async (client: typeof known) =>
        (await client.request({ method: "GET", path: "/v1/hosts" })).text;
      assert.match(await hosts(known), new RegExp(HOST));
      const ca = await Deno.readTextFile(stage.init.mtls_ca);
      using strangers = new Strangers(await portOf(stage.init.signer_config), ca);
      await strangers.open(way);
      if (way.drips === true) await strangers.drip();
      const took = await freezeAnew(stage);
      assert.ok(took < SOON_MS, `the freeze took ${took} ms`);
      assert.match(await hosts(known), new RegExp(HOST));
      assert.match(await hosts(await stage.signerClient("broker")), new RegExp(HOST));
    }),
);
