import assert from "node:assert/strict";
import { readApiLine } from "./tokens.ts";

// As kube-apiserver 1.36 writes them.
const ISSUED =
  `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"4c9e1016","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/broker/serviceaccounts/agent/token","verb":"create","user":{"username":"system:serviceaccount:broker:minter","uid":"1bf011c9","groups":["system:serviceaccounts"],"extra":{"authentication.kubernetes.io/credential-id":["JTI=75207fd7"]}},"sourceIPs":["127.0.0.1"],"userAgent":"curl/7.88.1","objectRef":{"resource":"serviceaccounts","namespace":"broker","name":"agent","apiVersion":"v1","subresource":"token"},"responseStatus":{"metadata":{},"code":201},"requestReceivedTimestamp":"2026-11-22T12:32:11.182006Z","stageTimestamp":"2026-11-22T12:32:11.185644Z","annotations":{"authentication.kubernetes.io/issued-credential-id":"JTI=4e72bbd2","authorization.k8s.io/decision":"allow"}}`;
const LISTED =
  `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"c921328b","stage":"RequestReceived","requestURI":"/apis/apps/v1/namespaces/prod/deployments","verb":"list","user":{"username":"system:serviceaccount:broker:agent","extra":{"authentication.kubernetes.io/credential-id":["JTI=4e72bbd2"]}},"sourceIPs":["10.0.0.7"],"objectRef":{"resource":"deployments","namespace":"prod","apiGroup":"apps","apiVersion":"v1"},"requestReceivedTimestamp":"2026-11-22T12:32:11.366650Z"}`;
const ADMIN =
  `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"1","stage":"ResponseComplete","requestURI":"/readyz","verb":"get","user":{"username":"admin","groups":["system:masters"]}}`;

Deno.test("readApiLine() reads who had which token issued", () => {
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

Deno.test("readApiLine() reads what a token was used for, and that it has no answer yet", () => {
  const line = readApiLine(LISTED);
  assert.ok(typeof line === "object");
  const { jti, object, status } = line;
  assert.deepEqual([jti, object?.group, object?.name, status], ["4e72bbd2", "apps", "", undefined]);
});

Deno.test("readApiLine() reads as whom an administrator acts, and no token's id in a certificate's", () => {
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
  { name: "a request that no ServiceAccount made", line: ADMIN, kind: "other" },
  { name: "a line that is cut", line: LISTED.slice(0, 300), kind: "malformed" },
  {
    name: "a line with a cut in it",
    line: LISTED.replace(`"verb":"list",`, `"verb":"li`),
    kind: "malformed",
  },
  { name: "an event without an id", line: LISTED.replace("auditID", "id"), kind: "malformed" },
  {
    name: "an event whose user is no object",
    line: LISTED.replace(/"user":\{.*?\}\}/, `"user":"system:serviceaccount:x"`),
    kind: "malformed",
  },
  {
    name: "a record of ours",
    line: `{"time":"2026-01-02T03:04:05Z","caller":"broker-1"}`,
    kind: "malformed",
  },
  { name: "text", line: "I1122 12:32:11 audit.k8s.io/ system:serviceaccount:", kind: "malformed" },
])("readApiLine() takes $name for $kind", ({ line, kind }) => {
  assert.equal(readApiLine(line), kind);
});
