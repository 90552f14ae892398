import assert from "node:assert/strict";
import { Agent } from "../demo/agent.ts";
import { CLUSTER, enrollCluster, signRequest } from "../kubernetes/enroll.ts";
import { type SeenRequest, startHostile, type Treatment, TREATMENTS } from "../kubernetes/hostile.ts";
import { startCluster } from "../kubernetes/start.ts";
import { signBody } from "../bench/sign_request.ts";
import { poll } from "../stage/poll.ts";
import type { ServiceProcess } from "../stage/service_process.ts";
import { share } from "../stage/share.ts";
import { post, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";

const RULES = [
  { verbs: ["get", "list"], namespaces: ["<ns>"], effect: "allow" },
  { verbs: ["apply"], resources: ["configmaps"], namespaces: ["<ns>"], effect: "require_approval" },
] as const;

/** Behaviors of an API server that accepts a request but does not answer. */
const SILENCES = ["hangs before the answer", "hangs in the head", "hangs in the body", "drips"] as const;

interface HangingScene {
  readonly stage: Stage;
  readonly signer: ServiceProcess;
  readonly namespace: string;
  /** The requests since the last call of `treat()`. */
  readonly seen: () => readonly SeenRequest[];
  readonly treat: (treatment: (request: SeenRequest) => Treatment) => void;
}

/** A signer with an API server whose behavior the test sets. */
const withHanging = share<HangingScene>((use) => {
  // The signer creates previews only for forwarders.
  const signer = [{ path: ["trusted_forwarders"], value: ["broker-local"] }];
  return withStage({ signer }, async (stage) => {
    await using cluster = await startCluster("embedded");
    let treatment: (request: SeenRequest) => Treatment = () => ({ kind: "pass" });
    await using server = await startHostile({ behind: cluster, treat: (request) => treatment(request) });
    const { apiServer, caPem, requests } = server;
    const { namespace } = await enrollCluster(stage, cluster, {
      rules: RULES,
      apiServer,
      caPem,
      bindTokens: false,
    });
    let first = 0;
    await use({
      stage,
      signer: await stage.startSigner(),
      namespace,
      seen: () => requests.slice(first),
      treat(next) {
        treatment = next;
        first = requests.length;
      },
    });
  });
});

Deno.test("a signer waits 8 s for a token and 4 s for a preview, and serves other requests meanwhile", () =>
  withHanging(async ({ stage, namespace, seen, treat }) => {
    const broker = await stage.signerClient("broker");
    const sign = (body: unknown) => post(broker, "/v1/sign", body);
    const ended: string[] = [];
    const noted = async <T>(name: string, wait: Promise<T>) => {
      const result = await wait;
      ended.push(name);
      return result;
    };
    const silences = SILENCES.map((name) => TREATMENTS[name]);
    treat(({ path, method }) => {
      if (method === "GET") return TREATMENTS["drips"];
      return path.endsWith("/token") && silences.shift() || { kind: "pass" };
    });
    const list = signRequest({ verb: "list", resource: "pods", namespace });
    const minting = SILENCES.map((name) => noted("token", sign(list)).then((answer) => ({ name, answer })));
    await poll(() => Promise.resolve(seen().length === SILENCES.length), { what: "the requests for tokens" });
    const previewed = noted(
      "preview",
      sign({
        ...(signRequest({ verb: "apply", resource: "configmaps", namespace, name: "settings" }) as object),
        k8s_manifest: JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" } }),
      }),
    );
    await poll(() => Promise.resolve(seen().some(({ method }) => method === "GET")), { what: "the preview" });
    for (let count = 0; count < 5; count++) {
      assert.equal((await sign(JSON.parse(signBody()))).status, 200, "a certificate");
      assert.equal((await sign(list)).status, 200, "a token that the API server gives");
    }
    assert.deepEqual(ended, [], "nothing of it has waited");

    const { status, text, body } = await previewed;
    assert.equal(status, 200, text);
    const { k8s_diff } = body as { readonly k8s_diff: unknown };
    assert.deepEqual(k8s_diff, { kind: "unknown", reason: "the API server did not return a usable answer" });
    for (const { name, answer } of await Promise.all(minting)) {
      assert.equal(answer.status, 502, name);
      assert.match(answer.text, /minting token for .*: the API server did not answer in time/, name);
    }
    assert.deepEqual(ended, ["preview", ...SILENCES.map(() => "token")]);
  }));

Deno.test("a broker whose API server hangs serves other calls, and exits during the hanging call", () =>
  withHanging(async ({ stage, namespace, seen, treat }) => {
    treat(({ path }) => path.endsWith("/slow") ? TREATMENTS["drips"] : { kind: "pass" });
    const agent = await Agent.start(await stage.mcpCommand(), new AbortController().signal);
    const get = (name: string) =>
      agent.callTool("k8s_get", { cluster: CLUSTER, namespace, resource: "configmaps", name });
    let isOver = false;
    const slow = get("slow").catch(() => {}).finally(() => isOver = true);
    await poll(() => Promise.resolve(seen().some(({ path }) => path.endsWith("/slow"))), {
      what: "the request",
    });
    for (let count = 0; count < 3; count++) assert.match((await get("other")).text, /: 404 /);
    const { isError, text } = await agent.execute("web01", "uptime");
    assert.equal(isError, false, text);
    assert.equal(isOver, false);
    await agent.close();
    await slow;
  }));

Deno.test("a signer that is stopped while an API server hangs exits cleanly", () =>
  withHanging(async ({ stage, signer, namespace, seen, treat }) => {
    const broker = await stage.signerClient("broker");
    treat(() => TREATMENTS["hangs before the answer"]);
    const body = signRequest({ verb: "list", resource: "pods", namespace });
    const asked = post(broker, "/v1/sign", body).then(
      ({ status }) => status,
      () => "closed",
    );
    await poll(() => Promise.resolve(seen().length === 1), { what: "the request for a token" });
    assert.equal((await signer.stop()).code, 0);
    assert.notEqual(await asked, 200);
  }));
