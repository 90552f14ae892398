import assert from "node:assert/strict";
import { type ApiEvent, isWithin, readApiLine, readToken } from "./tokens.ts";
import { createAuditKey, GENESIS, seal } from "@gateway/shared/audit";
import { escapeKey } from "@gateway/shared/testing";
import { createRecordTable, createShortTable, readRecord, type ShownRecord } from "./record.ts";

// The record fields that kube-apiserver 1.36 writes.
const ISSUED =
  `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"4c9e1016","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/broker/serviceaccounts/agent/token","verb":"create","user":{"username":"system:serviceaccount:broker:minter","uid":"1bf011c9","groups":["system:serviceaccounts"],"extra":{"authentication.kubernetes.io/credential-id":["JTI=75207fd7"]}},"sourceIPs":["127.0.0.1"],"userAgent":"curl/7.88.1","objectRef":{"resource":"serviceaccounts","namespace":"broker","name":"agent","apiVersion":"v1","subresource":"token"},"responseStatus":{"metadata":{},"code":201},"requestReceivedTimestamp":"2026-11-22T12:32:11.182006Z","stageTimestamp":"2026-11-22T12:32:11.185644Z","annotations":{"authentication.kubernetes.io/issued-credential-id":"JTI=4e72bbd2","authorization.k8s.io/decision":"allow"}}`;
const LISTED =
  `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"c921328b","stage":"RequestReceived","requestURI":"/apis/apps/v1/namespaces/prod/deployments","verb":"list","user":{"username":"system:serviceaccount:broker:agent","extra":{"authentication.kubernetes.io/credential-id":["JTI=4e72bbd2"]}},"sourceIPs":["10.0.0.7"],"objectRef":{"resource":"deployments","namespace":"prod","apiGroup":"apps","apiVersion":"v1"},"requestReceivedTimestamp":"2026-11-22T12:32:11.366650Z"}`;
const ADMIN =
  `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"1","stage":"ResponseComplete","requestURI":"/readyz","verb":"get","user":{"username":"admin","groups":["system:masters"]}}`;

Deno.test("readApiLine() reads the requester and the ID of an issued token", () => {
  assert.deepEqual(readApiLine(ISSUED), {
    auditId: "4c9e1016",
    time: "2026-11-22T12:32:11.182006Z",
    verb: "create",
    uri: "/api/v1/namespaces/broker/serviceaccounts/agent/token",
    user: "system:serviceaccount:broker:minter",
    impersonated: undefined,
    jti: "75207fd7",
    issuedJti: "4e72bbd2",
    object: {
      group: "",
      resource: "serviceaccounts",
      subresource: "token",
      namespace: "broker",
      name: "agent",
    },
    status: 201,
    addresses: ["127.0.0.1"],
  });
});

Deno.test("readApiLine() reads the use of a token and that the response is pending", () => {
  const line = readApiLine(LISTED);
  assert.ok(typeof line === "object");
  const { jti, object, status } = line;
  assert.deepEqual([jti, object?.group, object?.name, status], ["4e72bbd2", "apps", "", undefined]);
});

Deno.test("readApiLine() reads the impersonated user and ignores the credential ID of a certificate", () => {
  const line = readApiLine(ADMIN.replace(
    `"user":{"username":"admin"`,
    `"impersonatedUser":{"username":"system:serviceaccount:broker:agent"},"user":{"username":"admin",` +
      `"extra":{"authentication.kubernetes.io/credential-id":["X509SHA256=00"]}`,
  ));
  assert.ok(typeof line === "object");
  assert.deepEqual(
    [line.user, line.impersonated, line.jti],
    ["admin", "system:serviceaccount:broker:agent", undefined],
  );
});

