import assert from "node:assert/strict";
import { LogFolder } from "../adapters/audit_fixture.ts";
import { run } from "../adapters/ctl_fixture.ts";
import { poll } from "../stage/poll.ts";
import type { Account, Cluster } from "./cluster.ts";
import { availableKinds, startCluster } from "./start.ts";
import { CORE_RESOURCES, parseClusterAction } from "@gateway/shared/policy";
import { post, Stage } from "../stage/stage.ts";
import { enrollCluster } from "./enroll.ts";

const KINDS = availableKinds().map((kind) => ({ kind }));

/** A minter, an account that may read and delete pods, and an audit log of ours with tokens. */
async function setScene(cluster: Cluster) {
  const namespace = await cluster.createNamespace("web");
  const agent = await cluster.createAccount(namespace, "agent");
  await cluster.grantRole(agent, [{ apiGroups: [""], resources: ["pods"], verbs: ["get", "list"] }]);
  const minter = await cluster.createMinter(namespace, [agent]);
  const minting = await cluster.connectAs(minter);
  const mint = async ({ namespace, name }: Account) => {
    const request = {
      method: "POST",
      path: `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`,
      body: {
        apiVersion: "authentication.k8s.io/v1",
        kind: "TokenRequest",
        spec: { expirationSeconds: 600 },
      },
    };
    let answer = await minting.ask(request);
    // A role takes effect a moment after its creation.
    await poll(async () => answer.status === 201 || (answer = await minting.ask(request)).status === 201, {
      what: "a token",
      intervalMs: 100,
    });
    const { token } = JSON.parse(answer.text).status as { readonly token: string };
    const payload = Uint8Array.fromBase64(token.split(".")[1] ?? "", { alphabet: "base64url" });
    const { jti } = JSON.parse(new TextDecoder().decode(payload)) as { readonly jti: string };
    return { jti, api: cluster.connect({ token }) };
  };
  const log = new LogFolder();
  const record = async (action: string, jti: string) => {
    const [verb, resource, place] = action.split(" ");
    const [ns, name] = (place ?? "").split("/");
    const fields = `target=k8s verb=${verb} resource=${resource} ns=${ns} name=${name} user=ann`;
    const file = await log.open();
    const about = { caller: "broker-1", host: cluster.apiServer, target_type: "k8s", request_id: "r-1" };
    await file.append({
      ...about,
      outcome: "issued",
      serial: 7n,
      command: fields,
      command_line: action,
      jti,
    });
    await file.close();
  };
  const join = (...args: string[]) =>
    run(log.folder, "audit", "show", "--log", "audit.log", "--join", cluster.auditLog, ...args);
  const seen = (text: string) =>
    poll(async () => (await Deno.readTextFile(cluster.auditLog)).includes(text), { what: text });
  const pods = `/api/v1/namespaces/${namespace}/pods`;
  return {
    namespace,
    agent,
    mint,
    record,
    join,
    seen,
    pods,
    log,
    [Symbol.asyncDispose]: () => log[Symbol.asyncDispose](),
  };
}

Deno.test.each(KINDS)(
  "audit show --join shows the requests to the cluster with each token ($kind)",
  async ({ kind }) => {
    await using cluster = await startCluster(kind);
    await using scene = await setScene(cluster);
    const { namespace, pods, agent } = scene;
    const [used, unused] = [await scene.mint(agent), await scene.mint(agent)];
    await scene.record(`get pods ${namespace}/shop-1`, used.jti);
    await scene.record(`list pods ${namespace}/-`, unused.jti);
    assert.equal((await used.api.ask({ path: `${pods}/shop-1` })).status, 404);
    await scene.seen(`${pods}/shop-1`);
    const { out, err, exit } = await scene.join();
    assert.deepEqual([err, exit], ["", 0], out);
    const lines = out.split("\n");
    assert.match(lines[0] ?? "", /^TIME +SEQ +CALLER/);
    assert.match(lines[2] ?? "", new RegExp(`^ {4}token ${used.jti}: issued 20\\S+Z; used once$`));
    assert.match(lines[3] ?? "", new RegExp(`^ {6}20\\S+Z {2}get 404 ${pods}/shop-1 from 127\\.0\\.0\\.1$`));
    assert.match(lines[5] ?? "", new RegExp(`^ {4}token ${unused.jti}: issued 20\\S+Z; never used$`));
    assert.deepEqual(lines.slice(6), [""]);
  },
);

Deno.test.each(KINDS)("audit show --join marks uses outside a token's purpose ($kind)", async ({ kind }) => {
  await using cluster = await startCluster(kind);
  await using scene = await setScene(cluster);
  const { namespace, pods, agent } = scene;
  const { jti, api } = await scene.mint(agent);
  await scene.record(`get pods ${namespace}/shop-1`, jti);
  await api.ask({ path: `${pods}/shop-1` });
  await api.ask({ path: pods });
  await api.ask({ path: `/api/v1/namespaces/${namespace}/secrets/shop` });
  await scene.seen(`/namespaces/${namespace}/secrets/shop`);
  const { out, exit } = await scene.join("--json", "--serial", "7");
  assert.equal(exit, 1);
  const { records, unexplained } = JSON.parse(out);
  assert.deepEqual(unexplained, []);
  assert.deepEqual(
    records[0].used.map((use: Record<string, unknown>) => [use["verb"], use["status"], use["as_recorded"]]),
    [["get", 404, true], ["list", 200, false], ["get", 403, false]],
  );
  assert.equal((await scene.join()).out.match(/MISUSED: not issued for this request$/gm)?.length, 2);
});

