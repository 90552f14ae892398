import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { connect, isUpstreamFailure, startUpstream } from "./json_client_fixture.ts";
import { broker, ca, foreignCa, issue } from "./mtls_fixture.ts";

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

Deno.test("JsonClient trusts no root of the system or the environment", async () => {
  let requests = 0;
  await using upstream = await startUpstream((_request, response) => {
    requests++;
    response.end("{}");
  });
  const roots = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(roots, ca);
    const alone = fileURLToPath(new URL("json_client_alone.ts", import.meta.url));
    const { stdout } = await new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", "--quiet", "--no-check", "--cached-only", "--ignore-env", "--allow-net=127.0.0.1", alone],
        ...[upstream.url, JSON.stringify({ ...broker, ca: foreignCa })],
      ],
      env: { DENO_CERT: roots, NODE_EXTRA_CA_CERTS: roots, SSL_CERT_FILE: roots },
    }).output();
    const [fetched, asked] = JSON.parse(new TextDecoder().decode(stdout));
    assert.equal(fetched, 200, "the process itself trusts the CA");
    assert.match(asked, /Failed contacting the service/);
  } finally {
    await Deno.remove(roots);
  }
  assert.equal(requests, 1);
});
