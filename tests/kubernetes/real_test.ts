import assert from "node:assert/strict";
import { poll } from "../stage/poll.ts";
import { findAssets } from "./real.ts";
import { startCluster } from "./start.ts";

const ignore = "problem" in findAssets() && Deno.env.get("REQUIRE_REAL_SERVERS") !== "1";

Deno.test({
  name: "the real API server mints, authorizes, hands out logs and writes its audit log",
  ignore,
  fn: async () => {
    await using cluster = await startCluster("real");
    const namespace = await cluster.createNamespace("shop");
    const agent = await cluster.createAccount(namespace, "agent");
    await cluster.grantRole(agent, [{
      apiGroups: [""],
      resources: ["pods", "pods/log"],
      verbs: ["get", "list"],
    }]);
    const minter = await cluster.createMinter(namespace, [agent], { leases: true });
    await cluster.runPod({ namespace, name: "web-1", containers: { app: "one\ntwo\nthree\n" } });

    const minting = await cluster.connectAs(minter);
    const minted = await minting.must({
      method: "POST",
      path: `/api/v1/namespaces/${namespace}/serviceaccounts/agent/token`,
      body: {
        apiVersion: "authentication.k8s.io/v1",
        kind: "TokenRequest",
        spec: { expirationSeconds: 600 },
      },
    });
    const { token } = minted.status as { readonly token: string };
    const api = cluster.connect({ token });
    const log = `/api/v1/namespaces/${namespace}/pods/web-1/log?tailLines=2`;
    assert.equal((await api.ask({ path: log })).text, "two\nthree\n");
    assert.equal((await api.ask({ path: `/api/v1/namespaces/${namespace}/secrets` })).status, 403);
    assert.equal((await cluster.connect({ token: "x" }).ask({ path: log })).status, 401);

    const { jti } = JSON.parse(atob((token.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/")));
    await poll(async () => {
      const text = JSON.stringify(
        (await cluster.auditEvents()).map(({ annotations, user }) => [annotations, user]),
      );
      return text.includes(`"authentication.kubernetes.io/issued-credential-id":"JTI=${jti}"`) &&
        text.includes(`"authentication.kubernetes.io/credential-id":["JTI=${jti}"]`);
    }, { what: "the token's id in the audit log" });
  },
});