Deno.test.each(KINDS)("audit show --join marks requests without audit record ($kind)", async ({ kind }) => {
  await using cluster = await startCluster(kind);
  await using scene = await setScene(cluster);
  const { namespace, pods, agent } = scene;
  const ours = await scene.mint(agent);
  await scene.record(`list pods ${namespace}/-`, ours.jti);
  await ours.api.ask({ path: pods });
  // Tokens created by the signer's account and by an administrator, both without a record.
  const foreign = await scene.mint(agent);
  await foreign.api.ask({ path: `${pods}/shop-1` });
  const stolen = await cluster.connectAs(agent);
  await stolen.ask({ path: `${pods}/shop-2` });
  await scene.seen(`${pods}/shop-2`);
  const { out, exit } = await scene.join();
  assert.equal(exit, 1);
  const [, unexplained = ""] = out.split("Requests that no record explains:\n");
  const user = `system:serviceaccount:${namespace}:agent`;
  const lines = unexplained.trimEnd().split("\n");
  assert.equal(lines.length, 4, out);
  assert.match(
    lines[0] ?? "",
    new RegExp(`create 201 .*/agent/token .*minter-\\w+ .*issued token ${foreign.jti}$`),
  );
  assert.match(lines[1] ?? "", new RegExp(`get 404 ${pods}/shop-1 .* by ${user} with token ${foreign.jti}$`));
  assert.match(lines[2] ?? "", /create 201 .*\/agent\/token .* by admin .*issued token/);
  assert.match(lines[3] ?? "", new RegExp(`get 404 ${pods}/shop-2 .* by ${user} with token `));
  // Records that are not shown still explain requests.
  const other = await scene.join("--serial", "8");
  assert.match(other.out, /^\(no matching entries\)\n\nRequests that no record explains:\n/);
  assert.equal(other.out.includes(ours.jti), false);
});

Deno.test("audit show --join rejects a file that is not an API server's audit log", async () => {
  await using log = new LogFolder();
  await log.write("issued");
  const join = (path: string) => run(log.folder, "audit", "show", "--log", "audit.log", "--join", path);
  const foreign = await join("audit.log");
  assert.match(
    foreign.err,
    /^error: Cannot join "audit\.log": expected the audit log of a Kubernetes API server/,
  );
  const absent = await join("nowhere.log");
  assert.match(absent.err, /Cannot read audit log of an API server .*: no such file/);
  assert.deepEqual([foreign.exit, absent.exit], [1, 1]);
});

Deno.test("audit show --join reports that the API server log contains none of the tokens, and unreadable lines", async () => {
  await using log = new LogFolder();
  const file = await log.open();
  const command = "target=k8s verb=get resource=pods ns=web name=shop-1";
  await file.append({ outcome: "issued", target_type: "k8s", command, jti: "4e72bbd2" });
  await file.close();
  const event = '{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"1","user":{"username":"admin"}}';
  await Deno.writeTextFile(`${log.folder}/api.log`, `${event}\n${event.slice(0, 40)}\n`);
  const { out, exit } = await run(log.folder, "audit", "show", "--log", "audit.log", "--join", "api.log");
  assert.equal(exit, 0);
  assert.match(out, /token 4e72bbd2: no issue time in the cluster's log; never used\n/);
  assert.match(out, /1 malformed line\(s\) of the API server's log skipped\n/);
  assert.match(out, /The API server's log contains none of the tokens/);

  const compressed = new Blob([`${event}\n`]).stream().pipeThrough(new CompressionStream("gzip"));
  const bytes = await new Response(compressed).bytes();
  await Deno.writeFile(`${log.folder}/api.log.gz`, bytes);
  await Deno.writeFile(`${log.folder}/cut.log.gz`, bytes.subarray(0, 40));
  const join = (file: string) => run(log.folder, "audit", "show", "--log", "audit.log", "--join", file);
  assert.match((await join("api.log.gz")).out, /none of the tokens/);
  assert.match(
    (await join("cut.log.gz")).err,
    /^error: Cannot read audit log .*: it is incomplete, or not a gzip file\nfix: /,
  );
});

interface JoinedRecord {
  readonly record: { readonly outcome: string };
  readonly issued: readonly unknown[];
  readonly used: readonly Readonly<Record<string, unknown>>[];
}

Deno.test("an operator enrolls a cluster, checks it, extends its rules and traces a token through both audit logs", async () => {
  const dir = await Deno.makeTempDir({ prefix: "k8s-operator-" });
  await using _folder = { [Symbol.asyncDispose]: () => Deno.remove(dir, { recursive: true }) };
  await using cluster = await startCluster();
  await using stage = await Stage.create({ dir, targetKind: "embedded" });
  const { init } = stage;
  const { namespace } = await enrollCluster(stage, cluster, {
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
  assert.match(listed.out, new RegExp(`^prod +${cluster.apiServer} +local$`, "m"), listed.err);

  const broker = await stage.signerClient("broker");
  const sign = async (verb: string, resource: string, name: string) => {
    const asked = { verb, resource, group: "", namespace, name };
    const parsed = parseClusterAction(CORE_RESOURCES, asked);
    assert.equal(parsed.kind, "ok");
    return await post(broker, "/v1/sign", {
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
    });
  };
  const { status, body } = await sign("get", "pods", "shop-1");
  assert.equal(status, 200);
  const { k8s_token: token } = body as { readonly k8s_token: string };
  const api = cluster.connect({ token });
  const pods = `/api/v1/namespaces/${namespace}/pods`;
  assert.equal((await api.ask({ path: `${pods}/shop-1` })).status, 404);

  // The rules allow no list. The grant allows it, but the cluster itself still rejects it.
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
  // The reviews that the check created to read rights, as reported.
  const [, id = ""] = /token issued for this check, ID (\S+)/.exec(checked.out) ?? [];
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
