import type { Step } from "./contract.ts";

const NS = "/api/v1/namespaces/<ns>";
const TOKEN = `${NS}/serviceaccounts/agent/token`;

const tokenRequest = (spec: unknown) => ({
  apiVersion: "authentication.k8s.io/v1",
  kind: "TokenRequest",
  spec,
});

const boundTo = (boundObjectRef: unknown) => tokenRequest({ expirationSeconds: 600, boundObjectRef });

const review = (group: string, kind: string, spec?: unknown) => ({
  apiVersion: `${group}/v1`,
  kind,
  ...(spec === undefined ? {} : { spec }),
});

/** Authentication and RBAC. */
export const ACCESS: readonly Step[] = [
  { name: "no credentials", as: "nobody", path: `${NS}/pods`, status: 403, says: "system:anonymous" },
  { name: "a foreign token is rejected", as: "stranger", path: `${NS}/pods`, status: 401 },
  { name: "a right of a Role", as: "agent", path: `${NS}/configmaps`, status: 200 },
  {
    name: "a Role gives no right at the cluster scope",
    as: "agent",
    path: "/api/v1/pods",
    status: 403,
    says: "at the cluster scope",
  },
  { name: "a resource without a namespace", as: "agent", path: "/api/v1/nodes", status: 403 },
  { name: "a nonexistent object", as: "agent", path: `${NS}/pods/none`, status: 404 },
  { name: "a resource without a rule", as: "agent", path: `${NS}/secrets`, status: 403 },
  { name: "a name that a rule has", as: "agent", path: `${NS}/secrets/one`, status: 404 },
  { name: "a name that no rule has", as: "agent", path: `${NS}/secrets/two`, status: 403 },
  { name: "a verb without a rule", as: "agent", method: "DELETE", path: `${NS}/pods/web`, status: 403 },
  {
    name: "a request in a named API group",
    as: "agent",
    path: "/apis/apps/v1/namespaces/<ns>/deployments/none",
    status: 404,
  },
  { name: "a nonexistent API group", as: "agent", path: "/apis/nosuch/v1/namespaces/<ns>/x", status: 403 },
  { name: "a nonexistent group, as an administrator", as: "admin", path: "/apis/nosuch/v1/x", status: 404 },
  { name: "a slash in a name, encoded", as: "admin", path: `${NS}/pods/web%2Fnosuch`, status: 404 },
  { name: "an encoded slash, without the right", as: "agent", path: `${NS}/pods/web%2Fnosuch`, status: 403 },
  { name: "a non-resource path", as: "agent", path: "/nosuch", status: 403 },
  { name: "a non-resource path, as an administrator", as: "admin", path: "/nosuch", status: 404 },
  { name: "readiness without credentials", as: "nobody", path: "/readyz", status: 200, says: "ok" },
  {
    name: "an unauthenticated client may request the version",
    as: "nobody",
    path: "/version",
    status: 200,
    says: "v1.36.3",
    compare: [["gitVersion"]],
  },
  {
    name: "a denial of a namespace names the namespace scope",
    as: "agent",
    path: NS,
    status: 403,
    says: "in the namespace",
  },
  {
    name: "a SelfSubjectReview",
    as: "agent",
    method: "POST",
    path: "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    body: review("authentication.k8s.io", "SelfSubjectReview"),
    status: 201,
  },
  {
    name: "a SelfSubjectAccessReview with the answer yes",
    as: "agent",
    method: "POST",
    path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    body: review("authorization.k8s.io", "SelfSubjectAccessReview", {
      resourceAttributes: { namespace: "<ns>", verb: "get", resource: "pods", subresource: "log" },
    }),
    status: 201,
    compare: [["spec"], ["status"]],
  },
  {
    name: "a SelfSubjectAccessReview with the answer no",
    as: "agent",
    method: "POST",
    path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    body: review("authorization.k8s.io", "SelfSubjectAccessReview", {
      resourceAttributes: { namespace: "<ns>", verb: "create", resource: "pods", subresource: "exec" },
    }),
    status: 201,
    compare: [["spec"], ["status"]],
  },
  {
    name: "a SelfSubjectRulesReview",
    as: "agent",
    method: "POST",
    path: "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
    body: review("authorization.k8s.io", "SelfSubjectRulesReview", { namespace: "<ns>" }),
    status: 201,
  },
  {
    name: "a SelfSubjectRulesReview without a namespace",
    as: "agent",
    method: "POST",
    path: "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
    body: review("authorization.k8s.io", "SelfSubjectRulesReview", {}),
    status: 400,
  },
  {
    name: "an unauthenticated client may not request a SelfSubjectReview",
    as: "nobody",
    method: "POST",
    path: "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    body: review("authentication.k8s.io", "SelfSubjectReview"),
    status: 403,
  },
];

