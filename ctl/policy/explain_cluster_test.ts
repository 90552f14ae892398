import assert from "node:assert/strict";
import { readAction } from "./explain_cluster.ts";

Deno.test.each<{ text: string; read: readonly string[] }>([
  { text: "get deployments.apps prod/api", read: ["get", "deployments", "apps", "prod", "api"] },
  {
    text: " get  ingresses.networking.k8s.io prod/a.b ",
    read: ["get", "ingresses", "networking.k8s.io", "prod", "a.b"],
  },
  { text: "list pods prod", read: ["list", "pods", "", "prod", ""] },
  { text: "list pods prod/-", read: ["list", "pods", "", "prod", ""] },
  { text: "list pods", read: ["list", "pods", "", "", ""] },
  { text: "get nodes -/n1", read: ["get", "nodes", "", "", "n1"] },
])("readAction() reads $text", ({ text, read }) => {
  const [verb, resource, group, namespace, name] = read;
  assert.deepEqual(readAction(text), { verb, resource, group, namespace, name });
});

Deno.test.each(["", "get", "get pods prod web-1", "get pods prod/a/b"].map((text) => ({ text })))(
  "readAction() refuses $text",
  ({ text }) => {
    assert.throws(() => readAction(text), { message: /Cannot read action/ });
  },
);
