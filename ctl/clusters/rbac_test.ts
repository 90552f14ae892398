import assert from "node:assert/strict";
import { compareRights, formatRbacRule, type RbacRule, type Right } from "./rights.ts";

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
    name: "what is needed, alone",
    granted: { prod: [HARMLESS, rule(["pods"], ["get"])] },
    needed: [GET_PODS],
  },
  {
    name: "a verb more",
    granted: { prod: [rule(["pods"], ["get", "delete"])] },
    needed: [GET_PODS],
    excess: [`prod {apiGroups: [""], resources: ["pods"], verbs: ["delete"]}`],
  },
  {
    name: "another namespace",
    granted: { prod: [rule(["pods"], ["get"])], default: [rule(["pods"], ["get"])] },
    needed: [GET_PODS],
    excess: [`default {apiGroups: [""], resources: ["pods"], verbs: ["get"]}`],
  },
  {
    name: "a right that holds everywhere, once",
    granted: { prod: [rule(["secrets"], ["get", "list"])], default: [rule(["secrets"], ["list", "get"])] },
    needed: [],
    excess: [`prod,default {apiGroups: [""], resources: ["secrets"], verbs: ["get", "list"]}`],
  },
  {
    name: "all objects where one is needed",
    granted: { prod: [rule(["pods"], ["get"])] },
    needed: [{ ...GET_PODS, name: "web-1" }],
    excess: [`prod {apiGroups: [""], resources: ["pods"], verbs: ["get"]}`],
  },
  {
    name: "one object too many",
    granted: { prod: [rule(["pods"], ["get"], { resourceNames: ["web-1", "web-2"] })] },
    needed: [{ ...GET_PODS, name: "web-1" }],
    excess: [
      `prod {apiGroups: [""], resources: ["pods"], resourceNames: ["web-1", "web-2"], verbs: ["get"]}`,
    ],
  },
  {
    name: "a wildcard, which gives what is needed too",
    granted: { prod: [rule(["*"], ["*"], { apiGroups: ["*"] })] },
    needed: [GET_PODS],
    excess: [`prod {apiGroups: ["*"], resources: ["*"], verbs: ["*"]}`],
  },
  {
    name: "the same name in another group",
    granted: { prod: [rule(["pods"], ["get"], { apiGroups: ["metrics.k8s.io"] })] },
    needed: [GET_PODS],
    excess: [`prod {apiGroups: ["metrics.k8s.io"], resources: ["pods"], verbs: ["get"]}`],
    missing: 1,
  },
  { name: "nothing of what is needed", granted: { prod: [] }, needed: [GET_PODS], missing: 1 },
  {
    name: "one object where all are needed",
    granted: { prod: [rule(["pods"], ["get"], { resourceNames: ["web-1"] })] },
    needed: [GET_PODS],
    missing: 1,
  },
  {
    name: "one namespace of what is needed everywhere",
    granted: { prod: [rule(["pods"], ["get"])], default: [] },
    needed: [{ ...GET_PODS, namespace: undefined }],
    missing: 1,
  },
  {
    name: "a pod's log by all logs",
    granted: { prod: [rule(["*/log"], ["get"])] },
    needed: [{ ...GET_PODS, resource: "pods/log" }],
    excess: [`prod {apiGroups: [""], resources: ["*/log"], verbs: ["get"]}`],
  },
  {
    name: "the pod itself by no log",
    granted: { prod: [rule(["pods/log"], ["get"])] },
    needed: [GET_PODS],
    excess: [`prod {apiGroups: [""], resources: ["pods/log"], verbs: ["get"]}`],
    missing: 1,
  },
])("compareRights() judges $name", ({ granted, needed, excess = [], missing = 0 }) => {
  const compared = compareRights(new Map(Object.entries(granted)), needed);
  assert.deepEqual(
    compared.excess.map(({ namespaces, ...rule }) => `${namespaces} ${formatRbacRule(rule)}`),
    excess,
  );
  assert.equal(compared.missing.length, missing);
});