Deno.test.each<{ name: string; line: string; kind: string }>([
  { name: "a request of a user that is not a ServiceAccount", line: ADMIN, kind: "other" },
  { name: "an incomplete line", line: LISTED.slice(0, 300), kind: "malformed" },
  {
    name: "a truncated line",
    line: LISTED.replace(`"verb":"list",`, `"verb":"li`),
    kind: "malformed",
  },
  { name: "an event without an id", line: LISTED.replace("auditID", "id"), kind: "malformed" },
  {
    name: "an event whose user is not an object",
    line: LISTED.replace(/"user":\{.*?\}\}/, `"user":"system:serviceaccount:x"`),
    kind: "malformed",
  },
  {
    name: "a record of this project's audit log",
    line: `{"time":"2026-01-02T03:04:05Z","caller":"broker-1"}`,
    kind: "malformed",
  },
  { name: "text", line: "I1122 12:32:11 audit.k8s.io/ system:serviceaccount:", kind: "malformed" },
])("readApiLine() classifies $name as $kind", ({ line, kind }) => {
  assert.equal(readApiLine(line), kind);
});

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

/** The old format, with the token ID in `command`. */
const command = (verb: string, resource: string, ns: string, name: string) =>
  `target=k8s verb=${verb} resource=${resource} ns=${ns} name=${name} user=ann jti=t1 reason="INC 7" sha256=00 cmd=x rid=r-1`;

Deno.test.each<{ name: string; command: string }>([
  { name: "of a host", command: "uptime jti=t1" },
  { name: "of a denial", command: "target=k8s verb=get resource=pods ns=prod name=web-1 user=ann" },
  {
    name: "of a denial whose reason contains a forged token ID",
    command: 'target=k8s verb=get resource=pods ns=prod name=web-1 user=ann reason="x jti=t1 y"',
  },
  { name: "with an empty id", command: "target=k8s verb=get resource=pods ns=prod name=web-1 jti=" },
  {
    name: "whose command contains a forged k8s target",
    command: "role=target cmd=x target=host target=k8s jti=t1",
  },
])("readToken() finds no token in a record $name", ({ command }) => {
  assert.equal(readToken({ target_type: "k8s", outcome: "issued", command, jti: "" }), undefined);
});

Deno.test("readToken() finds no token in a host record, whatever its command", () => {
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
])("readToken() reads the purpose of a token from $form", ({ command, jti }) => {
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
  { name: "exactly the get of the token", asked: command("get", "pods", "prod", "web-1"), within: true },
  { name: "a get of another object", asked: command("get", "pods", "prod", "web-2"), within: false },
  { name: "a get in another namespace", asked: command("get", "pods", "dev", "web-1"), within: false },
  { name: "a get of another resource", asked: command("get", "secrets", "prod", "web-1"), within: false },
  {
    name: "a get of the same name in another API group",
    asked: command("get", "pods.metrics.k8s.io", "prod", "web-1"),
    within: false,
  },
  {
    name: "a delete with a token for get",
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
    name: "a get of the pod with a token for its log",
    asked: command("logs", "pods", "prod", "web-1"),
    within: false,
  },
  {
    name: "an exec in a pod with a token for get",
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
    name: "a list of all namespaces with a token for one namespace",
    asked: command("list", "pods", "prod", "-"),
    verb: "list",
    object: { name: "", namespace: "" },
    within: false,
  },
  {
    name: "a watch with a token for list",
    asked: command("list", "pods", "prod", "-"),
    verb: "watch",
    object: { name: "" },
    within: false,
  },
  { name: "an apply", asked: command("apply", "pods", "prod", "web-1"), verb: "patch", within: true },
  {
    name: "a get with a token for apply",
    asked: command("apply", "pods", "prod", "web-1"),
    within: false,
  },
  {
    name: "any request with an unknown verb of a newer version",
    asked: command("scale", "pods", "prod", "web-1"),
    within: false,
  },
])("isWithin() returns $within for $name", ({ asked, verb = "get", object, within }) => {
  const token = readToken({ target_type: "k8s", outcome: "issued", command: asked, jti: "" });
  assert.ok(token);
  assert.equal(isWithin(token, { ...EVENT, verb, object: { ...OBJECT, ...object } }), within);
  assert.equal(isWithin(token, { ...EVENT, verb, object: undefined }), false);
});

