import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { type ApiOutcome, type ApiRequest, ApiServer } from "../../shared/kubernetes/api_server.ts";
import { type HostileOptions, startHostile, TREATMENTS } from "./hostile.ts";
import { startCluster } from "./start.ts";

const MAX_BYTES = 524_288;

const REQUEST: ApiRequest = {
  method: "GET",
  path: "/api/v1/namespaces/shop/pods/web/log",
  token: "secret-token",
  timeoutMs: 60_000,
  maxBytes: MAX_BYTES,
};

/** What a client of ours makes of each; `answered` is for its callers to look at. */
const OUTCOMES = {
  "hangs before the answer": "timed_out",
  "hangs in the head": "timed_out",
  "hangs in the body": "timed_out",
  "drips": "timed_out",
  "closes without an answer": "unreachable",
  "closes in the body": "unreachable",
  "resets": "unreachable",
  "resets in a chunk": "unreachable",
  "speaks no HTTP": "unreachable",
  "has two lengths": "unreachable",
  "has a head without end": "unreachable",
  "sends no JSON": 200,
  "sends nothing": 200,
  "sends HTML": 200,
  "sends HTML with a 502": 502,
  "fails": 500,
  "knows no such credential": 401,
  "forbids": 403,
  "is busy": 429,
  "sends elsewhere": 307,
  "floods": "too_large",
} as const satisfies Record<keyof typeof TREATMENTS, ApiOutcome["kind"] | number>;

const NAMES = Object.keys(OUTCOMES) as (keyof typeof OUTCOMES)[];

Deno.test.each(NAMES.map((name) => ({ name })))(
  "a request to an API server that $name ends, is sent once, and tells no address",
  async ({ name }) => {
    await using server = await startHostile({ treat: () => TREATMENTS[name] });
    using client = new ApiServer({ url: server.apiServer, ca: server.caPem, clock: systemClock });
    const timeoutMs = OUTCOMES[name] === "timed_out" ? 300 : REQUEST.timeoutMs;
    const outcome = await client.request({ ...REQUEST, timeoutMs });
    assert.equal(outcome.kind === "answered" ? outcome.status : outcome.kind, OUTCOMES[name]);
    assert.equal(server.requests.length, 1);
    assert.ok(
      !JSON.stringify(outcome).includes("127.0.0.1:") || name === "sends elsewhere",
      JSON.stringify(outcome),
    );
    assert.ok(server.flooded() < 64 * MAX_BYTES, `${server.flooded()} bytes`);
  },
);

Deno.test.each<{ readonly certificate: NonNullable<HostileOptions["certificate"]> }>([
  { certificate: "foreign CA" },
  { certificate: "other address" },
  { certificate: "expired" },
])("no token is shown to an API server whose certificate is wrong: $certificate", async ({ certificate }) => {
  await using server = await startHostile({ treat: () => TREATMENTS["sends nothing"], certificate });
  using client = new ApiServer({ url: server.apiServer, ca: server.caPem, clock: systemClock });
  assert.equal((await client.request(REQUEST)).kind, "untrusted");
  assert.deepEqual(server.requests, []);
});

Deno.test("a hostile API server can stand before a cluster, and change one answer", async () => {
  await using cluster = await startCluster("embedded");
  const namespace = await cluster.createNamespace();
  const token = await cluster.mintToken(await cluster.createAccount(namespace, "agent"));
  await using server = await startHostile({
    behind: cluster,
    treat: (_request, count) => count === 1 ? { kind: "pass" } : TREATMENTS["knows no such credential"],
  });
  using client = new ApiServer({ url: server.apiServer, ca: server.caPem, clock: systemClock });
  const path = `/api/v1/namespaces/${namespace}/pods`;
  const statuses = [];
  for (let time = 0; time < 2; time += 1) {
    const outcome = await client.request({ ...REQUEST, path, token });
    statuses.push(outcome.kind === "answered" ? outcome.status : outcome.kind);
  }
  assert.deepEqual(statuses, [403, 401]);
});
