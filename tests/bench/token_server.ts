/**
 * A fake API server for the benchmark of signing. It answers every request without delay, and a TokenRequest with a
 * constant token. Arguments: port, certificate and key files.
 *
 * @module
 */
import { createServer } from "node:https";

const [port = "0", cert = "", key = ""] = Deno.args;
const encode = (value: unknown) => btoa(JSON.stringify(value)).replaceAll("=", "");
const token = `${encode({ alg: "ES256" })}.${encode({ jti: crypto.randomUUID() })}.${"c2ln".repeat(20)}`;
const body = JSON.stringify({
  kind: "TokenRequest",
  status: { token, expirationTimestamp: "2100-01-01T00:00:00Z" },
});

const server = createServer({
  cert: Deno.readTextFileSync(cert),
  key: Deno.readTextFileSync(key),
}, (request, response) => {
  request.resume();
  request.on("end", () => {
    response.writeHead(201, { "content-type": "application/json", "content-length": body.length });
    response.end(body);
  });
});
server.keepAliveTimeout = 60_000;
server.listen(Number(port), "127.0.0.1");
