/** What a listener and certificates show of themselves: over real sockets, from real files. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { AppError } from "@gateway/shared/errors";
import { addCertificateMetrics } from "@gateway/shared/http/monitor";
import { ListenerMetrics, problemResponse, startPlainServer } from "@gateway/shared/http";
import { createMetrics } from "@gateway/shared/service/metrics";
import { createCertificateAuthority, issueLeaf } from "../../ctl/identities/x509.ts";
import { poll } from "../stage/poll.ts";
import { createFolder } from "./ctl_fixture.ts";

Deno.test("a listener counts its answers by status and code, whatever the path, and what is no HTTP", async () => {
  const metrics = createMetrics();
  const traffic = new ListenerMetrics(metrics);
  await using server = await startPlainServer({
    listen: "127.0.0.1:0",
    handler(request) {
      const { pathname } = new URL(request.url);
      if (pathname === "/denied") throw new AppError("denied", "no");
      if (pathname === "/defect") throw new Error("x");
      if (pathname === "/made") return problemResponse(new AppError("frozen", "no"));
      return new Response("ok");
    },
    onError: () => {},
    onAnswer: traffic.onAnswer,
    limits: { strangers: 40, strangersPerSource: 20, known: 10 },
  });
  traffic.watch(server);
  const { port } = server.address;
  for (const path of ["/", "/denied", "/defect", "/made", `/${crypto.randomUUID()}`]) {
    await (await fetch(`http://127.0.0.1:${port}${path}`)).text();
  }
  const socket = connect(port, "127.0.0.1");
  socket.end("this is not HTTP\r\n\r\n");
  await new Promise((resolve) => socket.resume().on("close", resolve));
  const shown = async () => (await metrics.text()).match(/^http_server_responses_total\{.*$/gm) ?? [];
  assert.deepEqual((await shown()).toSorted(), [
    'http_server_responses_total{status="200",code=""} 2',
    'http_server_responses_total{status="400",code="invalid_request"} 1',
    'http_server_responses_total{status="403",code="denied"} 1',
    'http_server_responses_total{status="403",code="frozen"} 1',
    'http_server_responses_total{status="500",code="internal"} 1',
  ]);
  const held = connect(port, "127.0.0.1");
  await poll(
    async () => /^http_server_connections\{standing="stranger"\} 1$/m.test(await metrics.text()),
    { what: "the open connection to be shown" },
  );
  const text = await metrics.text();
  assert.match(text, /^http_server_connections\{standing="known"\} 0$/m);
  assert.match(text, /^http_server_connections_limit\{standing="known"\} 10$/m);
  assert.match(text, /^http_server_connections_limit\{standing="stranger"\} 40$/m);
  held.destroy();
});

Deno.test("certificates show when they expire, of a file with several the first", async () => {
  await using folder = await createFolder();
  const authority = await createCertificateAuthority({ commonName: "CA" });
  const ends = [new Date("2031-02-03T04:05:06Z"), new Date("2030-02-03T04:05:06Z")];
  const leaves = await Promise.all(
    ends.map((notAfter) => issueLeaf(authority, { subject: "CN=x", usage: "server", notAfter })),
  );
  await Deno.writeTextFile(`${folder.path}/chain.crt`, leaves.map(({ certPem }) => certPem).join("\n"));
  const metrics = createMetrics();
  await addCertificateMetrics(metrics, { server_cert: `${folder.path}/chain.crt`, client_ca: "" });
  assert.deepEqual((await metrics.text()).match(/^certificate_expiry.*$/gm), [
    `certificate_expiry_timestamp_seconds{certificate="server_cert"} ${Date.UTC(2030, 1, 3, 4, 5, 6) / 1000}`,
  ]);
});
