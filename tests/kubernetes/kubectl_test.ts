import assert from "node:assert/strict";
import { isMissing } from "../stage/is_missing.ts";
import { withStage } from "../stage/with_stage.ts";
import { CLUSTER, enrolCluster, signRequest } from "./enrol.ts";
import { availableKinds, startCluster } from "./start.ts";

const ignore = isMissing("kubectl", ["/usr/bin/kubectl", "/usr/local/bin/kubectl"]) ||
  !availableKinds().includes("real");

const RULES = [{
  verbs: ["get", "list"],
  resources: ["pods"],
  namespaces: ["<ns>"],
  effect: "allow",
}] as const;

/** What somebody does with a token that he was not to have; `<ns>` is where its account may read pods. */
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

Deno.test({
  name: "kubectl with a token of the signer's may do what the rules allow, and nothing else",
  ignore,
  fn: () =>
    withStage({}, async (stage) => {
      await using cluster = await startCluster("real");
      const { namespace, agent } = await enrolCluster(stage, cluster, { rules: RULES });
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
});