export const TOKENS: readonly Step[] = [
  ...[
    { name: "599 s are too short", spec: { expirationSeconds: 599 }, status: 422 },
    { name: "more than 2^32 s are too long", spec: { expirationSeconds: 2 ** 32 + 1 }, status: 422 },
    { name: "600 s are enough", spec: { expirationSeconds: 600 }, status: 201 },
    { name: "an hour by default", spec: {}, status: 201, says: '"expirationSeconds":3600' },
    { name: "another audience", spec: { expirationSeconds: 600, audiences: ["other"] }, status: 201 },
  ].map(({ spec, ...step }) => minting({ ...step, body: tokenRequest(spec) })),
  minting({ name: "no JSON", body: "not json", status: 400, compare: "status" }),
  minting({
    name: "an account without the minter's right to it",
    path: `${NS}/serviceaccounts/other/token`,
    body: tokenRequest({ expirationSeconds: 600 }),
    status: 403,
  }),
  minting({
    name: "a nonexistent account",
    as: "admin",
    path: `${NS}/serviceaccounts/other/token`,
    body: tokenRequest({ expirationSeconds: 600 }),
    status: 404,
  }),
  minting({
    name: "bound to a nonexistent Secret",
    body: boundTo({ apiVersion: "v1", kind: "Secret", name: "lease" }),
    status: 404,
  }),
  {
    name: "a minter creates a lease",
    as: "minter",
    method: "POST",
    path: `${NS}/secrets`,
    body: { apiVersion: "v1", kind: "Secret", metadata: { name: "lease" }, type: "Opaque" },
    status: 201,
  },
  minting({
    name: "bound to a Secret and its uid",
    body: boundTo({ apiVersion: "v1", kind: "Secret", name: "lease", uid: "<uid>" }),
    status: 201,
  }),
  minting({
    name: "bound to a Secret by name only",
    body: boundTo({ apiVersion: "v1", kind: "Secret", name: "lease" }),
    status: 201,
  }),
  minting({
    name: "bound to a replaced Secret",
    body: boundTo({
      apiVersion: "v1",
      kind: "Secret",
      name: "lease",
      uid: "11111111-1111-1111-1111-111111111111",
    }),
    status: 409,
    compare: [["message"], ["reason"]],
  }),
  minting({
    name: "bound to a kind that does not support it",
    body: boundTo({ apiVersion: "v1", kind: "ConfigMap", name: "lease" }),
    status: 400,
  }),
  minting({ name: "bound to no name", body: boundTo({ apiVersion: "v1", kind: "Secret" }), status: 400 }),
  {
    name: "a lease that already exists",
    as: "minter",
    method: "POST",
    path: `${NS}/secrets`,
    body: { apiVersion: "v1", kind: "Secret", metadata: { name: "lease" } },
    status: 409,
  },
  { name: "a minter may not read leases", as: "minter", path: `${NS}/secrets/lease`, status: 403 },
  { name: "a minter may not list leases", as: "minter", path: `${NS}/secrets`, status: 403 },
  {
    name: "a minter deletes a lease",
    as: "minter",
    method: "DELETE",
    path: `${NS}/secrets/lease`,
    status: 200,
  },
  { name: "a deleted lease", as: "minter", method: "DELETE", path: `${NS}/secrets/lease`, status: 404 },
];

function minting(step: Omit<Step, "as" | "path"> & Partial<Pick<Step, "as" | "path">>): Step {
  return {
    as: "minter",
    path: TOKEN,
    compare: [["spec"], ["status"], ["metadata", "name"], ["message"], ["details"]],
    ...step,
    method: "POST",
    name: `token: ${step.name}`,
  };
}
