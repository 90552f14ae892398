import assert from "node:assert/strict";
import { Agent } from "../demo/agent.ts";
import { CLUSTER, enrollCluster, signRequest } from "../kubernetes/enroll.ts";
import {
  failure,
  type SeenRequest,
  startHostile,
  type Treatment,
  TREATMENTS,
} from "../kubernetes/hostile.ts";
import { startCluster } from "../kubernetes/start.ts";
import { poll } from "../stage/poll.ts";
import { editConfig, post, runBrokerCtl } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";

const RULES = [
  { verbs: ["get", "list", "logs"], namespaces: ["<ns>"], effect: "allow" },
  { verbs: ["apply"], resources: ["configmaps"], namespaces: ["<ns>"], effect: "allow" },
] as const;

/** The agent's result for an API server without a usable answer. */
const FAILURES = {
  "closes without an answer": /: could not reach the API server$/,
  "closes in the body": /: could not reach the API server$/,
  "resets": /: could not reach the API server$/,
  "resets in a chunk": /: could not reach the API server$/,
  "speaks no HTTP": /: could not reach the API server$/,
  "has two lengths": /: could not reach the API server$/,
  "has a head without end": /: could not reach the API server$/,
  "sends no JSON": /: the answer is not JSON$/,
  "sends nothing": /: the answer is not JSON$/,
  "sends HTML": /: the answer is not JSON$/,
  "sends HTML with a 502": /: 502 /,
  "fails": /: 500 etcdserver: request timed out/,
  "knows no such credential": /: 401 Unauthorized \(the token has expired or was revoked/,
  "forbids": /: 403 pods is forbidden: User /,
  "is busy": /: 429 /,
  "sends elsewhere": /: 307 redirects are not followed$/,
  "floods": /: response exceeds \d+-byte limit/,
} as const satisfies Partial<Record<keyof typeof TREATMENTS, RegExp>>;

/** Some requests that the broker rejects before it contacts any service. The broker's own tests have all. */
const REFUSED: readonly {
  readonly name: string;
  readonly tool: string;
  readonly args: Record<string, unknown>;
}[] = [
  { name: "a way up", tool: "get", args: { resource: "pods", name: ".." } },
  { name: "a subresource", tool: "get", args: { resource: "pods/exec", name: "a" } },
  {
    name: "a key twice",
    tool: "apply",
    args: { manifest: manifest({ name: "settings" }).replace("{", '{"kind":"Secret",') },
  },
];

function manifest(metadata: object): string {
  return JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata, data: { a: "1" } });
}

