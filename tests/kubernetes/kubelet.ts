import { createServer } from "node:https";

export type ContainerLogs = Map<string, string>;

/** The options of `GET .../log` as the API server forwards them to the kubelet. */
export interface LogOptions {
  readonly tailLines?: number;
  readonly limitBytes?: number;
}

/** A node that only serves container logs. */
export interface Kubelet extends AsyncDisposable {
  readonly port: number;
}

/** The certificates of a kubelet, and the CA of its clients. */
export interface KubeletIdentity {
  readonly cert: string;
  readonly key: string;
  readonly ca: string;
}

/** Answers `GET /containerLogs/<namespace>/<pod>/<container>` to the API server. */
export async function startKubelet(identity: KubeletIdentity, logs: ContainerLogs): Promise<Kubelet> {
  const server = createServer(
    { ...identity, requestCert: true, rejectUnauthorized: true },
    (request, response) => {
      const url = new URL(request.url ?? "/", "https://kubelet");
      const [, place] = /^\/containerLogs\/([^/]+\/[^/]+\/[^/]+)$/.exec(url.pathname) ?? [];
      const text = place === undefined ? undefined : logs.get(place);
      if (text === undefined) {
        response.writeHead(404).end("no such container\n");
        return;
      }
      response.writeHead(200, { "content-type": "text/plain" }).end(
        cutLog(text, logOptions(url.searchParams)),
      );
    },
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new TypeError("The kubelet has no port");
  return {
    port: address.port,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

export function logOptions(query: URLSearchParams): LogOptions {
  const [tailLines, limitBytes] = [query.get("tailLines"), query.get("limitBytes")];
  return {
    ...(tailLines === null ? {} : { tailLines: Number(tailLines) }),
    ...(limitBytes === null ? {} : { limitBytes: Number(limitBytes) }),
  };
}

/** The last lines of a text, limited to a number of bytes. */
export function cutLog(text: string, { tailLines, limitBytes }: LogOptions): Uint8Array<ArrayBuffer> {
  const lines = text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  const kept = tailLines === undefined ? lines : tailLines === 0 ? [] : lines.slice(-tailLines);
  const bytes = new TextEncoder().encode(kept.join(""));
  return limitBytes === undefined ? bytes : bytes.slice(0, limitBytes);
}
