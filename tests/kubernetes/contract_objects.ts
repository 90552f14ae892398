import type { Step } from "./contract.ts";

const NS = "/api/v1/namespaces/<ns>";
const CONFIG_MAPS = `${NS}/configmaps`;
const WIDGETS = "/apis/<group>/v1/namespaces/<ns>/widgets";
const APPLY = `${CONFIG_MAPS}/x?fieldManager=gateway`;

const configMap = (name: string, data?: unknown, metadata: object = {}) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, ...metadata },
  ...(data === undefined ? {} : { data }),
});

export const APPLIES: readonly Step[] = [
  applying({
    name: "a dry-run apply",
    query: "&dryRun=All",
    body: configMap("x", { a: "1" }),
    status: 201,
  }),
  { name: "a dry-run apply creates no object", as: "admin", path: `${CONFIG_MAPS}/x`, status: 404 },
  applying({ name: "an apply creates the object", body: configMap("x", { a: "1", b: "2" }), status: 201 }),
  applying({ name: "an apply of the same manifest", body: configMap("x", { a: "1", b: "2" }), status: 200 }),
  applying({ name: "another's field", by: "other", body: configMap("x", { a: "9", c: "3" }), status: 409 }),
  applying({
    name: "a field of another manager with its current value",
    by: "other",
    body: configMap("x", { a: "1", c: "3" }),
    status: 200,
  }),
  applying({ name: "a field of two managers", body: configMap("x", { a: "5", c: "5" }), status: 409 }),
  applying({
    name: "a field of another manager with force",
    by: "other",
    query: "&force=true",
    body: configMap("x", { a: "9", c: "3" }),
    status: 200,
  }),
  applying({ name: "a missing field is removed", body: configMap("x", { d: "4" }), status: 200 }),
  applying({ name: "a dry-run change", query: "&dryRun=All", body: configMap("x", { d: "5" }), status: 200 }),
  {
    name: "a dry-run change has no effect",
    as: "admin",
    path: `${CONFIG_MAPS}/x`,
    status: 200,
    says: '"d":"4"',
  },
  applying({ name: "two conflicts", body: configMap("x", { a: "0", c: "0" }), status: 409 }),
  {
    name: "an apply without a field manager",
    ...patch(`${CONFIG_MAPS}/x`, configMap("x")),
    as: "admin",
    status: 422,
  },
  applying({ name: "an unknown value of dryRun", query: "&dryRun=Some", body: configMap("x"), status: 422 }),
  applying({ name: "another name", body: configMap("y", { d: "4" }), status: 400 }),
  applying({
    name: "another namespace in the manifest",
    body: configMap("x", { d: "4" }, { namespace: "other" }),
    status: 400,
  }),
  applying({ name: "another kind", body: { ...configMap("x"), kind: "Secret" }, status: 400 }),
  applying({ name: "another version", body: { ...configMap("x"), apiVersion: "apps/v1" }, status: 400 }),
  applying({ name: "no kind", body: { metadata: { name: "x" } }, status: 400 }),
  applying({
    name: "a manifest without a name uses the name of the path",
    body: { ...configMap("x", { d: "4" }), metadata: {} },
    status: 200,
  }),
  applying({ name: "an unknown field", body: { ...configMap("x"), nosuch: 1 }, status: 500 }),
  applying({ name: "a number for a text", body: configMap("x", { a: 1 }), status: 500, compare: "status" }),
  applying({ name: "an array", body: "[]", status: 400 }),
  applying({ name: "invalid JSON", body: "{not json", status: 400, compare: "status" }),
  applying({
    name: "two documents, of which the first is applied",
    body: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n  d: '4'\n---\nkind: Secret\n",
    status: 200,
  }),
  applying({ name: "managedFields", body: configMap("x", {}, { managedFields: [] }), status: 400 }),
  {
    name: "a name with capital letters",
    ...patch(`${CONFIG_MAPS}/Bad_Name?fieldManager=gateway`, configMap("Bad_Name")),
    as: "admin",
    status: 422,
  },
  {
    name: "a name of 254 letters",
    ...patch(`${CONFIG_MAPS}/${"a".repeat(254)}?fieldManager=gateway`, configMap("a".repeat(254))),
    as: "admin",
    status: 422,
  },
  {
    name: "a nonexistent namespace",
    ...patch("/api/v1/namespaces/none/configmaps/x?fieldManager=gateway", configMap("x")),
    as: "admin",
    status: 404,
  },
  { name: "an apply without the right", ...patch(APPLY, configMap("x")), as: "agent", status: 403 },
  {
    name: "a dry-run apply without the right",
    ...patch(`${APPLY}&dryRun=All`, configMap("x")),
    as: "agent",
    status: 403,
  },
  {
    name: "an object created without apply",
    as: "admin",
    method: "POST",
    path: CONFIG_MAPS,
    body: configMap("made", { a: "1" }),
    status: 201,
  },
  {
    name: "its fields belong to its creator",
    ...patch(`${CONFIG_MAPS}/made?fieldManager=gateway`, configMap("made", { a: "2" })),
    as: "admin",
    status: 409,
  },
  {
    name: "a list is merged by its keys",
    ...patch("/apis/apps/v1/namespaces/<ns>/deployments/web?fieldManager=gateway", deployment("app:1")),
    as: "agent",
    status: 201,
    compare: "status",
  },
  {
    name: "a conflict inside a list",
    ...patch("/apis/apps/v1/namespaces/<ns>/deployments/web?fieldManager=other", deployment("app:2")),
    as: "agent",
    status: 409,
  },
];

