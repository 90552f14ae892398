/** Failover of a client between several services, over real connections. */
import assert from "node:assert/strict";
import type { IncomingMessage, ServerResponse } from "node:http";
import { systemClock, systemRandom } from "@gateway/shared/clock";
import { openUpstreams, type Upstreams } from "@gateway/shared/http";
import { inRequest } from "@gateway/shared/service";
import { freePort } from "../stage/free_port.ts";
import { poll } from "../stage/poll.ts";
import { HANGS_MS, SHORT_MS, startUpstream, type Upstream } from "./json_client_fixture.ts";
import { broker, ca, issue } from "./mtls_fixture.ts";

const SIGN = { method: "POST", path: "/v1/sign", body: { host: "web01" } } as const;
const LIST = { method: "GET", path: "/v1/hosts" } as const;
const REPORT = "/v1/revocations/requests";

/** The requests to a server, without health checks. */
interface Asked {
  readonly path: string;
  readonly id: string;
  readonly behalf: string;
  readonly text: string;
}

type Behaviour = (request: IncomingMessage, response: ServerResponse) => void;

const answers: Behaviour = (_, response) => {
  response.setHeader("content-type", "application/json");
  response.end("{}");
};
/** Reads the request, then closes the connection. */
const dies: Behaviour = (request) => void request.socket.destroy();
const isStale: Behaviour = (_, response) => {
  response.writeHead(503, { "content-type": "application/problem+json", "retry-after": "1" });
  response.end('{"code":"state_stale","detail":"x"}');
};

class Service implements AsyncDisposable {
  readonly asked: Asked[] = [];
  behaviour: Behaviour;
  #server: Upstream | undefined;

  constructor(behaviour: Behaviour) {
    this.behaviour = behaviour;
  }

  get url(): string {
    return this.#server?.url ?? "";
  }

  static async start(behaviour: Behaviour, options = {}): Promise<Service> {
    const service = new Service(behaviour);
    service.#server = await startUpstream((request, response) => {
      let text = "";
      request.on("data", (bytes) => text += bytes);
      request.on("end", () => {
        const { url: path = "", headers } = request;
        if (path === "/healthz") return response.writeHead(404).end();
        const [id, behalf] = [headers["x-request-id"], headers["x-on-behalf-of"]].map((each) =>
          String(each ?? "")
        );
        service.asked.push({ path, id: id ?? "", behalf: behalf ?? "", text });
        service.behaviour(request, response);
      });
    }, options);
    return service;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server?.[Symbol.asyncDispose]();
  }
}

/** The client starts with the first service. Each request has a unique ID. */
const random = { bytes: (length: number) => length === 1 ? new Uint8Array(1) : systemRandom.bytes(length) };

/** A client of several services that starts with the first. */
function open(urls: readonly string[], timeoutMs = HANGS_MS): Upstreams & Disposable {
  const upstreams = openUpstreams({
    ...{ what: "the signer", urls, ...broker, ca, clock: systemClock, timeoutMs, random },
  });
  return { ...upstreams, [Symbol.dispose]: () => upstreams.close() };
}

Deno.test("a request that cannot be sent to one instance goes to the next with the same ID", async () => {
  await using second = await Service.start(answers);
  const identity = await issue(
    { subject: "CN=localhost", usage: "server", subjectAltNames: ["127.0.0.1"] },
    "foreign",
  );
  await using stranger = await Service.start(answers, identity);
  using upstreams = open([`https://127.0.0.1:${freePort()}`, stranger.url, second.url]);
  const client = upstreams.client({});
  const { status } = await inRequest({ name: "POST", id: "call-1" }, () => client.request(SIGN));
  assert.equal(status, 200);
  assert.deepEqual(stranger.asked, [], "a server with another CA's certificate gets nothing");
  assert.match(second.asked[0]?.id ?? "", /^call-1\.[0-9a-f]{12}$/);
});

Deno.test("each signing request gets its own ID that starts with the broker's ID", async () => {
  await using first = await Service.start(answers);
  using upstreams = open([first.url, `https://127.0.0.1:${freePort()}`]);
  const client = upstreams.client({});
  const long = "x".repeat(51);
  for (const id of ["call.0123456789ab", "call.0123456789ab", `${long}.0123456789ab`, "y".repeat(64)]) {
    await inRequest({ name: "POST", id }, () => client.request(SIGN));
  }
  const ids = first.asked.map(({ id }) => id ?? "");
  assert.equal(new Set(ids).size, 4);
  assert.deepEqual(ids.map((id) => id.slice(0, -13)), [
    "call.0123456789ab",
    "call.0123456789ab",
    long,
    "y".repeat(38),
  ]);
});

Deno.test("a signature with a lost response is not requested again, and the request ID is reported for revocation", async () => {
  await using first = await Service.start(dies);
  await using second = await Service.start(answers);
  using upstreams = open([first.url, second.url]);
  const client = upstreams.client({});
  const request = { ...SIGN, body: { host: "web01", on_behalf_of: "broker-1" } };
  await assert.rejects(client.request(request), { code: "answer_lost" });
  const report = () => second.asked.find(({ path }) => path === REPORT);
  await poll(() => report() !== undefined, { what: "the report" });
  const { behalf, text } = report() ?? { behalf: "", text: "" };
  const [{ id }] = first.asked as [Asked];
  assert.deepEqual([behalf, JSON.parse(text)], ["broker-1", { request_ids: [id], reason: "answer-lost" }]);
  assert.equal(second.asked.length, 1, "the request itself was not sent");
  assert.equal((await client.request(request)).status, 200, "anew");
  assert.notEqual(second.asked.at(-1)?.id, id);
});

