import assert from "node:assert/strict";
import { compileSampleCluster } from "@gateway/shared/testing";
import { connectClusters, loadClusterFiles } from "@gateway/shared/kubernetes";
import { ca } from "./mtls_fixture.ts";
import { systemClock } from "@gateway/shared/clock";
import { readNamedText } from "@gateway/shared/files";
import { HANGS_MS, startUpstream } from "./json_client_fixture.ts";
import { AppError } from "@gateway/shared/errors";
import { type ApiRequest, ApiServer } from "../../shared/kubernetes/mod.ts";

async function load(files: Readonly<Record<string, string>>) {
  const folder = await Deno.makeTempDir({ prefix: "cluster-files-" });
  try {
    for (const [name, text] of Object.entries(files)) await Deno.writeTextFile(`${folder}/${name}`, text);
    const cluster = compileSampleCluster({ ca_cert: `${folder}/ca.crt`, token_file: `${folder}/token` });
    return await loadClusterFiles(new Map([["prod", cluster]]));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("loadClusterFiles() returns the CAs by cluster name", async () => {
  assert.deepEqual([...await load({ "ca.crt": ca, token: "t" })], [["prod", ca]]);
});

Deno.test.each<{ name: string; files: Readonly<Record<string, string>>; message: RegExp }>([
  {
    name: "without its token file",
    files: { "ca.crt": ca },
    message: /^Cannot read kubernetes\.clusters\.prod\.token_file ".+\/token": no such file$/,
  },
  {
    name: "without its CA certificate",
    files: { token: "t" },
    message: /^Cannot read kubernetes\.clusters\.prod\.ca_cert ".+\/ca\.crt": no such file$/,
  },
  {
    name: "with a CA that is not a certificate",
    files: { token: "t", "ca.crt": "x" },
    message: /^Cannot use kubernetes\.clusters\.prod\.ca_cert ".+": not a certificate in PEM$/,
  },
])("loadClusterFiles() rejects a cluster $name", async ({ files, message }) => {
  await assert.rejects(load(files), { code: "invalid_config", message });
});

/** The token that the API server receives with the credential of a file. */
async function withTokenFile(
  test: (
    scene: {
      readonly tokenFile: string;
      readonly ask: () => Promise<string>;
      readonly reads: readonly string[];
    },
  ) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await using upstream = await startUpstream((request, response) => {
      response.end(request.headers.authorization?.replace("Bearer ", "shown "));
    });
    const tokenFile = `${folder}/token`;
    const reads: string[] = [];
    const readText = (...named: Parameters<typeof readNamedText>) => {
      reads.push(named[1]);
      return readNamedText(...named);
    };
    const api = connectClusters({ clock: systemClock, readText });
    const at = { cluster: { name: "prod", apiServer: upstream.url, tokenFile }, ca };
    const ask = async () => {
      const limits = { timeoutMs: HANGS_MS, maxBytes: 1000 };
      const answer = await api.request(at, { method: "GET", path: "/", ...limits });
      return answer.kind === "answered" ? answer.text : answer.kind;
    };
    await test({ tokenFile, ask, reads });
    api.close();
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("connectClusters() reads the token file again for each request", () =>
  withTokenFile(async ({ tokenFile, ask }) => {
    await Deno.writeTextFile(tokenFile, "one\n");
    assert.equal(await ask(), "shown one");
    await Deno.writeTextFile(tokenFile, "two\n");
    assert.equal(await ask(), "shown two");
    await Deno.remove(tokenFile);
    assert.equal(await ask(), "no_credential");
    await Deno.writeTextFile(tokenFile, "three\n");
    assert.equal(await ask(), "shown three");
  }));

Deno.test("connectClusters() reads the token file once for concurrent requests", () =>
  withTokenFile(async ({ tokenFile, ask, reads }) => {
    await Deno.writeTextFile(tokenFile, "one\n");
    assert.deepEqual(await Promise.all([ask(), ask(), ask()]), Array(3).fill("shown one"));
    assert.deepEqual(reads, [tokenFile]);
  }));

const GET: ApiRequest = { method: "GET", path: "/version", token: "t", timeoutMs: HANGS_MS, maxBytes: 100 };

const open = (url: string, trusted = ca) => new ApiServer({ url, ca: trusted, clock: systemClock });

Deno.test("ApiServer sends the token but no client certificate, and sends the body unchanged", async () => {
  const got: unknown[] = [];
  await using upstream = await startUpstream(async (request, response) => {
    const { method, url, headers } = request;
    const body = (await Array.fromAsync(request)).map(String).join("");
    got.push([method, url, headers.authorization, headers["content-type"], body]);
    response.statusCode = 201;
    response.end("made ü");
  }, { requestCert: true, rejectUnauthorized: false });
  using server = open(`${upstream.url}/k8s/`);
  const bytes = new TextEncoder().encode('{ "kind" : "Pod" }');
  const body = { type: "application/apply-patch+yaml", bytes };
  for (let time = 0; time < 2; time++) {
    const outcome = await server.request({ ...GET, method: "PATCH", path: "/api/v1/x?a=b", body });
    assert.equal(outcome.kind, "answered");
    if (outcome.kind === "answered") assert.deepEqual([outcome.status, outcome.text], [201, "made ü"]);
  }
  const each = ["PATCH", "/k8s/api/v1/x?a=b", "Bearer t", body.type, '{ "kind" : "Pod" }'];
  assert.deepEqual(got, [each, each]);
});

Deno.test("ApiServer replaces the token in a response that repeats it", async () => {
  await using upstream = await startUpstream((request, response) => {
    response.statusCode = 400;
    response.end(`you sent: ${request.headers.authorization}`);
  });
  using server = open(upstream.url);
  const outcome = await server.request({ ...GET, token: "eyJhbGciOiJFUzI1NiJ9.e30.c2ln" });
  assert.equal(outcome.kind === "answered" && outcome.text, "you sent: Bearer [token]");
});

Deno.test("ApiServer returns a redirect and does not follow it", async () => {
  let requests = 0;
  await using upstream = await startUpstream((_request, response) => {
    requests += 1;
    response.writeHead(302, { location: "/elsewhere" }).end();
  });
  using server = open(upstream.url);
  const outcome = await server.request(GET);
  assert.equal(outcome.kind === "answered" && outcome.status, 302);
  assert.equal(requests, 1);
});

Deno.test("ApiServer accepts a response of exactly the size limit and rejects a longer one", async () => {
  await using upstream = await startUpstream((request, response) => {
    response.end("x".repeat(Number(request.url?.slice(1))));
  });
  using server = open(upstream.url);
  assert.equal((await server.request({ ...GET, path: "/100" })).kind, "answered");
  assert.equal((await server.request({ ...GET, path: "/101" })).kind, "too_large");
  assert.equal((await server.request({ ...GET, path: "/101", maxBytes: 101 })).kind, "answered");
});

Deno.test("ApiServer returns canceled if the signal is aborted", async () => {
  await using upstream = await startUpstream(() => {});
  using server = open(upstream.url);
  const cancel = new AbortController();
  const canceled = server.request({ ...GET, signal: cancel.signal });
  cancel.abort();
  assert.equal((await canceled).kind, "canceled");
});

Deno.test("ApiServer connects to a server that supports at most TLS 1.2", async () => {
  await using upstream = await startUpstream((_request, response) => response.end("ok"), {
    maxVersion: "TLSv1.2",
  });
  using server = open(upstream.url);
  assert.equal((await server.request(GET)).kind, "answered");
});

Deno.test("ApiServer returns unreachable if no server listens at the URL", async () => {
  using absent = open("https://127.0.0.1:1");
  assert.equal((await absent.request(GET)).kind, "unreachable");
});

Deno.test.each([
  { name: "a line break in the token", request: { token: "t\r\nx: y" } },
  { name: "no token", request: { token: "" } },
  { name: "a space in the path", request: { path: "/a b" } },
  { name: "a line break in the path", request: { path: "/a\r\nx: y" } },
])("ApiServer sends no request with $name", async ({ request }) => {
  using server = open("https://127.0.0.1:1");
  await assert.rejects(server.request({ ...GET, ...request }), TypeError);
});

Deno.test.each([
  { name: "http", url: "http://127.0.0.1", trusted: ca },
  { name: "no URL", url: "127.0.0.1", trusted: ca },
  { name: "no certificate", url: "https://127.0.0.1", trusted: "" },
])("ApiServer rejects $name", ({ url, trusted }) => {
  assert.throws(() => open(url, trusted), (error) => error instanceof AppError);
});