/** Lists, paged and by selectors. */
export const LISTS: readonly Step[] = [
  ...["b", "c", "d", "e", "f"].map((name): Step => ({
    name: `creation of ${name}`,
    as: "admin",
    method: "POST",
    path: CONFIG_MAPS,
    body: configMap(name, { v: name }, { labels: { app: name === "e" ? "e" : "x" } }),
    status: 201,
  })),
  ...[
    { name: "the first two", query: "limit=2", status: 200, says: '"remainingItemCount":3' },
    {
      name: "the next two entries",
      query: "limit=2&continue=<continue>",
      status: 200,
      says: '"remainingItemCount":1',
    },
    { name: "the last one", query: "limit=2&continue=<continue>", status: 200 },
    { name: "an invalid continue token", query: "continue=abc", status: 400, compare: "status" as const },
    { name: "an invalid limit", query: "limit=x", status: 400 },
    { name: "a limit below zero", query: "limit=-1", status: 200 },
    { name: "a label", query: "labelSelector=app%3De", status: 200 },
    { name: "the first of a label", query: "limit=1&labelSelector=app%3Dx", status: 200 },
    { name: "the rest of a label", query: "labelSelector=app%3Dx&continue=<continue>", status: 200 },
    { name: "not in a set", query: "labelSelector=app+notin+(x),app", status: 200 },
    { name: "a label with another value", query: "labelSelector=app!%3Dx", status: 200 },
    { name: "without a label", query: "labelSelector=!app", status: 200 },
    { name: "an invalid selector", query: "labelSelector=%3D%3D", status: 400 },
    { name: "a field", query: "fieldSelector=metadata.name%3Db", status: 200 },
    { name: "a field without selector support", query: "fieldSelector=data.v%3Db", status: 400 },
  ].map(({ query, ...step }): Step => ({
    ...step,
    name: `list: ${step.name}`,
    as: "agent",
    path: `${CONFIG_MAPS}?${query}`,
  })),
  {
    name: "list: pods by phase",
    as: "agent",
    path: `${NS}/pods?fieldSelector=status.phase%3DPending`,
    status: 200,
  },
  { name: "a dry delete", as: "admin", method: "DELETE", path: `${CONFIG_MAPS}/b?dryRun=All`, status: 200 },
  { name: "a delete", as: "admin", method: "DELETE", path: `${CONFIG_MAPS}/b`, status: 200 },
  { name: "a second delete", as: "admin", method: "DELETE", path: `${CONFIG_MAPS}/b`, status: 404 },
];

