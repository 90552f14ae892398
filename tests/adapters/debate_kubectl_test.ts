import assert from "node:assert/strict";
import { createContextRedactor } from "../../debate/context/redact_context.ts";
import { availableKinds, startCluster } from "../kubernetes/start.ts";
import { isMissing } from "../stage/is_missing.ts";
import { realTools, temporaryFolder } from "./debate_tools_fixture.ts";

const ignore = isMissing("kubectl", ["/usr/bin/kubectl", "/usr/local/bin/kubectl"]) ||
  !availableKinds().includes("real");

const POD_SPEC = {
  containers: [{
    name: "app",
    image: "web:1",
    args: ["--db-password", "s3cret words", "--port", "80", "--api-token=s3cret"],
    env: [
      { name: "DB_PASSWORD", value: 's3cret "quoted\\" words' },
      { name: "DB_PASS", value: "s3cret\ns3cret line" },
      { name: "LEVEL", value: "visible" },
    ],
  }],
};

const MANIFEST = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "web" },
  spec: {
    selector: { matchLabels: { app: "web" } },
    template: { metadata: { labels: { app: "web" } }, spec: POD_SPEC },
  },
};

const DATA = {
  DB_PASSWORD: "s3cret",
  LEVEL: "visible",
  SIGNING_KEY: "s3cret\n\ns3cret line",
  "app.xml": "<a>\n <password>s3cret</password>\n</a>\n",
};

const containers = ".spec.template.spec.containers[*]";

Deno.test("run_kubectl masks what a real cluster returns in every form", { ignore }, async () => {
  await using folder = await temporaryFolder();
  await using cluster = await startCluster("real");
  const namespace = await cluster.createNamespace();
  const account = await cluster.createAccount(namespace, "reader");
  await cluster.grantRole(account, [{ apiGroups: ["", "apps"], resources: ["*"], verbs: ["get", "list"] }]);
  const annotations = { "kubectl.kubernetes.io/last-applied-configuration": JSON.stringify(MANIFEST) };
  const metadata = { name: "web", namespace, annotations };
  await cluster.create(`/apis/apps/v1/namespaces/${namespace}/deployments`, { ...MANIFEST, metadata });
  await cluster.create(`/api/v1/namespaces/${namespace}/configmaps`, {
    ...{ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "web", namespace }, data: DATA },
  });
  await Deno.writeTextFile(`${folder.path}/ca.crt`, cluster.caPem);
  await Deno.writeTextFile(
    `${folder.path}/config`,
    JSON.stringify({
      apiVersion: "v1",
      kind: "Config",
      clusters: [{
        name: "c",
        cluster: { server: cluster.apiServer, "certificate-authority": `${folder.path}/ca.crt` },
      }],
      users: [{ name: "u", user: { token: await cluster.mintToken(account) } }],
      contexts: [{ name: "c", context: { cluster: "c", user: "u", namespace } }],
      "current-context": "c",
    }),
  );
  const redactor = createContextRedactor([]);
  const call = await realTools({
    env: { HOME: folder.path, KUBECONFIG: `${folder.path}/config` },
    redact: (text) => redactor(text).text,
  });
  for (
    const [args, shows] of [
      ["get deploy web -o json", /"value": "visible"/],
      ["get deploy web -o yaml", /value: visible/],
      ["describe deploy web", /LEVEL: +visible/],
      ["describe cm web", /LEVEL:\n----\nvisible\n/],
      ["get cm web -o yaml", /LEVEL: visible/],
      ["get cm web -o json", /"LEVEL": "visible"/],
      ["get cm web -o jsonpath={.data}", /"LEVEL":"visible"/],
      ["get cm web -o jsonpath={.data[*]}", /not array or slice/],
      [`get deploy web -o jsonpath={${containers}.env}`, /"value":"visible"/],
      [`get deploy web -o jsonpath={${containers}}`, /"--port","80"/],
      ["get deploy web -o jsonpath={.metadata.annotations}", /"value\\":\\"visible\\"/],
      [`get deploy web -o custom-columns=A:${containers}.env[*].name`, /DB_PASSWORD,DB_PASS,LEVEL/],
      [`get deploy web -o custom-columns=A:${containers}.env`, /use -o json/],
      ["get cm web -o custom-columns=A:.data", /use -o json/],
      [`get deploy web -o jsonpath={${containers}.env[*].value}`, /use -o json/],
      ["get cm web -o jsonpath={.data.*}", /use -o json/],
      [String.raw`get cm web -o 'jsonpath={.data.DB_PASS\WORD}'`, /use -o json/],
      ["config view", /token: |users/],
    ] as const
  ) {
    const { text } = await call("run_kubectl", { kubectl_args: args });
    assert.match(text, shows, args);
    assert.doesNotMatch(text.replace(/^.*\n/, ""), /s3cret|words/, args);
  }
});
