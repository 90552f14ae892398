import { createServer } from "node:https";
import type { ServerResponse } from "node:http";
import { createCertificateAuthority, issueLeaf } from "../../ctl/identities/x509.ts";
import { Api } from "./api.ts";
import type { Cluster } from "./cluster.ts";
import { readRequest } from "./embedded/embedded.ts";

export type Treatment =
  | {
    readonly kind: "answer";
    readonly status: number;
    readonly body: string;
    /** Default `application/json`. */
    readonly type?: string;
    readonly headers?: Readonly<Record<string, string>>;
  }
  /** Writes bytes that may be invalid HTTP, then closes, resets or stays silent. */
  | { readonly kind: "write"; readonly bytes: string; readonly then: "close" | "reset" | "hang" }
  /** Answers 200 with one byte per second. */
  | { readonly kind: "drip" }
  /** Answers 200 with an endless body. */
  | { readonly kind: "flood"; readonly line: string }
  /** Forwards the request to the real cluster. */
  | { readonly kind: "pass" };

export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly token: string;
  readonly body: string;
}

export interface HostileOptions {
  /** Can wait for an action of the test. */
  readonly treat: (request: SeenRequest, count: number) => Treatment | Promise<Treatment>;
  readonly behind?: Cluster;
  /** The fault of its certificate. */
  readonly certificate?: "foreign CA" | "other address" | "expired";
}

export interface HostileServer extends AsyncDisposable {
  readonly apiServer: string;
  readonly caPem: string;
  readonly requests: readonly SeenRequest[];
  /** The number of flood bytes that clients have read. */
  readonly flooded: () => number;
}

/** An error response of the API. */
export function failure(code: number, reason: string, message: string): Treatment {
  const status = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message, reason, code };
  return { kind: "answer", status: code, body: JSON.stringify(status) };
}

const HEAD = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";

/** Faults of an answer, by name. None of them may reach an agent as a valid answer. */
export const TREATMENTS = {
  "hangs before the answer": { kind: "write", bytes: "", then: "hang" },
  "hangs in the head": { kind: "write", bytes: "HTTP/1.1 200 OK\r\ncontent-", then: "hang" },
  "hangs in the body": { kind: "write", bytes: `${HEAD}content-length: 100\r\n\r\n{"kind":`, then: "hang" },
  "drips": { kind: "drip" },
  "closes without an answer": { kind: "write", bytes: "", then: "close" },
  "closes in the body": { kind: "write", bytes: `${HEAD}content-length: 100\r\n\r\n{"kind":`, then: "close" },
  "resets": { kind: "write", bytes: "", then: "reset" },
  "resets in a chunk": {
    kind: "write",
    bytes: `${HEAD}transfer-encoding: chunked\r\n\r\n100\r\n{"kind":`,
    then: "reset",
  },
  "speaks no HTTP": { kind: "write", bytes: "SSH-2.0-OpenSSH_9.2\r\n", then: "close" },
  "has two lengths": {
    kind: "write",
    bytes: `${HEAD}content-length: 2\r\ncontent-length: 3\r\n\r\n{}x`,
    then: "close",
  },
  "has a head without end": {
    kind: "write",
    bytes: `HTTP/1.1 200 OK\r\n${"x-filler: abcdefghijklmnop\r\n".repeat(20_000)}`,
    then: "hang",
  },
  "sends no JSON": { kind: "answer", status: 200, body: '{"kind":"Pod",' },
  "sends nothing": { kind: "answer", status: 200, body: "" },
  "sends HTML": {
    kind: "answer",
    status: 200,
    type: "text/html",
    body: "<html><body>Sign in to <b>proxy.example</b></body></html>",
  },
  "sends HTML with a 502": {
    kind: "answer",
    status: 502,
    type: "text/html",
    body: "<html><body>502 Bad Gateway</body></html>",
  },
  "fails": failure(500, "InternalError", "etcdserver: request timed out, 10.0.0.7:2379"),
  "knows no such credential": failure(401, "Unauthorized", "Unauthorized"),
  "forbids": failure(
    403,
    "Forbidden",
    'pods is forbidden: User "system:serviceaccount:shop:agent" cannot list resource "pods" in API group "" in ' +
      'the namespace "shop"',
  ),
  "is busy": {
    kind: "answer",
    status: 429,
    headers: { "retry-after": "1" },
    body: JSON.stringify({ kind: "Status", status: "Failure", reason: "TooManyRequests", code: 429 }),
  },
  "sends elsewhere": {
    kind: "answer",
    status: 307,
    headers: { location: "https://127.0.0.1:1/steal" },
    body: "",
  },
  "floods": { kind: "flood", line: `2026-01-01T00:00:00Z ${"all is well ".repeat(80)}\n` },
} as const satisfies Record<string, Treatment>;

