/**
 * The baseline of the sign benchmark: a bare `node:https` handler with client certificates that reads the body
 * and answers with constant JSON. Arguments: port, certificate, key and CA files, bytes of the answer.
 *
 * @module
 */
import { createServer } from "node:https";

const [port = "0", cert = "", key = "", ca = "", bytes = "800"] = Deno.args;
const body = JSON.stringify({ certificate: "x".repeat(Number(bytes)) });

const server = createServer({
  cert: Deno.readTextFileSync(cert),
  key: Deno.readTextFileSync(key),
  ca: Deno.readTextFileSync(ca),
  minVersion: "TLSv1.3",
  requestCert: true,
  rejectUnauthorized: true,
}, (request, response) => {
  request.resume();
  request.on("end", () => {
    response.writeHead(200, { "content-type": "application/json", "content-length": body.length });
    response.end(body);
  });
});
server.keepAliveTimeout = 60_000;
server.listen(Number(port), "127.0.0.1");