Deno.test("a canceled signature is reported for revocation, and a canceled dry run is not", async () => {
  const signHangs: Behaviour = (request, response) => {
    if (request.url !== SIGN.path) answers(request, response);
  };
  await using first = await Service.start(signHangs);
  await using second = await Service.start(answers);
  using upstreams = open([first.url, second.url]);
  const client = upstreams.client({});
  for (const body of [{ dry_run: true }, SIGN.body]) {
    const [caller, before] = [new AbortController(), first.asked.length];
    const asking = client.request({ ...SIGN, body, signal: caller.signal });
    await poll(() => first.asked.length > before, { what: "the request" });
    caller.abort();
    await assert.rejects(asking, { code: "canceled" });
  }
  const id = first.asked.at(-1)?.id;
  const reports = () => [...first.asked, ...second.asked].filter(({ path }) => path === REPORT);
  await poll(() => reports().length > 0, { what: "the report" });
  const named = reports().map(({ text }) => JSON.parse(text));
  assert.deepEqual(named, [{ request_ids: [id], reason: "answer-lost" }]);
  assert.equal(second.asked.filter(({ path }) => path === SIGN.path).length, 0, "asked of nobody else");
});

Deno.test("a lost response of a result poll is reported for revocation, and each poll has its own ID", async () => {
  await using first = await Service.start(dies);
  await using second = await Service.start(answers);
  using upstreams = open([first.url, second.url]);
  const client = upstreams.client({});
  const askResult = { ...LIST, path: "/v1/sign/result/id-1?wait=8" };
  const asking = inRequest({ name: "POST", id: "call-1" }, () => client.request(askResult));
  await assert.rejects(asking, { code: "answer_lost" });
  const [{ id }] = first.asked as [Asked];
  assert.match(id, /^call-1\.[0-9a-f]{12}$/);
  await poll(() => second.asked.length > 0, { what: "the report" });
  const [{ path, behalf, text }] = second.asked as [Asked];
  assert.deepEqual([path, behalf, JSON.parse(text)], [REPORT, "", {
    request_ids: [id],
    reason: "answer-lost",
  }]);
  assert.equal(
    (await inRequest({ name: "POST", id: "call-1" }, () => client.request(askResult))).status,
    200,
  );
  assert.notEqual(second.asked.at(-1)?.id, id, "the next poll's answer is not given up with it");
});

Deno.test("an idempotent request is sent to the next instance also if the response is lost", async () => {
  await using first = await Service.start(dies);
  await using second = await Service.start(answers);
  for (const request of [LIST, { ...SIGN, body: { dry_run: true } }]) {
    using upstreams = open([first.url, second.url]);
    assert.equal((await upstreams.client({}).request(request)).status, 200);
  }
  assert.equal(second.asked.length, 2);
  for (
    const request of [
      { ...SIGN, body: { dry_run: true, preflight: true } },
      { ...LIST, path: "/v1/sign/result/id-1?wait=8" },
    ]
  ) {
    using upstreams = open([first.url, second.url]);
    await assert.rejects(upstreams.client({}).request(request), { code: "answer_lost" });
  }
});

Deno.test("a stale instance is skipped, and if all are stale the client gets 503", async () => {
  await using first = await Service.start(isStale);
  await using second = await Service.start(answers);
  using upstreams = open([first.url, second.url]);
  const client = upstreams.client({});
  for (let count = 0; count < 3; count++) assert.equal((await client.request(SIGN)).status, 200);
  assert.equal(first.asked.length, 1, "not asked again at once");
  second.behaviour = isStale;
  assert.equal((await client.request(SIGN)).status, 503);
  first.behaviour = answers;
  assert.equal((await client.request(SIGN)).status, 200);
});

Deno.test("a server that accepts connections but does not respond is not tried first again", async () => {
  await using second = await Service.start(answers);
  const hanging = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const accepted: Deno.Conn[] = [];
  const accepting = (async () => {
    for await (const connection of hanging) accepted.push(connection);
  })();
  {
    using upstreams = open([`https://127.0.0.1:${hanging.addr.port}`, second.url], SHORT_MS);
    const client = upstreams.client({});
    assert.equal((await client.request(SIGN)).status, 200, "nothing was sent before TLS was there");
    const connections = accepted.length;
    assert.equal((await client.request(SIGN)).status, 200);
    assert.ok(accepted.length <= connections + 1, "but for the look at its health");
  }
  hanging.close();
  await accepting;
  for (const connection of accepted) connection.close();
});

Deno.test("a single URL is requested with the original ID, without probes and reports", async () => {
  await using only = await Service.start(dies);
  using upstreams = open([only.url]);
  const client = upstreams.client({});
  const asking = inRequest({ name: "POST", id: "call-1" }, () => client.request(SIGN));
  await assert.rejects(asking, { code: "upstream_failure" });
  assert.deepEqual(only.asked.map(({ path, id }) => [path, id]), [["/v1/sign", "call-1"]]);
});
