import assert from "node:assert/strict";
import { CORE_RESOURCES, parseClusterAction } from "@gateway/shared/policy";
import { run } from "../adapters/ctl_fixture.ts";
import { poll } from "../stage/poll.ts";
import { Stage } from "../stage/stage.ts";
import { enrolCluster } from "./enrol.ts";
import { startCluster } from "./start.ts";

interface JoinedRecord {
  readonly record: { readonly outcome: string };
  readonly issued: readonly unknown[];
  readonly used: readonly Readonly<Record<string, unknown>>[];
}

Deno.test("an operator enrols a cluster, checks it, grants more on it, and follows a token through both audit logs", async () => {
  const dir = await Deno.makeTempDir({ prefix: "k8s-operator-" });
  await using _folder = { [Symbol.asyncDispose]: () => Deno.remove(dir, { recursive: true }) };
  await using cluster = await startCluster();
  await using stage = await Stage.create({ dir, targetKind: "embedded" });
  const { init } = stage;
  const { namespace } = await enrolCluster(stage, cluster, {
    rules: [
      { verbs: ["get"], resources: ["pods"], namespaces: ["<ns>"], effect: "allow" },
      { verbs: ["list"], resources: ["configmaps"], namespaces: ["<ns>"], names: ["none"], effect: "allow" },
    ],
  });
  await stage.startSigner();
  const ctl = (...args: string[]) => run(init.folder, ...args);
  const asOperator = (...args: string[]) => ctl(...args, "--client-config", init.client_config);

  const checked = await ctl("cluster", "check", "prod", "--config", init.signer_config);
  assert.deepEqual([checked.err, checked.exit], ["", 0], checked.out);
  const pair = ["--cert", init.broker.cert, "--key", init.broker.key];
  const listed = await asOperator("cluster", "list", "--remote", ...pair);
  assert.match(listed.out, new RegExp(`^prod +${cluster.apiServer} +local +—$`, "m"), listed.err);

  const broker = await stage.signerClient("broker");
  const sign = async (verb: string, resource: string, name: string) => {
    const asked = { verb, resource, group: "", namespace, name };
    const parsed = parseClusterAction(CORE_RESOURCES, asked);
    assert.equal(parsed.kind, "ok");
    return await broker.request({
      method: "POST",
      path: "/v1/sign",
      body: {
        host: "prod",
        command: parsed.action.text,
        target_type: "k8s",
        role: "target",
        purpose: "oneshot",
        k8s_verb: verb,
        k8s_resource: resource,
        k8s_namespace: namespace,
        k8s_name: name,
        reason: "ticket jti=forged",
      },
    });
  };
  const { status, body } = await sign("get", "pods", "shop-1");
  assert.equal(status, 200);
  const { k8s_token: token } = body as { readonly k8s_token: string };
  const api = cluster.connect({ token });
  const pods = `/api/v1/namespaces/${namespace}/pods`;
  assert.equal((await api.ask({ path: `${pods}/shop-1` })).status, 404);

  // The rules allow no list: the grant does, and the cluster itself still refuses it.
  assert.equal((await sign("list", "pods", "")).status, 403);
  const action = `list pods ${namespace}/*`;
  const granted = await asOperator("policy", "grant", "--cluster", "prod", "--action", action, "--ttl", "5m");
  assert.match(granted.out, /^granted on prod: allow /, granted.err);
  assert.equal((await sign("list", "pods", "")).status, 200);

  const join = (...args: string[]) =>
    ctl("audit", "show", "--log", init.signer_audit_log, "--join", cluster.auditLog, ...args);
  await poll(async () => (await Deno.readTextFile(cluster.auditLog)).includes(`${pods}/shop-1`), {
    what: "the use in the API server's audit log",
  });
  const joined = JSON.parse((await join("--json")).out);
  // What check made to look at rights, and said so.
  const [, id = ""] = /a token was made for this check, id (\S+)/.exec(checked.out) ?? [];
  const idsOf = (events: readonly Record<string, unknown>[]) =>
    new Set(events.map((event) => event["jti"] ?? event["issued_jti"]));
  assert.ok(idsOf(joined.unexplained).has(id));
  const explained = JSON.parse((await join("--json", "--checked", id)).out);
  assert.ok(!idsOf(explained.unexplained).has(id));
  assert.deepEqual(
    joined.records.map(({ record, issued, used }: JoinedRecord) => [
      record.outcome,
      issued.length,
      used.map((use) => [use["verb"], use["status"], use["as_recorded"]]),
    ]),
    [["issued", 1, [["get", 404, true]]], ["issued", 1, []]],
  );
  assert.equal(JSON.stringify(joined.records).includes('"jti":"forged"'), false);
});
