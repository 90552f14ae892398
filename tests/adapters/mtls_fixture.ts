import { createCertificateAuthority, issueLeaf, type LeafOptions } from "../../ctl/identities/x509.ts";
import {
  type MtlsServer,
  type MtlsServerOptions,
  type Peer,
  type PeerHandler,
  startMtlsServer,
} from "@gateway/shared/http";

export interface Identity {
  readonly cert: string;
  readonly key: string;
}

const authority = await createCertificateAuthority({ commonName: "gateway test CA" });
const foreignAuthority = await createCertificateAuthority({ commonName: "gateway test CA" });

/** The CA that servers and clients of these tests trust. */
export const ca: string = authority.certPem;

/** A CA with the same name and another key. */
export const foreignCa: string = foreignAuthority.certPem;

export async function issue(options: LeafOptions, by: "trusted" | "foreign" = "trusted"): Promise<Identity> {
  const pair = await issueLeaf(by === "trusted" ? authority : foreignAuthority, options);
  return { cert: pair.certPem, key: pair.keyPem };
}

const SERVER: LeafOptions = {
  ...{ subject: "CN=signer", usage: "server", subjectAltNames: ["localhost", "127.0.0.1"] },
};

export const serverIdentity: Identity = await issue(SERVER);

/** Another certificate of the same server. */
export const renewed: Identity = await issue(SERVER);

export const REQUEST = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

export const broker: Identity = await issue({ subject: "CN=broker-1", usage: "client" });

export const hello = (_request: Request, { caller }: Peer) => new Response(`hello ${caller}\n`);

/** A listener on a free loopback port, and its reports to `onError`. */
export interface TestServer extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly errors: readonly unknown[];
  readonly server: MtlsServer;
}

export async function startServer(
  handler: PeerHandler,
  options: Partial<MtlsServerOptions> = {},
): Promise<TestServer> {
  const errors: unknown[] = [];
  const server = await startMtlsServer({
    listen: "127.0.0.1:0",
    ...serverIdentity,
    clientCa: ca,
    handler,
    onError: (error) => errors.push(error),
    ...options,
  });
  const { port } = server.address;
  const url = `https://127.0.0.1:${port}`;
  return { url, port, errors, server, [Symbol.asyncDispose]: () => server.close() };
}

/** Runs `use` with a `fetch` that opens a connection per request, with or without a certificate. */
export async function withFetch<T>(
  identity: Identity | undefined,
  use: (fetch: (url: string, init?: RequestInit) => Promise<Response>) => Promise<T>,
): Promise<T> {
  using client = Deno.createHttpClient({ caCerts: [ca], ...identity, poolMaxIdlePerHost: 0, http2: false });
  return await use((url, init) => fetch(url, { ...init, client }));
}

/** The status of a GET request over a separate connection. */
export const statusOf = (url: string, identity: Identity = broker): Promise<number> =>
  withFetch(identity, async (fetch) => {
    const response = await fetch(url);
    await response.body?.cancel();
    return response.status;
  });

export class RawConnection implements Disposable {
  readonly #connection: Deno.TlsConn;

  private constructor(connection: Deno.TlsConn) {
    this.#connection = connection;
  }

  /** @param identity `null`: send no certificate */
  static async open(port: number, identity: Identity | null = broker): Promise<RawConnection> {
    return new RawConnection(
      await Deno.connectTls({ hostname: "127.0.0.1", port, caCerts: [ca], ...identity }),
    );
  }

  async write(text: string): Promise<void> {
    let bytes = new TextEncoder().encode(text);
    while (bytes.length > 0) bytes = bytes.subarray(await this.#connection.write(bytes));
  }

  /** Sends a GET request and returns its answer up to this text. */
  async get(until = "hello"): Promise<string> {
    await this.write(REQUEST);
    return await this.read(until);
  }

  /** Reads until the other side closes, or until the text contains `until`. */
  async read(until?: string): Promise<string> {
    const decoder = new TextDecoder();
    const buffer = new Uint8Array(65_536);
    let text = "";
    while (until === undefined || !text.includes(until)) {
      const count = await this.#connection.read(buffer).catch(() => null);
      if (count === null) break;
      text += decoder.decode(buffer.subarray(0, count), { stream: true });
    }
    return text;
  }

  [Symbol.dispose](): void {
    this.#connection.close();
  }
}
