import assert from "node:assert/strict";
import { poll } from "../stage/poll.ts";
import { availableKinds, startCluster } from "./start.ts";

Deno.test.each(availableKinds().map((kind) => ({ kind })))(
  "the audit log of the $kind API server has a token's id where it is issued and where it is used",
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
