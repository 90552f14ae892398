import assert from "node:assert/strict";
import type { ClusterPolicy, ClusterRule } from "@gateway/shared/policy";
import {
  compareRights,
  formatRbacRule,
  neededRights,
  type RbacRule,
  type Right,
  toRbacRules,
} from "./rights.ts";

function clusterOf(...rules: readonly ClusterRule[]): ClusterPolicy {
  return {
    api_server: "https://10.0.0.5:6443",
    ca_cert: "ca.crt",
    token_file: "token",
    sa_bindings: [{ namespace: "gateway", service_account: "agent" }],
    rules,
    extra_resources: [{
      resource: "widgets",
      group: "example.com",
      version: "v1",
      kind: "Widget",
      namespaced: true,
    }],
  };
}

/** The RBAC rules by the scope in which they apply. */
function rolesFor(cluster: ClusterPolicy): Record<string, readonly string[]> {
  const rights = Map.groupBy(neededRights(cluster), ({ namespace }) => namespace ?? "everywhere");
  return Object.fromEntries(
    [...rights].map(([where, rights]) => [where, toRbacRules(rights).map(formatRbacRule)]),
  );
}

const allow = { effect: "allow" } as const;
const deny = { effect: "deny" } as const;

Deno.test.each<{ name: string; rules: readonly ClusterRule[]; roles: Record<string, readonly string[]> }>([
  {
    name: "a rule with a namespace becomes a Role in that namespace",
    rules: [{ ...allow, verbs: ["get", "list"], resources: ["pods", "services"], namespaces: ["prod"] }],
    roles: { prod: [`{apiGroups: [""], resources: ["pods", "services"], verbs: ["get", "list"]}`] },
  },
  {
    name: "logs adds a right only to pods/log",
    rules: [{ ...allow, verbs: ["logs"], namespaces: ["prod"] }],
    roles: { prod: [`{apiGroups: [""], resources: ["pods/log"], verbs: ["get"]}`] },
  },
  {
    name: "apply adds create, get and patch, limited to the rule's names",
    rules: [{ ...allow, verbs: ["apply"], resources: ["deployments"], namespaces: ["prod"], names: ["api"] }],
    roles: {
      prod: [
        `{apiGroups: ["apps"], resources: ["deployments"], resourceNames: ["api"], verbs: ["create", "get", "patch"]}`,
      ],
    },
  },
  {
    name: "delete with object names is limited to these objects",
    rules: [{ ...allow, verbs: ["delete"], resources: ["widgets"], namespaces: ["prod"], names: ["b", "a"] }],
    roles: {
      prod: [
        `{apiGroups: ["example.com"], resources: ["widgets"], resourceNames: ["a", "b"], verbs: ["delete"]}`,
      ],
    },
  },
  {
    name: "list cannot be limited to names: a rule with names adds no list right",
    rules: [{
      ...allow,
      verbs: ["get", "list"],
      resources: ["pods"],
      namespaces: ["prod"],
      names: ["web-1"],
    }],
    roles: { prod: [`{apiGroups: [""], resources: ["pods"], resourceNames: ["web-1"], verbs: ["get"]}`] },
  },
  {
    name: "the object name - adds only the list right",
    rules: [{ ...allow, resources: ["secrets"], namespaces: ["prod"], names: ["-"] }],
    roles: { prod: [`{apiGroups: [""], resources: ["secrets"], verbs: ["list"]}`] },
  },
  {
    name: "rights to cluster-scoped resources are cluster-wide, and a rule for a namespace adds none",
    rules: [
      { ...allow, verbs: ["get"], resources: ["nodes"] },
      { ...allow, verbs: ["get"], resources: ["namespaces", "configmaps"], namespaces: ["prod"] },
      { ...allow, verbs: ["get"], resources: ["persistentvolumes"], namespaces: ["-"] },
    ],
    roles: {
      everywhere: [`{apiGroups: [""], resources: ["nodes", "persistentvolumes"], verbs: ["get"]}`],
      prod: [`{apiGroups: [""], resources: ["configmaps"], verbs: ["get"]}`],
    },
  },
  {
    name: "a rule for namespace - adds only the list right, cluster-wide",
    rules: [{ ...allow, verbs: ["get", "list"], resources: ["pods"], namespaces: ["-"] }],
    roles: { everywhere: [`{apiGroups: [""], resources: ["pods"], verbs: ["list"]}`] },
  },
  {
    name: "a right that is needed everywhere is not repeated in a namespace",
    rules: [
      { ...allow, verbs: ["get"], resources: ["pods"] },
      { ...allow, verbs: ["get", "delete"], resources: ["pods"], namespaces: ["prod"], names: ["web-1"] },
    ],
    roles: {
      everywhere: [`{apiGroups: [""], resources: ["pods"], verbs: ["get"]}`],
      prod: [`{apiGroups: [""], resources: ["pods"], resourceNames: ["web-1"], verbs: ["delete"]}`],
    },
  },
  {
    name: "actions that require an approval are included",
    rules: [{ effect: "require_approval", verbs: ["delete"], resources: ["pods"], namespaces: ["prod"] }],
    roles: { prod: [`{apiGroups: [""], resources: ["pods"], verbs: ["delete"]}`] },
  },
  {
    name: "completely denied rights are omitted",
    rules: [
      { ...allow, resources: ["secrets", "configmaps"], namespaces: ["prod"] },
      { ...deny, resources: ["secrets"] },
      { ...deny, verbs: ["delete", "apply"], namespaces: ["prod"] },
    ],
    roles: { prod: [`{apiGroups: [""], resources: ["configmaps"], verbs: ["get", "list"]}`] },
  },
  {
    name: "partly denied rights are kept",
    rules: [
      { ...allow, verbs: ["get"], resources: ["pods"] },
      { ...deny, verbs: ["get"], resources: ["pods"], namespaces: ["kube-system"] },
      { ...deny, verbs: ["get"], resources: ["pods"], names: ["web-1"] },
    ],
    roles: { everywhere: [`{apiGroups: [""], resources: ["pods"], verbs: ["get"]}`] },
  },
  {
    name: "a rule for all resources lists each by name, without a wildcard",
    rules: [{ ...allow, verbs: ["list"], namespaces: ["prod"] }],
    roles: {
      prod: [
        `{apiGroups: [""], resources: ["configmaps", "events", "persistentvolumeclaims", "pods", "secrets", "serviceaccounts", "services"], verbs: ["list"]}`,
        `{apiGroups: ["apps"], resources: ["daemonsets", "deployments", "replicasets", "statefulsets"], verbs: ["list"]}`,
        `{apiGroups: ["batch"], resources: ["cronjobs", "jobs"], verbs: ["list"]}`,
        `{apiGroups: ["example.com"], resources: ["widgets"], verbs: ["list"]}`,
        `{apiGroups: ["networking.k8s.io"], resources: ["ingresses"], verbs: ["list"]}`,
      ],
    },
  },
])("neededRights(): $name", ({ rules, roles }) => {
  assert.deepEqual(rolesFor(clusterOf(...rules)), roles);
});

