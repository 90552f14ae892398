import { Buffer } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { createServer } from "node:https";
import type { TLSSocket } from "node:tls";
import { createCertificateAuthority, issueLeaf } from "../../../ctl/identities/x509.ts";
import type { ClusterBackend } from "../backend.ts";
import type { ContainerLogs } from "../kubelet.ts";
import { ApiServer, type IncomingRequest } from "./api_server.ts";

export interface EmbeddedOptions {
  /** The server's clock for token expiry; by default the machine's. */
  readonly now?: () => number;
}

/** Starts an empty API server in this process. Disposal stops it. */
export async function startEmbedded({ now = Date.now }: EmbeddedOptions = {}): Promise<ClusterBackend> {
  const folder = await Deno.makeTempDir({ prefix: "gateway-kubernetes-" });
  const auditLog = `${folder}/audit.log`;
  await Deno.writeTextFile(auditLog, "");
  const authority = await createCertificateAuthority({ commonName: "test cluster CA" });
  const served = await issueLeaf(authority, {
    subject: "CN=kube-apiserver",
    usage: "server",
    subjectAltNames: ["127.0.0.1", "localhost"],
  });
  const admin = await issueLeaf(authority, { subject: "O=system:masters,CN=admin", usage: "client" });
  const api = await ApiServer.create({ auditLog, now });
  const server = createServer({
    cert: served.certPem,
    key: served.keyPem,
    ca: authority.certPem,
    requestCert: true,
    rejectUnauthorized: false,
  }, async (request, response) => {
    const { status, contentType, body } = await api.answer(await readRequest(request));
    response.writeHead(status, contentType === undefined ? {} : { "content-type": contentType }).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new TypeError("The API server has no port");
  return {
    kind: "embedded",
    apiServer: `https://127.0.0.1:${address.port}`,
    caPem: authority.certPem,
    admin: { cert: admin.certPem, key: admin.keyPem },
    auditLog,
    startNode: (logs: ContainerLogs) => {
      api.useLogs(logs);
      return Promise.resolve("embedded-node");
    },
    [Symbol.asyncDispose]: async () => {
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
      await Deno.remove(folder, { recursive: true });
    },
  };
}

export async function readRequest(request: IncomingMessage): Promise<IncomingRequest> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const socket = request.socket as TLSSocket;
  const subject: { readonly CN?: unknown; readonly O?: unknown } | undefined = socket.authorized
    ? socket.getPeerCertificate().subject
    : undefined;
  const { CN, O } = subject ?? {};
  return {
    method: request.method ?? "GET",
    url: new URL(request.url ?? "/", "https://kubernetes"),
    authorization: request.headers.authorization,
    userAgent: request.headers["user-agent"] ?? "",
    contentType: (request.headers["content-type"] ?? "").split(";")[0]?.trim() ?? "",
    body: Buffer.concat(chunks).toString("utf8"),
    peer: typeof CN === "string" ? { CN, ...(typeof O === "string" ? { O } : {}) } : undefined,
  };
}
