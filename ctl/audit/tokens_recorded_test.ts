import assert from "node:assert/strict";
import { type ApiEvent, isWithin, readToken } from "./tokens.ts";

type ApiObject = NonNullable<ApiEvent["object"]>;

const OBJECT: ApiObject = { group: "", resource: "pods", subresource: "", namespace: "prod", name: "web-1" };
const EVENT: ApiEvent = {
  auditId: "1",
  time: "2026-11-22T12:32:11Z",
  verb: "get",
  uri: "/",
  user: "system:serviceaccount:broker:agent",
  impersonated: undefined,
  jti: "t1",
  issuedJti: undefined,
  object: OBJECT,
  status: 200,
  addresses: [],
};

/** In the old form, in which the ID of the token stands in `command`. */
const command = (verb: string, resource: string, ns: string, name: string) =>
  `target=k8s verb=${verb} resource=${resource} ns=${ns} name=${name} user=ann jti=t1 reason="INC 7" sha256=00 cmd=x rid=r-1`;

Deno.test.each<{ name: string; command: string }>([
  { name: "of a host", command: "uptime jti=t1" },
  { name: "of a refusal", command: "target=k8s verb=get resource=pods ns=prod name=web-1 user=ann" },
  {
    name: "of a refusal whose reason pretends that there was one",
    command: 'target=k8s verb=get resource=pods ns=prod name=web-1 user=ann reason="x jti=t1 y"',
  },
  { name: "with an empty id", command: "target=k8s verb=get resource=pods ns=prod name=web-1 jti=" },
  {
    name: "whose text pretends to be of a cluster",
    command: "role=target cmd=x target=host target=k8s jti=t1",
  },
])("readToken() finds no token in a record $name", ({ command }) => {
  assert.equal(readToken({ target_type: "k8s", outcome: "issued", command, jti: "" }), undefined);
});

Deno.test("readToken() finds no token in a record of a host, whatever its command", () => {
  const forged = command("get", "pods", "prod", "web-1");
  assert.equal(readToken({ target_type: "", outcome: "issued", command: forged, jti: "t1" }), undefined);
});

Deno.test.each([
  {
    form: "a record",
    command: "target=k8s verb=apply resource=deployments.apps ns=prod name=api user=ann",
    jti: "t1",
  },
  { form: "an old record", command: command("apply", "deployments.apps", "prod", "api"), jti: "" },
])("readToken() reads from $form what a token was issued for", ({ command, jti }) => {
  assert.deepEqual(
    readToken({ target_type: "k8s", outcome: "issued", command, jti }),
    {
      jti: "t1",
      verb: "apply",
      resource: "deployments",
      group: "apps",
      namespace: "prod",
      name: "api",
      isForPreview: false,
    },
  );
});

Deno.test.each<{ name: string; asked: string; verb?: string; object?: Partial<ApiObject>; within: boolean }>([
  { name: "the get that it is for", asked: command("get", "pods", "prod", "web-1"), within: true },
  { name: "a get of another object", asked: command("get", "pods", "prod", "web-2"), within: false },
  { name: "a get in another namespace", asked: command("get", "pods", "dev", "web-1"), within: false },
  { name: "a get of another resource", asked: command("get", "secrets", "prod", "web-1"), within: false },
  {
    name: "a get of the same name in another group",
    asked: command("get", "pods.metrics.k8s.io", "prod", "web-1"),
    within: false,
  },
  {
    name: "a delete with a token for a get",
    asked: command("get", "pods", "prod", "web-1"),
    verb: "delete",
    within: false,
  },
  {
    name: "the log of a pod",
    asked: command("logs", "pods", "prod", "web-1"),
    object: { subresource: "log" },
    within: true,
  },
  {
    name: "the pod with a token for its log",
    asked: command("logs", "pods", "prod", "web-1"),
    within: false,
  },
  {
    name: "a shell in a pod with a token for a get",
    asked: command("get", "pods", "prod", "web-1"),
    object: { subresource: "exec" },
    within: false,
  },
  {
    name: "a list of a namespace",
    asked: command("list", "pods", "prod", "-"),
    verb: "list",
    object: { name: "" },
    within: true,
  },
  {
    name: "a list of all namespaces with a token for one",
    asked: command("list", "pods", "prod", "-"),
    verb: "list",
    object: { name: "", namespace: "" },
    within: false,
  },
  {
    name: "a watch with a token for a list",
    asked: command("list", "pods", "prod", "-"),
    verb: "watch",
    object: { name: "" },
    within: false,
  },
  { name: "an apply", asked: command("apply", "pods", "prod", "web-1"), verb: "patch", within: true },
  {
    name: "a get with a token for an apply",
    asked: command("apply", "pods", "prod", "web-1"),
    within: false,
  },
  {
    name: "anything with a verb of a newer version",
    asked: command("scale", "pods", "prod", "web-1"),
    within: false,
  },
])("isWithin() judges $name: $within", ({ asked, verb = "get", object, within }) => {
  const token = readToken({ target_type: "k8s", outcome: "issued", command: asked, jti: "" });
  assert.ok(token);
  assert.equal(isWithin(token, { ...EVENT, verb, object: { ...OBJECT, ...object } }), within);
  assert.equal(isWithin(token, { ...EVENT, verb, object: undefined }), false);
});

Deno.test.each<{ name: string; verb: string; uri: string; within: boolean }>([
  { name: "a look at the object", verb: "get", uri: "/api/v1/namespaces/prod/pods/web-1", within: true },
  { name: "an apply without effect", verb: "patch", uri: "/x?fieldManager=gateway&dryRun=All", within: true },
  { name: "an apply", verb: "patch", uri: "/x?fieldManager=gateway", within: false },
  { name: "an apply that pretends", verb: "patch", uri: "/x?fieldManager=dryRun=All", within: false },
  { name: "an apply that is asked for twice", verb: "patch", uri: "/x?dryRun=All&dryRun=", within: false },
  { name: "a delete", verb: "delete", uri: "/x?dryRun=All", within: false },
])("isWithin() judges $name before somebody has approved: $within", ({ verb, uri, within }) => {
  const asked = command("apply", "pods", "prod", "web-1");
  for (const outcome of ["approval-required", "dry_run_allowed"]) {
    const token = readToken({ target_type: "k8s", outcome, command: asked, jti: "" });
    assert.ok(token);
    assert.equal(isWithin(token, { ...EVENT, verb, uri }), within, outcome);
  }
});