const GET_PODS: Right = { namespace: "prod", group: "", resource: "pods", verb: "get", name: undefined };
const HARMLESS: RbacRule = {
  apiGroups: ["authorization.k8s.io"],
  resources: ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
  verbs: ["create"],
};

function rule(
  resources: readonly string[],
  verbs: readonly string[],
  more: Partial<RbacRule> = {},
): RbacRule {
  return { apiGroups: [""], resources, verbs, ...more };
}

interface Row {
  readonly name: string;
  readonly granted: Readonly<Record<string, readonly RbacRule[]>>;
  readonly needed: readonly Right[];
  readonly excess?: readonly string[];
  readonly missing?: number;
}

Deno.test.each<Row>([
  {
    name: "exactly the needed right",
    granted: { prod: [HARMLESS, rule(["pods"], ["get"])] },
    needed: [GET_PODS],
  },
  {
    name: "an additional verb",
    granted: { prod: [rule(["pods"], ["get", "delete"])] },
    needed: [GET_PODS],
    excess: [`prod {apiGroups: [""], resources: ["pods"], verbs: ["delete"]}`],
  },
  {
    name: "a right in another namespace",
    granted: { prod: [rule(["pods"], ["get"])], default: [rule(["pods"], ["get"])] },
    needed: [GET_PODS],
    excess: [`default {apiGroups: [""], resources: ["pods"], verbs: ["get"]}`],
  },
  {
    name: "one excess right in all namespaces is reported once",
    granted: { prod: [rule(["secrets"], ["get", "list"])], default: [rule(["secrets"], ["list", "get"])] },
    needed: [],
    excess: [`prod,default {apiGroups: [""], resources: ["secrets"], verbs: ["get", "list"]}`],
  },
  {
    name: "a right to all objects if one is needed",
    granted: { prod: [rule(["pods"], ["get"])] },
    needed: [{ ...GET_PODS, name: "web-1" }],
    excess: [`prod {apiGroups: [""], resources: ["pods"], verbs: ["get"]}`],
  },
  {
    name: "a right to one object more than needed",
    granted: { prod: [rule(["pods"], ["get"], { resourceNames: ["web-1", "web-2"] })] },
    needed: [{ ...GET_PODS, name: "web-1" }],
    excess: [
      `prod {apiGroups: [""], resources: ["pods"], resourceNames: ["web-1", "web-2"], verbs: ["get"]}`,
    ],
  },
  {
    name: "a wildcard that covers the needed right is still in excess",
    granted: { prod: [rule(["*"], ["*"], { apiGroups: ["*"] })] },
    needed: [GET_PODS],
    excess: [`prod {apiGroups: ["*"], resources: ["*"], verbs: ["*"]}`],
  },
  {
    name: "a right to the same resource name in another API group",
    granted: { prod: [rule(["pods"], ["get"], { apiGroups: ["metrics.k8s.io"] })] },
    needed: [GET_PODS],
    excess: [`prod {apiGroups: ["metrics.k8s.io"], resources: ["pods"], verbs: ["get"]}`],
    missing: 1,
  },
  { name: "no rights if one is needed", granted: { prod: [] }, needed: [GET_PODS], missing: 1 },
  {
    name: "a right to one object if all are needed",
    granted: { prod: [rule(["pods"], ["get"], { resourceNames: ["web-1"] })] },
    needed: [GET_PODS],
    missing: 1,
  },
  {
    name: "a right in one namespace if it is needed everywhere",
    granted: { prod: [rule(["pods"], ["get"])], default: [] },
    needed: [{ ...GET_PODS, namespace: undefined }],
    missing: 1,
  },
  {
    name: "a right to all logs if one pod's log is needed",
    granted: { prod: [rule(["*/log"], ["get"])] },
    needed: [{ ...GET_PODS, resource: "pods/log" }],
    excess: [`prod {apiGroups: [""], resources: ["*/log"], verbs: ["get"]}`],
  },
  {
    name: "a right to the log if the pod itself is needed",
    granted: { prod: [rule(["pods/log"], ["get"])] },
    needed: [GET_PODS],
    excess: [`prod {apiGroups: [""], resources: ["pods/log"], verbs: ["get"]}`],
    missing: 1,
  },
])("compareRights() compares $name", ({ granted, needed, excess = [], missing = 0 }) => {
  const compared = compareRights(new Map(Object.entries(granted)), needed);
  assert.deepEqual(
    compared.excess.map(({ namespaces, ...rule }) => `${namespaces} ${formatRbacRule(rule)}`),
    excess,
  );
  assert.equal(compared.missing.length, missing);
});