Deno.test("an agent gets an error for an invalid API server response, without address or token, and requests are sent once", () =>
  withStage({}, async (stage) => {
    await using cluster = await startCluster("embedded");
    let treat: (request: SeenRequest) => Treatment | Promise<Treatment> = () => ({ kind: "pass" });
    await using server = await startHostile({
      behind: cluster,
      // Valid only for the broker's requests.
      treat: (request) => request.path.includes("/namespaces/gateway-") ? { kind: "pass" } : treat(request),
    });
    const { apiServer, caPem } = server;
    const { namespace } = await enrollCluster(stage, cluster, { rules: RULES, apiServer, caPem });
    for (const name of ["web-1", "web-2"]) {
      await cluster.runPod({ namespace, name, containers: { app: "one\n" } });
    }
    await stage.startSigner();
    const agent = await Agent.start(await stage.mcpCommand(), new AbortController().signal);
    stage.defer(() => agent.close());
    const call = (tool: string, args: Record<string, unknown>) =>
      agent.callTool(`k8s_${tool}`, { cluster: CLUSTER, namespace, ...args });
    const get = () => call("get", { resource: "pods", name: "web-1" });
    // Requests that every API server rejects are rejected before a token is requested.
    const apply = { resource: "configmaps", name: "settings" };
    for (const { name, tool, args } of REFUSED) {
      const { isError, text } = await call(tool, { ...(tool === "apply" ? apply : {}), ...args });
      assert.equal(isError, true, `${name}: ${text}`);
    }
    const unknown = await call("get", { cluster: "nosuch", resource: "pods", name: "a" });
    assert.equal(
      unknown.text,
      'unknown cluster: "nosuch"\nCall k8s_list_clusters to see the names you may use.',
    );
    assert.equal(server.requests.length, 0);

    const good = await get();
    assert.equal(good.isError, false, good.text);
    const port = new URL(apiServer).port;

    for (const [name, says] of Object.entries(FAILURES)) {
      treat = () => TREATMENTS[name as keyof typeof FAILURES];
      const before: number = server.requests.length;
      const { isError, text } = await get();
      assert.equal(isError, true, `${name}: ${text}`);
      assert.match(text, /^k8s: GET \/api\/v1\/namespaces\/shop-\w+\/pods\/web-1: /, name);
      assert.match(text, says, name);
      assert.ok(!text.includes(port), `${name}: ${text}`);
      const asked = server.requests.slice(before).filter(({ method }) => method === "GET");
      assert.equal(asked.length, 1, name);
    }

    treat = ({ token }) => failure(400, "BadRequest", `you sent Bearer ${token}`);
    assert.match((await get()).text, /: 400 you sent Bearer \[token\]$/);

    // A token expires while a list is read in parts. A partial list must not be returned.
    treat = ({ path }) => path.includes("continue=") ? TREATMENTS["knows no such credential"] : listOfOne();
    const list = await call("list", { resource: "pods" });
    assert.equal(list.isError, true, list.text);
    assert.match(list.text, /: 401 Unauthorized \(the token has expired/);

    treat = () => TREATMENTS.floods;
    const log = await call("logs", { pod: "web-1", tail_lines: 1_000_000 });
    assert.equal(log.isError, true);
    assert.match(log.text, /: response exceeds \d+-byte limit.*tail_lines/);

    // A broker can reach only API servers that its config names.
    const config = await Deno.readTextFile(stage.init.mcp_config);
    await editConfig(stage.init.mcp_config, [{ path: ["api_servers"] }]);
    const other = await Agent.start(await stage.mcpCommand(), new AbortController().signal);
    stage.defer(() => other.close());
    await Deno.writeTextFile(stage.init.mcp_config, config);
    const before = server.requests.filter(({ method }) => method === "GET").length;
    const foreign = await other.callTool("k8s_list", { cluster: CLUSTER, namespace, resource: "pods" });
    assert.equal(foreign.isError, true);
    assert.match(
      foreign.text,
      /: this broker must not connect to the API server \(api_servers in its config\)$/,
    );
    assert.equal(server.requests.filter(({ method }) => method === "GET").length, before);

    // Freezes the broker between the token and its use.
    treat = async () => {
      await freezeBroker();
      // On a busy machine, the signer deletes the Secret of the token after its answer.
      await poll(() => server.requests.some(({ method }) => method === "DELETE"), { what: "the revocation" });
      return { kind: "pass" };
    };
    const frozen = await get();
    assert.equal(frozen.isError, true, frozen.text);
    assert.match(frozen.text, /: 401 Unauthorized \(the token has expired or was revoked/);

    async function freezeBroker(): Promise<void> {
      const args = ["freeze", "--caller", "broker-local", "--client-config", stage.init.client_config];
      assert.ok((await runBrokerCtl(args, stage.init.folder)).success);
    }
  }));

function listOfOne(): Treatment {
  const list = {
    kind: "PodList",
    apiVersion: "v1",
    metadata: { continue: "more" },
    items: [{ metadata: { name: "a" } }],
  };
  return { kind: "answer", status: 200, body: JSON.stringify(list) };
}

const MINTING = /^minting token for gateway-\w+\/agent on "prod": /;

/** The signer's answer if an API server creates no token: 403 if the API server rejects, else 502. */
const REFUSALS = {
  "closes without an answer": [502, /could not reach the API server$/],
  "closes in the body": [502, /could not reach the API server$/],
  "resets": [502, /could not reach the API server$/],
  "resets in a chunk": [502, /could not reach the API server$/],
  "speaks no HTTP": [502, /could not reach the API server$/],
  "has two lengths": [502, /could not reach the API server$/],
  "has a head without end": [502, /could not reach the API server$/],
  "sends no JSON": [502, /the API server's answer is not JSON$/],
  "sends nothing": [502, /the API server's answer is not JSON$/],
  "sends HTML": [502, /the API server's answer is not JSON$/],
  "sends HTML with a 502": [502, /: 502$/],
  "fails": [502, /: 500 etcdserver: request timed out, \[address\]$/],
  "knows no such credential": [403, /the API server rejects the credential in token_file; renew it$/],
  "forbids": [403, /: 403 pods is forbidden: User .* cannot list resource/],
  "is busy": [502, /: 429$/],
  "sends elsewhere": [502, /: 307$/],
  "floods": [502, /the API server's answer is too large$/],
} as const satisfies Partial<Record<keyof typeof TREATMENTS, readonly [number, RegExp]>>;

Deno.test("a signer rejects an invalid API server response, reveals no address and sends one request", () =>
  withStage({}, async (stage) => {
    await using cluster = await startCluster("embedded");
    let treatment: Treatment = { kind: "pass" };
    await using server = await startHostile({ behind: cluster, treat: () => treatment });
    const { apiServer, caPem } = server;
    const { namespace } = await enrollCluster(stage, cluster, {
      apiServer,
      caPem,
      bindTokens: false,
      rules: [{ verbs: ["list"], resources: ["pods"], effect: "allow" }],
    });
    await stage.startSigner();
    const broker = await stage.signerClient("broker");
    const sign = async () => {
      const before = server.requests.length;
      const { status, text, body } = await post(
        broker,
        "/v1/sign",
        signRequest({ verb: "list", resource: "pods", namespace }),
      );
      return { status, text, body: body as Record<string, string>, asked: server.requests.length - before };
    };
    const { status, body, text } = await sign();
    assert.equal(status, 200, text);
    assert.ok(body.k8s_token);

    const log = await Deno.readTextFile(stage.init.signer_audit_log);
    for (const [name, [status, says]] of Object.entries(REFUSALS)) {
      treatment = TREATMENTS[name as keyof typeof REFUSALS];
      const refused = await sign();
      assert.equal(refused.status, status, `${name}: ${refused.text}`);
      assert.match(refused.body.detail ?? "", MINTING, name);
      assert.match(refused.body.detail ?? "", says, name);
      assert.doesNotMatch(refused.text, /127\.0\.0\.1|10\.0\.0\.7|proxy\.example|k8s_token/, name);
      assert.equal(refused.asked, 1, name);
    }
    const records = (await Deno.readTextFile(stage.init.signer_audit_log)).slice(log.length).trim().split(
      "\n",
    );
    assert.deepEqual(
      records.map((line) => JSON.parse(line).outcome),
      Object.keys(REFUSALS).map(() => "denied"),
    );

    treatment = { kind: "pass" };
    assert.equal((await sign()).status, 200);
  }));
