import assert from "node:assert/strict";
import type { ClusterAction } from "@gateway/shared/policy";
import { ACTIONS } from "../testing/fake_cluster.ts";
import { type ActionOptions, requestFor } from "./ask.ts";

Deno.test.each<{ name: string; action: ClusterAction; options?: ActionOptions; line: string }>([
  { name: "get", action: ACTIONS.getPod, line: "GET /api/v1/namespaces/prod/pods/web-1" },
  {
    name: "delete of what has no namespace",
    action: ACTIONS.deleteNode,
    line: "DELETE /api/v1/nodes/node-1",
  },
  {
    name: "logs",
    action: ACTIONS.logs,
    line: "GET /api/v1/namespaces/prod/pods/web-1/log?tailLines=200&limitBytes=101",
  },
  {
    name: "logs of a container",
    action: ACTIONS.logs,
    options: { container: "a&tailLines=1#?", tailLines: 5, sinceSeconds: 60 },
    line: "GET /api/v1/namespaces/prod/pods/web-1/log" +
      "?container=a%26tailLines%3D1%23%3F&tailLines=5&sinceSeconds=60&limitBytes=101",
  },
  {
    name: "logs with numbers that do not count",
    action: ACTIONS.logs,
    options: { tailLines: 0, sinceSeconds: -1 },
    line: "GET /api/v1/namespaces/prod/pods/web-1/log?tailLines=200&limitBytes=101",
  },
  {
    name: "apply",
    action: ACTIONS.applyDeployment,
    options: { manifest: "{}" },
    line: "PATCH /apis/apps/v1/namespaces/prod/deployments/api?fieldManager=gateway",
  },
])("requestFor() asks for $name", ({ action, options = {}, line }) => {
  const { method, path, query } = requestFor(action, options, { maxBytes: 100 });
  assert.equal(`${method} ${path}${query}`, line);
});

Deno.test("requestFor() sends a manifest byte for byte, and does not force", () => {
  const manifest = '{ "kind" :\t"Deployment", "a": "ü" }\n';
  const { body, query } = requestFor(ACTIONS.applyDeployment, { manifest }, { maxBytes: 100 });
  assert.equal(body?.type, "application/apply-patch+yaml");
  assert.equal(new TextDecoder().decode(body?.bytes), manifest);
  assert.ok(!query.includes("force"));
});

Deno.test("requestFor() refuses an object without the namespace that it has to be in", () => {
  for (const verb of ["get", "apply", "delete"] as const) {
    assert.throws(
      () => requestFor({ ...ACTIONS.getPod, verb, namespace: "" }, {}, { maxBytes: 100 }),
      new RegExp(`k8s ${verb} of pods requires a namespace`),
    );
  }
});

Deno.test.each<
  { name: string; action: ClusterAction; options?: ActionOptions; after?: string; line: string }
>([
  { name: "all namespaces", action: ACTIONS.listPods, line: "/api/v1/pods?limit=7" },
  { name: "a namespace", action: ACTIONS.listSecrets, line: "/api/v1/namespaces/prod/secrets?limit=7" },
  {
    name: "what selectors match, from where a page has ended",
    action: ACTIONS.listPods,
    options: { labelSelector: "app in (a,b)", fieldSelector: "status.phase=Running" },
    after: "x/+=",
    line: "/api/v1/pods?labelSelector=app%20in%20(a%2Cb)&fieldSelector=status.phase%3DRunning&limit=7" +
      "&continue=x%2F%2B%3D",
  },
  {
    name: "half a character",
    action: ACTIONS.listPods,
    options: { labelSelector: "\ud800" },
    line: "/api/v1/pods?labelSelector=%EF%BF%BD&limit=7",
  },
])("requestFor() asks for a page of $name", ({ action, options = {}, after, line }) => {
  const { method, path, query } = requestFor(action, options, { maxBytes: 100, limit: 7, after });
  assert.equal(`${method} ${path}${query}`, `GET ${line}`);
});
