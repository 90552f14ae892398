import assert from "node:assert/strict";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { createFolder, run } from "../adapters/ctl_fixture.ts";
import { foreignCa } from "../adapters/mtls_fixture.ts";
import { poll } from "../stage/poll.ts";
import { freePort } from "../stage/free_port.ts";
import type { Cluster } from "./cluster.ts";
import { availableKinds, startCluster } from "./start.ts";

const KINDS = availableKinds().map((kind) => ({ kind }));

const CONFIG = `{
  // made by an operator
  "server_cert": "x",
  "server_key": "x",
  "client_ca": "x",
  "ca_key": "x",
  "audit_log": "x",
  "audit_key": "x"
}
`;

const RULES = [
  "allow get,list,logs pods <web>",
  "require_approval apply configmaps <web>/shop",
  "allow get nodes",
];

/** A signer's config with one cluster that `broker-ctl` has enrolled. */
async function enrol(cluster: Cluster, rules: readonly string[] = RULES) {
  const folder = await createFolder();
  const [gateway, web] = [await cluster.createNamespace("gateway"), await cluster.createNamespace("web")];
  const name = cluster.uniqueName("prod");
  await Deno.writeTextFile(join(folder.path, "signer.json"), CONFIG);
  await Deno.writeTextFile(join(folder.path, "ca.crt"), cluster.caPem);
  const ctl = (...args: string[]) => run(folder.path, "cluster", ...args);
  const added = await ctl(
    ...["add", name, "--api-server", cluster.apiServer, "--ca-cert", "ca.crt", "--token-file", "token"],
    ...["--service-account", `${gateway}/agent`, "--token-binding", gateway],
    ...rules.flatMap((rule) => ["--rule", rule.replaceAll("<web>", web)]),
  );
  assert.deepEqual([added.err, added.exit], ["", 0]);
  const { out } = await ctl("enrol", name, "--print");
  for (const document of parseAllDocuments(out)) {
    await apply(cluster, document.toJSON());
  }
  await Deno.writeTextFile(
    join(folder.path, "token"),
    `${await cluster.mintToken({ namespace: gateway, name: "gateway-minter" }, {
      expirationSeconds: 8 * 86_400,
    })}\n`,
  );
  const agent = { namespace: gateway, name: "agent" };
  /** A change of roles takes effect after a moment. */
  const checkUntil = async (isDone: (out: string) => boolean, ...flags: string[]) => {
    let last = await ctl("check", name, ...flags);
    await poll(async () => isDone(last.out) || isDone((last = await ctl("check", name, ...flags)).out), {
      what: "the change of roles",
      intervalMs: 100,
      timeoutMs: 20_000,
    }).catch(() => {});
    return last;
  };
  await checkUntil((out) => out !== "" && !/WARNING|ERROR/.test(out));
  return {
    name,
    gateway,
    web,
    agent,
    folder,
    ctl,
    checkUntil,
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

/** Server-side apply, like kubectl. */
async function apply(cluster: Cluster, manifest: Manifest): Promise<void> {
  const { apiVersion, kind, metadata: { name, namespace } } = manifest;
  const base = apiVersion === "v1" ? "/api/v1" : `/apis/${apiVersion}`;
  const place = namespace === undefined ? "" : `/namespaces/${namespace}`;
  await cluster.admin.must({
    method: "PATCH",
    path: `${base}${place}/${kind.toLowerCase()}s/${name}?fieldManager=admin&force=true`,
    body: manifest,
  });
}

Deno.test.each(KINDS)(
  "cluster enroll --print grants exactly the rights of the rules, and cluster check confirms it ($kind)",
  async ({ kind }) => {
    await using cluster = await startCluster(kind);
    await using enrolled = await enrol(cluster);
    const { out, err, exit } = await enrolled.ctl("check", enrolled.name);
    assert.deepEqual([err, exit], ["", 0], out);
    const lines = out.trim().split("\n");
    assert.ok(lines.every((line) => /^(ok: | )/.test(line)), out);
    assert.equal(lines.at(-1), `ok: ${enrolled.gateway}/agent has exactly the rights that the rules need`);

    const api = await cluster.connectAs(enrolled.agent);
    const configMap = (name: string) => ({
      method: "PATCH",
      path: `/api/v1/namespaces/${enrolled.web}/configmaps/${name}?fieldManager=gateway`,
      body: { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: { a: "1" } },
    });
    const statuses = [
      configMap("shop"),
      configMap("other"),
      { path: `/api/v1/namespaces/${enrolled.web}/pods` },
      { path: `/api/v1/namespaces/${enrolled.gateway}/pods` },
      { path: `/api/v1/namespaces/${enrolled.web}/secrets` },
      { path: "/api/v1/nodes/absent" },
      { path: "/api/v1/nodes" },
    ].map(async (request) => (await api.ask(request)).status);
    assert.deepEqual(await Promise.all(statuses), [201, 403, 200, 403, 403, 404, 403]);
  },
);

Deno.test.each(KINDS)(
  "cluster check lists rights beyond the rules, with the role that grants them ($kind)",
  async ({ kind }) => {
    await using cluster = await startCluster(kind);
    await using enrolled = await enrol(cluster);
    const { agent, gateway, web } = enrolled;
    await cluster.grantClusterRole(agent, [{
      apiGroups: [""],
      resources: ["secrets"],
      verbs: ["get", "list"],
    }]);
    await cluster.grantRole(agent, [{ apiGroups: [""], resources: ["pods"], verbs: ["delete"] }], web);
    const minter = { namespace: gateway, name: "gateway-minter" };
    await cluster.grantRole(minter, [{ apiGroups: [""], resources: ["secrets"], verbs: ["list"] }]);

    const { out, exit } = await enrolled.checkUntil(
      (out) => (out.match(/"level":"warning"/g) ?? []).length === 3,
      "--json",
    );
    assert.equal(exit, 1);
    const { ok, findings } = JSON.parse(out);
    const warnings: { level: string; text: string; details: string[] }[] = findings.filter(
      ({ level }: { level: string }) => level !== "ok",
    );
    assert.equal(ok, false);
    assert.deepEqual(warnings.map(({ level, text }) => [level, text]).sort(), [
      [
        "warning",
        `${gateway}/agent may delete pods in ${web}: no rule needs it`,
      ],
      [
        "warning",
        `${gateway}/agent may get, list secrets in ${web}, ${gateway}, default, kube-system: no rule needs it`,
      ],
      [
        "warning",
        `system:serviceaccount:${gateway}:gateway-minter may list secrets in ${gateway}: issuing tokens does not need it`,
      ],
    ]);
    const details = warnings.flatMap(({ details }) => details).join("\n");
    assert.match(details, /ClusterRoleBinding "agent-\w+" of ClusterRole "agent-\w+"/);
    assert.match(
      details,
      /remove \{apiGroups: \[""\], resources: \["secrets"\], verbs: \["get", "list"\]\}/,
    );
  },
);

Deno.test.each(KINDS)(
  "cluster check reports rights that the rules need and the cluster denies ($kind)",
  async ({ kind }) => {
    await using cluster = await startCluster(kind);
    await using enrolled = await enrol(cluster);
    const { gateway, web, name } = enrolled;
    const remove = (path: string) =>
      cluster.admin.must({ method: "DELETE", path: `/apis/rbac.authorization.k8s.io/v1/${path}` });
    await remove(`namespaces/${web}/rolebindings/gateway-${name}-act`);
    const act = await enrolled.checkUntil((out) => out.includes("may not get, list pods"));
    assert.match(
      act.out,
      new RegExp(`WARNING: ${gateway}/agent may not get, list pods in ${web}\\n {4}the rules allow`),
    );
    await remove(`namespaces/${gateway}/rolebindings/gateway-${name}-mint`);
    const mint = await enrolled.checkUntil((out) => out.includes("ERROR"));
    assert.match(
      mint.out,
      new RegExp(
        `ERROR: system:.*:gateway-minter may not create serviceaccounts/token agent in ${gateway}\\n`,
      ),
    );
    assert.deepEqual([act.exit, mint.exit], [1, 1]);
    assert.doesNotMatch(mint.out, /token issued for this check/);
  },
);

Deno.test.each(KINDS)(
  "cluster check reports what is wrong with the credential, the CA or the address ($kind)",
  async ({ kind }) => {
    await using cluster = await startCluster(kind);
    await using enrolled = await enrol(cluster);
    const { name, folder } = enrolled;
    const check = async () => (await enrolled.ctl("check", name)).out;
    await Deno.writeTextFile(join(folder.path, "token"), "eyJhbGciOiJub25lIn0.e30.x");
    assert.match(
      await check(),
      /^ERROR: https:.*it rejected the token \(HTTP 401\).*\n +renew the token in token_file\n$/,
    );
    await Deno.writeTextFile(join(folder.path, "token"), "two tokens");
    assert.match((await enrolled.ctl("check", name)).err, /expected exactly one token/);
    await Deno.remove(join(folder.path, "token"));
    assert.match(
      (await enrolled.ctl("check", name)).err,
      /Cannot read token_file .*no such file\nfix: broker-ctl cluster enrol/,
    );
    await Deno.writeTextFile(join(folder.path, "token"), "t");
    await Deno.writeTextFile(join(folder.path, "ca.crt"), foreignCa);
    assert.match(await check(), /^ERROR: https:.*: its certificate is not from a CA in ca_cert/);
    await Deno.writeTextFile(join(folder.path, "ca.crt"), cluster.caPem);
    await enrolled.ctl("add", name, "--force", "--api-server", `https://127.0.0.1:${freePort()}`);
    assert.match(await check(), /^ERROR: https:.*: it is unreachable/);
  },
);

Deno.test.each(KINDS)(
  "the manifests of cluster enroll --print suffice for each verb ($kind)",
  async ({ kind }) => {
    await using cluster = await startCluster(kind);
    await using enrolled = await enrol(cluster, [
      "allow get,logs pods <web>/shop-1",
      "allow list configmaps <web>",
      "allow list services -",
      "require_approval apply,delete configmaps <web>/shop",
    ]);
    const { web, agent } = enrolled;
    await cluster.runPod({ namespace: web, name: "shop-1", containers: { app: "one\n" } });
    const api = await cluster.connectAs(agent);
    const ask = async (method: string, path: string, body?: unknown) =>
      (await api.ask({ method, path, body })).status;
    const shop = `/api/v1/namespaces/${web}/configmaps/shop`;
    const apply = (query: string, value: string) =>
      ask("PATCH", `${shop}?fieldManager=gateway${query}`, {
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: { name: "shop" },
        data: { value },
      });
    const pod = `/api/v1/namespaces/${web}/pods/shop-1`;
    assert.deepEqual({
      get: await ask("GET", pod),
      logs: await ask("GET", `${pod}/log`),
      list: await ask("GET", `/api/v1/namespaces/${web}/configmaps`),
      listOfAllNamespaces: await ask("GET", "/api/v1/services"),
      tryApply: await apply("&dryRun=All", "1"),
      applyNew: await apply("", "1"),
      applyAgain: await apply("", "2"),
      lookBeforeApply: await ask("GET", shop),
      delete: await ask("DELETE", shop),
      deleteAnother: await ask("DELETE", `${shop}-2`),
      exec: await ask("POST", `${pod}/exec?command=id`),
      deleteAll: await ask("DELETE", `/api/v1/namespaces/${web}/configmaps`),
    }, {
      get: 200,
      logs: 200,
      list: 200,
      listOfAllNamespaces: 200,
      tryApply: 201,
      applyNew: 201,
      applyAgain: 200,
      lookBeforeApply: 200,
      delete: 200,
      deleteAnother: 403,
      exec: 403,
      deleteAll: 403,
    });
  },
);
