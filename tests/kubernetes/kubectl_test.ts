import assert from "node:assert/strict";
import { isMissing } from "../stage/is_missing.ts";
import { withStage } from "../stage/with_stage.ts";
import { CLUSTER, enrollCluster, signRequest } from "./enroll.ts";
import { availableKinds, startCluster } from "./start.ts";
import { poll } from "../stage/poll.ts";
import { play, setContractScene } from "./contract.ts";
import { ACCESS, TOKENS } from "./contract_access.ts";
import { APPLIES, CUSTOM, ENDINGS, LISTS, LOGS } from "./contract_objects.ts";
import { systemClock } from "@gateway/shared/clock";
import { type ApiOutcome, type ApiRequest, ApiServer } from "../../shared/kubernetes/mod.ts";
import { type HostileOptions, startHostile, TREATMENTS } from "./hostile.ts";

const ignore = isMissing("kubectl", ["/usr/bin/kubectl", "/usr/local/bin/kubectl"]) ||
  !availableKinds().includes("real");

const RULES = [{
  verbs: ["get", "list"],
  resources: ["pods"],
  namespaces: ["<ns>"],
  effect: "allow",
}] as const;

/** Uses of a token by an attacker; `<ns>` is the namespace whose pods its account may read. */
const REFUSED: readonly (readonly [args: string, says: RegExp])[] = [
  ["-n default get pods", /cannot list resource "pods"/],
  ["-n <ns> get secrets", /cannot list resource "secrets"/],
  ["-n <ns> delete pod web-1", /cannot delete resource "pods"/],
  ["-n <ns> exec web-1 -- sh", /cannot (create|get) resource "pods\/exec"/],
  ["-n <ns> label pod web-1 a=b", /cannot patch resource "pods"/],
  ["-n <home> create token agent", /cannot create resource "serviceaccounts\/token"/],
  ["-n <home> get secrets", /cannot list resource "secrets"/],
  ["-n <ns> get pods --as=system:admin", /impersonat/],
];

Deno.test(
  "kubectl with a token of the signer can do only what the rules allow",
  { ignore },
  () =>
    withStage({}, async (stage) => {
      await using cluster = await startCluster("real");
      const { namespace, agent } = await enrollCluster(stage, cluster, { rules: RULES });
      await cluster.runPod({ namespace, name: "web-1", containers: { app: "one\n" } });
      await stage.startSigner();
      const broker = await stage.signerClient("broker");
      const { status, text, body } = await broker.request({
        method: "POST",
        path: "/v1/sign",
        body: signRequest({ verb: "get", resource: "pods", namespace, name: "web-1" }),
      });
      assert.equal(status, 200, text);
      const ca = `${stage.init.folder}/cluster.ca.crt`;
      const config = `${stage.init.folder}/kubeconfig`;
      await Deno.writeTextFile(
        config,
        JSON.stringify({
          apiVersion: "v1",
          kind: "Config",
          "current-context": CLUSTER,
          contexts: [{ name: CLUSTER, context: { cluster: CLUSTER, user: "thief" } }],
          clusters: [{
            name: CLUSTER,
            cluster: { server: cluster.apiServer, "certificate-authority": ca },
          }],
          users: [{ name: "thief", user: { token: (body as { readonly k8s_token: string }).k8s_token } }],
        }),
      );
      const kubectl = async (args: string) => {
        const words = args.replaceAll("<ns>", namespace).replaceAll("<home>", agent.namespace).split(" ");
        const { success, stdout, stderr } = await new Deno.Command("kubectl", {
          args: [`--kubeconfig=${config}`, `--cache-dir=${stage.init.folder}/kubectl`, ...words],
          stdin: "null",
          env: { HOME: stage.init.folder },
        }).output();
        const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
        return { success, out: decode(stdout), err: decode(stderr) };
      };
      assert.match((await kubectl("auth whoami -o json")).out, new RegExp(`${agent.namespace}:agent`));
      const pods = await kubectl("-n <ns> get pods -o name");
      assert.deepEqual([pods.out, pods.success], ["pod/web-1\n", true], pods.err);
      assert.ok((await kubectl("-n <ns> get pod web-1")).success);
      for (const [args, says] of REFUSED) {
        const { success, err } = await kubectl(args);
        assert.equal(success, false, args);
        assert.match(err, says, `${args}: ${err}`);
      }
    }),
);

Deno.test.each(availableKinds().map((kind) => ({ kind })))(
  "the audit log of the $kind API server contains a token's ID at its issue and at each use",
  async ({ kind }) => {
    await using cluster = await startCluster(kind);
    const namespace = await cluster.createNamespace();
    const agent = await cluster.createAccount(namespace, "agent");
    const token = await cluster.mintToken(agent);
    await cluster.connect({ token }).ask({
      path: `/api/v1/namespaces/${namespace}/pods/web/log?tailLines=1`,
    });
    const payload = token.split(".")[1] ?? "";
    const { jti } = JSON.parse(
      new TextDecoder().decode(Uint8Array.fromBase64(payload, { alphabet: "base64url" })),
    );

    const found: Record<string, unknown> = {};
    await poll(async () => {
      for (const event of await cluster.auditEvents()) {
        const text = JSON.stringify(event);
        const { annotations = {}, objectRef, responseStatus } = event as Record<
          string,
          Record<string, unknown>
        >;
        if (event.stage !== "ResponseComplete" || !text.includes(jti)) continue;
        const issued = annotations["authentication.kubernetes.io/issued-credential-id"] === `JTI=${jti}`;
        found[issued ? "issue" : "use"] = [event.verb, objectRef, responseStatus?.code];
      }
      return "use" in found;
    }, { what: "the use of the token in the audit log" });
    assert.deepEqual(found, {
      issue: [
        "create",
        { resource: "serviceaccounts", namespace, name: "agent", apiVersion: "v1", subresource: "token" },
        201,
      ],
      use: ["get", { resource: "pods", namespace, name: "web", apiVersion: "v1", subresource: "log" }, 403],
    });
  },
);

const PARTS = {
  access: ACCESS,
  tokens: TOKENS,
  applies: APPLIES,
  lists: LISTS,
  logs: LOGS,
  "custom resources": CUSTOM,
  endings: ENDINGS,
};

Deno.test.each(Object.entries(PARTS).map(([name, steps]) => ({ name, steps })))(
  "API servers agree about $name",
  async ({ steps }) => {
    const answers = [];
    for (const kind of availableKinds()) {
      await using cluster = await startCluster(kind);
      answers.push(await play(await setContractScene(cluster, steps), steps));
    }
    const [first, ...others] = answers;
    for (const other of others) {
      for (const [index, answer] of other.entries()) assert.deepEqual(answer, first?.[index]);
    }
  },
);

const MAX_BYTES = 524_288;

const REQUEST: ApiRequest = {
  method: "GET",
  path: "/api/v1/namespaces/shop/pods/web/log",
  token: "secret-token",
  timeoutMs: 60_000,
  maxBytes: MAX_BYTES,
};

/** The results of our client for each; callers check `answered`. */
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
  "a request to an API server that $name ends, is sent once and reveals no address",
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
])("no token is sent to an API server with a wrong certificate: $certificate", async ({ certificate }) => {
  await using server = await startHostile({ treat: () => TREATMENTS["sends nothing"], certificate });
  using client = new ApiServer({ url: server.apiServer, ca: server.caPem, clock: systemClock });
  assert.equal((await client.request(REQUEST)).kind, "untrusted");
  assert.deepEqual(server.requests, []);
});
