import assert from "node:assert/strict";
import { actionPattern, readClusterEntry } from "./entry.ts";

type ClusterFlags = Parameters<typeof readClusterEntry>[0];

Deno.test.each<{ name: string; flags: ClusterFlags; entry: ReturnType<typeof readClusterEntry> }>([
  { name: "nothing where nothing is said", flags: {}, entry: {} },
  {
    name: "a rule for certain objects",
    flags: { rule: ["allow get,list pods,services prod,dev/web-1"] },
    entry: {
      rules: [{
        verbs: ["get", "list"],
        resources: ["pods", "services"],
        namespaces: ["prod", "dev"],
        names: ["web-1"],
        effect: "allow",
      }],
    },
  },
  {
    name: "a rule for every place",
    flags: { rule: ["deny * secrets"] },
    entry: {
      rules: [{ verbs: ["*"], resources: ["secrets"], namespaces: ["*"], names: ["*"], effect: "deny" }],
    },
  },
  {
    name: "accounts for everybody and for groups",
    flags: { serviceAccount: ["gateway/dba=dba,ops", "gateway/agent"] },
    entry: {
      sa_bindings: [
        { groups: ["dba", "ops"], namespace: "gateway", service_account: "dba" },
        { namespace: "gateway", service_account: "agent" },
      ],
    },
  },
  {
    name: "resources of both scopes",
    flags: {
      resource: ["widgets.example.com/v1/Widget"],
      clusterResource: ["storageclasses.storage.k8s.io/v1/StorageClass"],
    },
    entry: {
      extra_resources: [
        { resource: "widgets", group: "example.com", version: "v1", kind: "Widget", namespaced: true },
        {
          resource: "storageclasses",
          group: "storage.k8s.io",
          version: "v1",
          kind: "StorageClass",
          namespaced: false,
        },
      ],
    },
  },
  {
    name: "a list that is cleared, and one that is not spoken of",
    flags: { group: [""], caller: ["broker-1"] },
    entry: { groups: [], allowed_callers: ["broker-1"] },
  },
  {
    name: "single values",
    flags: { apiServer: "https://h", caCert: "c", tokenFile: "t", tokenTtl: 900, tokenBinding: "gateway" },
    entry: {
      api_server: "https://h",
      ca_cert: "c",
      token_file: "t",
      token_ttl_seconds: 900,
      token_binding: { namespace: "gateway" },
    },
  },
])("readClusterEntry() reads $name", ({ flags, entry }) => {
  assert.deepEqual(readClusterEntry(flags), entry);
});

Deno.test.each<{ name: string; flags: ClusterFlags; error: RegExp }>([
  { name: "a rule without resources", flags: { rule: ["allow get"] }, error: /Cannot read rule "allow get"/ },
  {
    name: "an effect that there is not",
    flags: { rule: ["permit get pods"] },
    error: /allow\|deny\|require_approval/,
  },
  {
    name: "a rule with too many words",
    flags: { rule: ["allow get pods prod web"] },
    error: /Cannot read rule/,
  },
  { name: "a rule with two names", flags: { rule: ["allow get pods prod/a/b"] }, error: /Cannot read rule/ },
  {
    name: "a rule whose verbs would be all",
    flags: { rule: ["allow , pods prod"] },
    error: /Cannot read rule/,
  },
  {
    name: "a rule whose names would be all",
    flags: { rule: ["allow get pods prod/"] },
    error: /Cannot read rule/,
  },
  {
    name: "a rule with an empty namespace",
    flags: { rule: ["allow get pods prod,"] },
    error: /Cannot read rule/,
  },
  {
    name: "an empty rule among others",
    flags: { rule: ["", "allow get pods"] },
    error: /Cannot read rule ""/,
  },
  {
    name: "an account without a namespace",
    flags: { serviceAccount: ["agent"] },
    error: /Cannot read ServiceAccount/,
  },
  {
    name: "a resource without a version",
    flags: { resource: ["widgets.example.com"] },
    error: /Cannot read resource/,
  },
])("readClusterEntry() refuses $name", ({ flags, error }) => {
  assert.throws(() => readClusterEntry(flags), error);
});

Deno.test.each<{ text: string; pattern: string }>([
  { text: "delete pods web/shop-1", pattern: "^(?:delete) (?:pods) (?:web)/(?:shop-1)$" },
  {
    text: "get,apply deployments,widgets.example.com web/*",
    pattern: "^(?:get|apply) (?:deployments\\.apps|widgets\\.example\\.com) (?:web)/(?:[^ ]+)$",
  },
  { text: "get nodes -/n1.local", pattern: "^(?:get) (?:nodes) (?:-)/(?:n1\\.local)$" },
])("actionPattern() makes a pattern of $text", ({ text, pattern }) => {
  assert.equal(actionPattern(text), pattern);
});

Deno.test.each<{ text: string; error: RegExp }>([
  { text: "get pods", error: /Cannot read action/ },
  { text: "get pods web", error: /Cannot read action/ },
  { text: "get pods web/a/b", error: /Cannot read action/ },
  { text: "allow get pods web/a", error: /Cannot read action/ },
  { text: "watch pods web/a", error: /Cannot grant "watch"/ },
  { text: "get widgets web/a", error: /Cannot grant "widgets"/ },
])("actionPattern() refuses $text", ({ text, error }) => {
  assert.throws(() => actionPattern(text), { message: error });
});
