import assert from "node:assert/strict";
import { connect, isUpstreamFailure, startUpstream } from "./json_client_fixture.ts";
import { foreignCa, issue } from "./mtls_fixture.ts";

Deno.test("JsonClient refuses a server of a foreign CA of the same name, again and again", async () => {
  let requests = 0;
  await using upstream = await startUpstream((_request, response) => {
    requests++;
    response.end("{}");
  });
  using client = connect(upstream.url, { ca: foreignCa });
  for (let attempt = 0; attempt < 3; attempt++) {
    const request = client.request({ method: "GET", path: "/" });
    await assert.rejects(request, isUpstreamFailure(/^Failed contacting the signer$/));
  }
  assert.equal(requests, 0);
});

Deno.test.each([
  { name: "for another host", options: { subjectAltNames: ["signer.example"], usage: "server" as const } },
  { name: "for clients only", options: { subjectAltNames: ["127.0.0.1"], usage: "client" as const } },
  {
    name: "that has expired",
    options: {
      subjectAltNames: ["127.0.0.1"],
      usage: "server" as const,
      notBefore: new Date("2020-01-01"),
      notAfter: new Date("2021-01-01"),
    },
  },
])("JsonClient refuses a certificate $name, again and again", async ({ options }) => {
  let requests = 0;
  const identity = await issue({ subject: "CN=127.0.0.1", ...options });
  await using upstream = await startUpstream((_request, response) => {
    requests++;
    response.end("{}");
  }, identity);
  using client = connect(upstream.url);
  for (let attempt = 0; attempt < 3; attempt++) {
    const request = client.request({ method: "GET", path: "/" });
    await assert.rejects(request, isUpstreamFailure(/^Failed contacting the signer$/));
  }
  assert.equal(requests, 0);
});

Deno.test("JsonClient refuses TLS 1.2 (C10)", async () => {
  await using upstream = await startUpstream((_request, response) => response.end("{}"), {
    maxVersion: "TLSv1.2",
  });
  using client = connect(upstream.url);
  await assert.rejects(client.request({ method: "GET", path: "/" }), isUpstreamFailure(/^Failed contacting/));
});
