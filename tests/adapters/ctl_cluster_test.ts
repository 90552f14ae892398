import assert from "node:assert/strict";
import { SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { names, withConfig, words } from "./ctl_fixture.ts";
import { FakeService } from "./ctl_signer_fixture.ts";

const HEAD = `{
  // what the operator wrote
  "server_cert": "x", "server_key": "x", "client_ca": "x",
  "ca_key": "x", /* a lab */
  "audit_log": "x", "audit_key": "x"`;

const PROD = `{
      "api_server": "https://10.0.0.5:6443", // behind the balancer
      "ca_cert": "prod.crt",
      "token_file": "prod.token",
      "groups": ["ops"],
      "sa_bindings": [{ "namespace": "gateway", "service_account": "agent" }],
      "rules": [
        { "verbs": ["get"], "resources": ["pods"], "namespaces": ["web"], "effect": "allow" } // INC-7
      ]
    }`;

const NOTHING_YET = `${HEAD}
}
`;
const WITH_PROD = `${HEAD},
  "hosts": {},
  "kubernetes": {
    // one for now
    "clusters": {
    "prod": ${PROD}
    }
  }
}
`;

async function createConfig(text: string) {
  const config = await withConfig(text);
  return { ...config, ctl: (...args: string[]) => config.ctl("cluster", ...words(args)) };
}

const add = (name = "dev") => [
  ...["add", name],
  ...words("--api-server https://10.0.0.6:6443 --ca-cert dev.crt --token-file dev.token"),
  ...["--service-account", "gateway/agent", "--rule", "allow get pods web"],
];

Deno.test("cluster add adds a cluster and leaves the rest of the file unchanged", async () => {
  await using config = await createConfig(WITH_PROD);
  await Deno.writeTextFile(`${config.folder}/dev.crt`, "x");
  const { out, err, exit } = await config.ctl(...add());
  assert.deepEqual([err, exit], ["", 0]);
  assert.equal(
    out,
    'cluster "dev" added (api_server=https://10.0.0.6:6443, rules=allow:1)\n' +
      'token_file "dev.token" does not exist yet; until then, the signer rejects this config\n' +
      "Not yet active. To apply it: broker-ctl reload\n",
  );
  const text = await config.read();
  const [before, after] = text.split(PROD);
  assert.equal(before, WITH_PROD.split(PROD)[0]);
  assert.match(after ?? "", /^,\n {4}"dev": \{\n/);
  assert.equal((await config.ctl("list", "--json")).out.includes("10.0.0.6"), true);
});

Deno.test("cluster add creates the missing section and keeps the mode of the file", async () => {
  await using config = await createConfig(NOTHING_YET);
  await Deno.chmod(config.path, 0o640);
  assert.equal((await config.ctl(...add())).exit, 0);
  const text = await config.read();
  assert.ok(text.startsWith(HEAD), text);
  assert.equal((await Deno.stat(config.path)).mode! & 0o777, 0o640);
  assert.deepEqual(await names(config.folder), ["signer.json"]);
});

Deno.test("cluster add --force changes only the given fields, and '' clears a list", async () => {
  await using config = await createConfig(WITH_PROD);
  const { out } = await config.ctl("add", "prod", "--force", "--token-ttl", "900", "--group", "");
  assert.match(out, /^cluster "prod" updated/);
  const expected = WITH_PROD.replace('"groups": ["ops"]', '"groups": []');
  const text = await config.read();
  assert.match(text, /\/\/ INC-7\n {6}\],\n {6}"token_ttl_seconds": 900\n/);
  assert.equal(text.replace(/,\n {6}"token_ttl_seconds": 900/, ""), expected);
});

Deno.test.each<{ name: string; args: string[]; error: RegExp; exit?: number }>([
  { name: "a name that is there", args: add("prod"), error: /it exists\nfix: pass --force to change it/ },
  { name: "a name that agents could not use", args: add("a b"), error: /a cluster name must be/ },
  { name: "a name of a host", args: add("web01"), error: /there is a host of this name/ },
  {
    name: "a rule about an unknown resource",
    args: [...add(), "--rule", "allow get gizmos"],
    error: /"gizmos" is not a resource/,
  },
  {
    name: "a cluster without an API server",
    args: ["add", "dev", "--rule", "allow get pods"],
    error: /api_server/,
  },
  {
    name: "a malformed rule",
    args: [...add(), "--rule", "allow"],
    error: /Cannot read rule/,
    exit: 2,
  },
])("cluster add rejects $name and writes nothing", async ({ args, error, exit = 1 }) => {
  const host = `"web01": { "addr": "10.0.0.1:22", "user": "u", "host_key": "${SAMPLE_HOST_KEY}" }`;
  const text = WITH_PROD.replace('"hosts": {}', `"hosts": { ${host} }`);
  await using config = await createConfig(text);
  const result = await config.ctl(...args);
  assert.match(result.err, error);
  assert.deepEqual([result.out, result.exit, await config.read()], ["", exit, text]);
});

Deno.test("cluster remove removes the cluster and leaves the rest of the file unchanged", async () => {
  await using config = await createConfig(WITH_PROD);
  assert.deepEqual(await config.ctl("rm", "prod"), {
    out: 'cluster "prod" removed\nNot yet active. To apply it: broker-ctl reload\n',
    err: "",
    exit: 0,
  });
  assert.equal(await config.read(), WITH_PROD.replace(`"prod": ${PROD}`, "").replace(/\n {4}\n/, "\n"));
  const again = await config.ctl("remove", "prod");
  assert.match(
    again.err,
    /^error: Cannot find cluster "prod" in the config\nfix: broker-ctl cluster list/,
  );
  assert.equal(again.exit, 1);
});

Deno.test("cluster remove rejects names of built-in object properties", async () => {
  await using config = await createConfig(WITH_PROD);
  for (const name of ["__proto__", "constructor", "toString"]) {
    assert.match((await config.ctl("remove", name)).err, /Cannot find cluster/);
  }
  assert.equal(await config.read(), WITH_PROD);
});

Deno.test("cluster list prints the clusters of the config", async () => {
  await using config = await createConfig(WITH_PROD);
  assert.deepEqual(await config.ctl("list"), {
    out: "NAME  API SERVER             GROUPS  RULES\n" +
      "prod  https://10.0.0.5:6443  ops     allow:1\n",
    err: "",
    exit: 0,
  });
  assert.equal(
    (await config.ctl("list", "-o", "wide")).out,
    "NAME  API SERVER             GROUPS  SERVICE ACCOUNTS  RULES\n" +
      "prod  https://10.0.0.5:6443  ops     gateway/agent     allow:1\n",
  );
  await using empty = await createConfig(NOTHING_YET);
  assert.equal((await empty.ctl("list")).out, "(no clusters configured)\n");
  assert.equal((await empty.ctl("list", "--cert", "x")).out, "(no clusters configured)\n");
});

Deno.test("cluster list --remote requests the caller's clusters from the signer", async () => {
  await using signer = await FakeService.start({
    prod: { api_server: "https://10.0.0.5:6443", ca_cert_pem: "x", groups: ["ops", "web"], new_key: 1 },
    dev: {
      api_server: "https://10.0.0.6:6443",
      ca_cert_pem: "x",
      extra_resources: [{ resource: "widgets", group: "example.com", version: "v1", kind: "Widget" }],
    },
  });
  const { out } = await signer.run("cluster", "list", "--remote");
  assert.equal(
    out,
    "NAME  API SERVER             GROUPS\n" +
      "dev   https://10.0.0.6:6443  —\n" +
      "prod  https://10.0.0.5:6443  ops,web\n",
  );
  assert.deepEqual(signer.requests.map(({ method, path }) => [method, path]), [["GET", "/v1/clusters"]]);
});

Deno.test("cluster list --remote says that other callers' clusters are not listed", async () => {
  await using signer = await FakeService.start({});
  assert.equal(
    (await signer.run("cluster", "list", "--remote")).out,
    "(no clusters that your certificate's CN may use)\n" +
      "To list all clusters: broker-ctl cluster list --config <the signer's config>\n",
  );
});

Deno.test("cluster enroll prints manifests for kubectl only with --print", async () => {
  await using config = await createConfig(WITH_PROD);
  const { out, exit } = await config.ctl("enroll", "prod", "--print");
  assert.equal(exit, 0);
  assert.equal(
    out,
    `# Accounts and roles for cluster "prod" (https://10.0.0.5:6443). Apply them as an administrator:
#   broker-ctl cluster enroll prod --print | kubectl apply -f -
# Then write the signer's token, readable by the signer's account only, and renew it before it expires:
#   (umask 077 && kubectl -n gateway create token gateway-minter --duration=720h > prod.token)
#   broker-ctl cluster check prod
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: gateway-minter
  namespace: gateway
automountServiceAccountToken: false
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: agent
  namespace: gateway
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: gateway-prod-mint
  namespace: gateway
rules:
  - apiGroups:
      - ""
    resources:
      - serviceaccounts/token
    resourceNames:
      - agent
    verbs:
      - create
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: gateway-prod-mint
  namespace: gateway
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: gateway-prod-mint
subjects:
  - kind: ServiceAccount
    name: gateway-minter
    namespace: gateway
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: gateway-prod-act
  namespace: web
rules:
  - apiGroups:
      - ""
    resources:
      - pods
    verbs:
      - get
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: gateway-prod-act
  namespace: web
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: gateway-prod-act
subjects:
  - kind: ServiceAccount
    name: agent
    namespace: gateway
`,
  );
  const list = JSON.parse((await config.ctl("enrol", "prod", "--print", "--json")).out);
  assert.deepEqual([list.kind, list.items.length], ["List", 6]);
  assert.match((await config.ctl("enrol", "prod")).err, /Pass --print: this command only prints/);
  assert.match((await config.ctl("enrol", "prod", "--print", "--minter", "a/b;c")).err, /Cannot use minter/);
  assert.match((await config.ctl("enrol", "dev", "--print")).err, /Cannot find cluster/);
});