export const LOGS: readonly Step[] = [
  ...[
    { name: "all", query: "", says: "one\ntwo\nthree\n", status: 200 },
    { name: "the last line", query: "?tailLines=1", says: "three\n", status: 200 },
    { name: "the first bytes", query: "?limitBytes=5", says: "one\nt", status: 200 },
    { name: "a negative number of lines", query: "?tailLines=-1", status: 422 },
    { name: "since an invalid time", query: "?sinceSeconds=0", status: 422 },
    { name: "an invalid number of lines", query: "?tailLines=x", status: 400 },
    { name: "a nonexistent container", query: "?container=no", status: 400 },
    { name: "one of several containers without a name", pod: "pair", query: "", status: 400 },
    { name: "one of the containers", pod: "pair", query: "?container=side", says: "beside\n", status: 200 },
    { name: "a nonexistent pod", pod: "none", query: "", status: 404 },
  ].map(({ pod = "web", query, ...step }): Step => ({
    ...step,
    name: `log: ${step.name}`,
    as: "agent",
    path: `${NS}/pods/${pod}/log${query}`,
  })),
  { name: "log: without the right", as: "minter", path: `${NS}/pods/web/log`, status: 403 },
];

/** A custom resource, which the server knows only by its definition. */
export const CUSTOM: readonly Step[] = [
  ...[
    { name: "is made", query: "fieldManager=gateway", size: 1, status: 201 },
    { name: "is changed", query: "fieldManager=gateway", size: 2, status: 200 },
    { name: "has managers", query: "fieldManager=other", size: 3, status: 409 },
  ].map(({ query, size, ...step }): Step => ({
    ...step,
    ...patch(`${WIDGETS}/w?${query}`, {
      apiVersion: "<group>/v1",
      kind: "Widget",
      metadata: { name: "w" },
      spec: { size, parts: [{ name: "a" }] },
    }),
    as: "admin",
    name: `custom: ${step.name}`,
  })),
  { name: "custom: is there", as: "admin", path: `${WIDGETS}/w`, status: 200 },
  { name: "custom: is listed", as: "admin", path: WIDGETS, status: 200 },
  { name: "custom: without the right", as: "agent", path: WIDGETS, status: 403 },
  {
    name: "custom: another kind",
    ...patch(`${WIDGETS}/w?fieldManager=gateway`, configMap("w")),
    as: "admin",
    status: 400,
  },
  { name: "custom: another version", as: "admin", path: "/apis/<group>/v2/widgets", status: 404 },
  { name: "custom: is deleted", as: "admin", method: "DELETE", path: `${WIDGETS}/w`, status: 200 },
];

export const ENDINGS: readonly Step[] = [
  {
    name: "deletion of a running pod starts its grace period",
    as: "admin",
    method: "DELETE",
    path: `${NS}/pods/web`,
    status: 200,
    compare: [["metadata", "deletionGracePeriodSeconds"], ["metadata", "name"], ["status", "phase"]],
  },
  { name: "the deleted pod", as: "admin", path: `${NS}/pods/web`, status: 200, compare: "status" },
  { name: "deletion of a namespace", as: "admin", method: "DELETE", path: NS, status: 200 },
  {
    name: "creation in a namespace that is being deleted",
    ...patch(`${CONFIG_MAPS}/new?fieldManager=gateway`, configMap("new")),
    as: "admin",
    status: 403,
  },
];

function applying(
  { query = "", by = "gateway", name, ...step }: Omit<Step, "as" | "path"> & {
    readonly query?: string;
    readonly by?: string;
  },
): Step {
  const path = `${CONFIG_MAPS}/x?fieldManager=${by}${query}`;
  return { ...step, as: "admin", method: "PATCH", path, name: `apply: ${name}` };
}

function patch(path: string, body: unknown) {
  return { method: "PATCH", path, body };
}

function deployment(image: string) {
  const labels = { app: "web" };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web" },
    spec: {
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: "app", image }] } },
    },
  };
}