Deno.test.each<{ name: string; verb: string; uri: string; within: boolean }>([
  { name: "a get of the object", verb: "get", uri: "/api/v1/namespaces/prod/pods/web-1", within: true },
  { name: "an apply without effect", verb: "patch", uri: "/x?fieldManager=gateway&dryRun=All", within: true },
  { name: "an apply", verb: "patch", uri: "/x?fieldManager=gateway", within: false },
  { name: "an apply that pretends", verb: "patch", uri: "/x?fieldManager=dryRun=All", within: false },
  { name: "an apply with a duplicate query", verb: "patch", uri: "/x?dryRun=All&dryRun=", within: false },
  { name: "a delete", verb: "delete", uri: "/x?dryRun=All", within: false },
])("isWithin() returns $within before an approval: $name", ({ verb, uri, within }) => {
  const asked = command("apply", "pods", "prod", "web-1");
  for (const outcome of ["approval-required", "dry_run_allowed"]) {
    const token = readToken({ target_type: "k8s", outcome, command: asked, jti: "" });
    assert.ok(token);
    assert.equal(isWithin(token, { ...EVENT, verb, uri }), within, outcome);
  }
});

const RECORD: ShownRecord = {
  time: "2026-01-02T03:04:05.678Z",
  seq: 7n,
  caller: "broker-local",
  host: "10.0.0.5:22",
  who: "agent-7",
  ...{
    user: "",
    principal: "",
    addr: "10.0.0.5:22",
    end_user: "",
    approval_id: "",
    body_sha256: "",
    content_sha256: "",
  },
  outcome: "issued",
  serial: 9223372036854775808n,
  target_type: "",
  command: "role=target",
  command_line: "uptime",
  command_sha256: "",
  decision: "",
  session_id: "5e551d",
  host_name: "web01",
  request_id: "r-1",
  policy_version: 4,
  reason: "INC 7",
  jti: "",
  elevation: "sudo:root",
  pty: true,
  policy_rule: "allow:^uptime$",
  dry_run: false,
  approved_by: "ann",
  anomaly: "",
  warning: "",
  err: "",
};
const DETAIL = "role=target [command: uptime] [session: 5e551d] [host: web01] [sudo:root] [pty] " +
  "[rule: allow:^uptime$] [approved-by: ann] [reason: INC 7] [policy: 4] [request: r-1]";

Deno.test("createRecordTable() puts every detail of a record on one line", () => {
  const { heading, format } = createRecordTable({ full: false });
  assert.equal(
    heading,
    "TIME                  SEQ     CALLER          HOST                  OUTCOME         SERIAL                DETAIL",
  );
  assert.equal(
    format(RECORD),
    "2026-01-02T03:04:05Z  7       broker-local    10.0.0.5:22           issued          9223372036854775808   " +
      DETAIL,
  );
});

Deno.test("createShortTable() fits a terminal and shows ages or times of day", () => {
  const record = {
    ...RECORD,
    who: "ann\x1b[2J.example.org",
    command_line: "systemctl restart nginx 日本語日本語",
    outcome: "approval-required",
  };
  const { heading, format } = createShortTable({ full: false }, 80, Date.parse(RECORD.time) + 7_300_000);
  assert.deepEqual([heading, format(RECORD), format(record)], [
    "TIME      WHO           HOST          WHAT                     RESULT",
    "2h ago    agent-7       web01         uptime                   issued",
    "2h ago    ann\\x1b[2J.…  web01         systemctl restart ngin…  approval-required",
  ]);
  const wide = createShortTable({ full: false }, 120);
  assert.match(wide.format(record), /^03:04:05 .* nginx 日本語日本語 /);
});

Deno.test.each([{ field: "command" }, { field: "policy_rule" }, { field: "err" }])(
  "createRecordTable() truncates a long $field unless full output is requested",
  ({ field }) => {
    const record = { ...RECORD, [field]: "a".repeat(60_000) };
    const show = (full: boolean) => createRecordTable({ full }).format(record);
    assert.match(show(false), /[ ]a{400}…\[first 400 of 60000 characters\]/);
    assert.match(show(true), /[ ]a{60000}(?!…)/);
  },
);

Deno.test("readRecord() decodes escaped keys, whatever it read before", () => {
  const { before, text } = escapeKey('{"caller":"broker-1","outcome":"denied","host":"web01"', "outcome");
  const lines = [before, text].map((body) =>
    seal({ body, ext: "" }, GENESIS, createAuditKey(new Uint8Array(32))).line
  );
  const [, record] = lines.map((line) => readRecord(new TextEncoder().encode(line)));
  assert.equal(record?.record.outcome, "denied");
});