/** Starts an API server that answers each request as scripted. */
export async function startHostile({ treat, behind, certificate }: HostileOptions): Promise<HostileServer> {
  const authority = await createCertificateAuthority({ commonName: "test cluster CA" });
  const issuer = certificate === "foreign CA"
    ? await createCertificateAuthority({ commonName: "test cluster CA" })
    : authority;
  const identity = await issueLeaf(issuer, {
    subject: "CN=kube-apiserver",
    usage: "server",
    subjectAltNames: certificate === "other address" ? ["api.example"] : ["127.0.0.1"],
    ...(certificate === "expired"
      ? { notBefore: new Date("2020-01-01"), notAfter: new Date("2020-01-02") }
      : {}),
  });
  const requests: SeenRequest[] = [];
  let flooded = 0;
  const server = createServer({ cert: identity.certPem, key: identity.keyPem }, async (request, response) => {
    const { method, url, authorization = "", contentType, body } = await readRequest(request);
    const path = `${url.pathname}${url.search}`;
    const seen = { method, path, token: authorization.replace(/^Bearer /, ""), body };
    requests.push(seen);
    const treatment = await treat(seen, requests.length);
    switch (treatment.kind) {
      case "answer": {
        const { status, type = "application/json", headers = {} } = treatment;
        response.writeHead(status, { "content-type": type, ...headers }).end(treatment.body);
        return;
      }
      case "write":
        if (treatment.bytes !== "") request.socket.write(treatment.bytes);
        if (treatment.then === "close") request.socket.end();
        if (treatment.then === "reset") request.socket.destroy();
        return;
      case "drip": {
        request.socket.write(`${HEAD}content-length: 1000\r\n\r\n{`);
        const timer = setInterval(() => request.socket.write(" "), 1000);
        request.socket.on("close", () => clearInterval(timer));
        return;
      }
      case "flood":
        response.writeHead(200, { "content-type": "text/plain" });
        flood(response, treatment.line, (length) => flooded += length);
        return;
      case "pass": {
        if (behind === undefined) throw new TypeError("no cluster behind");
        using api = new Api(behind.apiServer, behind.caPem, { token: seen.token });
        const answer = await api.ask({
          method,
          path,
          ...(body === "" ? {} : { body }),
          ...(contentType === "" ? {} : { contentType }),
        });
        const type = answer.headers.get("content-type");
        response.writeHead(answer.status, type === null ? {} : { "content-type": type }).end(answer.text);
        return;
      }
      default:
        treatment satisfies never;
    }
  });
  // A client that trusts another CA reports this in the handshake.
  server.on("tlsClientError", () => {});
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new TypeError("The API server has no port");
  return {
    apiServer: `https://127.0.0.1:${address.port}`,
    caPem: authority.certPem,
    requests,
    flooded: () => flooded,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Writes up to 1 GiB, as fast as the client reads. */
function flood(response: ServerResponse, line: string, onSent: (length: number) => void): void {
  const chunk = line.repeat(Math.ceil(65_536 / line.length));
  let left = 1 << 30;
  const more = () => {
    if (response.destroyed || left <= 0) return void response.end();
    left -= chunk.length;
    onSent(chunk.length);
    response.write(chunk, () => setImmediate(more));
  };
  more();
}
