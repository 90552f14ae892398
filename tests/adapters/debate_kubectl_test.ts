import assert from "node:assert/strict";
import { realTools, temporaryFolder } from "./debate_tools_fixture.ts";
import { isMissing } from "../stage/is_missing.ts";

const ignore = isMissing("kubectl", ["/usr/bin/kubectl", "/usr/local/bin/kubectl"]);

const resource = (name: string, singularName: string, kind: string, shortNames: readonly string[]) => ({
  name,
  singularName,
  namespaced: true,
  kind,
  verbs: ["get", "list"],
  shortNames,
});

const POD = {
  kind: "Pod",
  apiVersion: "v1",
  metadata: { name: "web-1", namespace: "prod", creationTimestamp: "2026-01-01T00:00:00Z" },
  spec: { containers: [{ name: "app", image: "web:1", env: [{ name: "DB_PASSWORD", value: "hunter2" }] }] },
  status: { phase: "Running" },
};

/** As much of a Kubernetes API as kubectl asks for; every request is kept. */
function serveKubernetes() {
  const seen: string[] = [];
  const answers: Readonly<Record<string, unknown>> = {
    "/version": { major: "1", minor: "30", gitVersion: "v1.30.0" },
    "/api": { kind: "APIVersions", versions: ["v1"] },
    "/apis": { kind: "APIGroupList", apiVersion: "v1", groups: [] },
    "/api/v1": {
      kind: "APIResourceList",
      groupVersion: "v1",
      resources: [resource("pods", "pod", "Pod", ["po"]), resource("secrets", "secret", "Secret", [])],
    },
    "/api/v1/namespaces/prod/pods": { kind: "PodList", apiVersion: "v1", metadata: {}, items: [POD] },
    "/api/v1/namespaces/prod/pods/web-1": POD,
  };
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
    const { pathname, search } = new URL(request.url);
    seen.push(`${request.method} ${pathname}${search}`);
    if (pathname.endsWith("/log")) {
      return new Response("line 1\nline 2 hunter2\n", { headers: { "content-type": "text/plain" } });
    }
    const answer = answers[pathname];
    if (answer !== undefined) return Response.json(answer);
    return Response.json({
      kind: "Status",
      status: "Failure",
      reason: "NotFound",
      code: 404,
      message: "not found",
    }, { status: 404 });
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    seen,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

Deno.test({
  name: "run_kubectl reads from a cluster and sends nothing but GET",
  ignore,
  fn: async () => {
    await using folder = await temporaryFolder();
    await using server = serveKubernetes();
    await Deno.writeTextFile(
      `${folder.path}/config`,
      JSON.stringify({
        apiVersion: "v1",
        kind: "Config",
        clusters: [{ name: "c", cluster: { server: server.url } }],
        users: [{ name: "u", user: {} }],
        contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
        "current-context": "c",
      }),
    );
    const call = await realTools({ env: { HOME: folder.path, KUBECONFIG: `${folder.path}/config` } });
    const kubectl = (args: string) => call("run_kubectl", { kubectl_args: args });

    const pods = await kubectl("-n prod get pods -o name");
    assert.equal(pods.ok, true, pods.text);
    assert.match(pods.text, /\npod\/web-1$/);
    assert.match(
      (await kubectl("get pod web-1 -n prod -o json")).text,
      /"name": "DB_PASSWORD",\s+"value": "\[REDACTED\]"/,
    );
    assert.match((await kubectl("get po -n prod -o=jsonpath='{.items[0].status.phase}'")).text, /\nRunning$/);
    assert.match((await kubectl("logs web-1 -n prod --tail=2")).text, /line 1\nline 2 \[REDACTED\]$/);
    assert.ok(
      server.seen.some((line) =>
        line.includes("/log?") && line.includes("tailLines=2") && line.includes("limitBytes=")
      ),
    );
    const missing = await kubectl("get pod nope -n prod");
    assert.equal(missing.ok, false);
    assert.match(missing.text, /exit code 1/);

    const before = server.seen.length;
    for (
      const args of [
        "get secrets -n prod",
        "get pods,secrets -n prod",
        "get --raw /api/v1/namespaces/prod/secrets",
        "delete pod web-1 -n prod",
        "get pods --server=http://127.0.0.1:1",
        "exec web-1 -- id",
        `get pods --kubeconfig=${folder.path}/config`,
        "logs -f web-1 -n prod",
        "get pods -n prod -w",
      ]
    ) assert.equal((await kubectl(args)).ok, false, args);
    assert.equal(server.seen.length, before);
    assert.ok(server.seen.every((line) => line.startsWith("GET ")));
  },
});
