import assert from "node:assert/strict";
import { sampleCluster } from "@gateway/shared/testing";
import { checkCluster, type Finding } from "./check.ts";
import { formatRbacRule, neededRights, type Right, toRbacRules } from "./rights.ts";
import { readClaims, Reviews } from "./reviews.ts";
import { actionPattern, readClusterEntry } from "./entry.ts";
import type { ApiOutcome, ApiRequest } from "@gateway/shared/kubernetes";

const CLUSTER = sampleCluster();
const OPEN = [{
  verbs: ["get"],
  nonResourceURLs: ["/healthz", "/version/", "/api", "/apis/*", "/openid/v1/jwks"],
}];
const NOW = Date.UTC(2026, 0, 2);
const MINTER = "system:serviceaccount:gateway:minter";

/** A correctly configured API server with the given changes. */
function healthy(more: Partial<Reviews> = {}): Reviews {
  const whoAmI: Reviews["whoAmI"] = () =>
    Promise.resolve({ username: MINTER, groups: ["system:serviceaccounts"] });
  const mayI: Reviews["mayI"] = (_token, { resource, name }) =>
    Promise.resolve({ allowed: resource === "serviceaccounts/token" && name === "agent", reason: "" });
  const rulesIn: Reviews["rulesIn"] = (token, namespace) => {
    const minting = [{
      apiGroups: [""],
      resources: ["serviceaccounts/token"],
      resourceNames: ["agent"],
      verbs: ["create"],
    }];
    const acting = toRbacRules(neededRights(CLUSTER));
    const rules = token === "minter"
      ? (namespace === "gateway" ? minting : [])
      : (namespace === "web" ? acting : []);
    return Promise.resolve({ rules, paths: OPEN, incomplete: false });
  };
  const mint: Reviews["mint"] = () => Promise.resolve({ token: "agent", jti: "4e72" });
  return { whoAmI, mayI, rulesIn, mint, ...more } as Reviews;
}

async function problems(reviews: Reviews, token = "minter"): Promise<readonly Finding[]> {
  const findings = await checkCluster({ name: "prod", cluster: CLUSTER, token, reviews, now: NOW });
  return findings.filter(({ level }) => level !== "ok");
}

Deno.test("checkCluster() finds no problem if rights and rules are equal", async () => {
  const findings = await checkCluster({
    name: "prod",
    cluster: CLUSTER,
    token: "minter",
    reviews: healthy(),
    now: NOW,
  });
  assert.deepEqual(findings.map(({ level, text }) => `${level}: ${text}`), [
    `ok: https://10.0.0.5:6443 responds; the token of token_file belongs to ${MINTER}`,
    `ok: ${MINTER} may only issue the tokens`,
    "ok: gateway/agent: token issued for this check, ID 4e72",
    "ok: gateway/agent has exactly the rights that the rules need",
  ]);
  assert.deepEqual(findings.flatMap(({ details }) => details), [
    "to explain it in the cluster's audit log: broker-ctl audit show --join --checked 4e72",
    "checked namespaces: default, gateway, kube-system, web; it may have more rights in others",
  ]);
});

Deno.test.each<{ name: string; username: string; groups: readonly string[]; text: RegExp }>([
  {
    name: "an administrator",
    username: "admin",
    groups: ["system:masters"],
    text: /admin has all rights/,
  },
  { name: "a person", username: "ann", groups: [], text: /ann is not a ServiceAccount/ },
  {
    name: "the account that acts on the cluster",
    username: "system:serviceaccount:gateway:agent",
    groups: [],
    text: /is itself in sa_bindings/,
  },
])("checkCluster() warns if the minter is $name", async ({ username, groups, text }) => {
  const found = await problems(healthy({ whoAmI: () => Promise.resolve({ username, groups }) }));
  assert.deepEqual(found.map(({ level }) => level), ["warning"]);
  assert.match(found[0]?.text ?? "", text);
});

Deno.test("checkCluster() warns of a credential that expires within a week", async () => {
  const token = (exp: number) => `e30.${btoa(JSON.stringify({ exp })).replace(/=+$/, "")}.x`;
  const day = 86_400;
  const rulesIn: Reviews["rulesIn"] = (token, namespace) =>
    healthy().rulesIn(token === "agent" ? token : "minter", namespace);
  const found = await problems(healthy({ rulesIn }), token(NOW / 1000 + 6 * day));
  assert.deepEqual(found.map(({ text }) => text), [
    "the token of token_file expires 2026-01-08T00:00:00Z: renew it soon",
  ]);
  assert.deepEqual(await problems(healthy({ rulesIn }), token(NOW / 1000 + 8 * day)), []);
});

Deno.test("checkCluster() requests rights one by one if the API server returns only a part", async () => {
  const asked: Right[] = [];
  const found = await problems(healthy({
    rulesIn: async (token, namespace) => ({
      ...await healthy().rulesIn(token, namespace),
      incomplete: token === "agent",
    }),
    mayI: async (token, question) => {
      asked.push(question);
      if (token === "agent" && question.resource === "secrets" && question.verb === "list") {
        return { allowed: true, reason: "a webhook says so" };
      }
      return await healthy().mayI(token, question);
    },
  }));
  assert.deepEqual(found, [
    {
      level: "warning",
      text: "gateway/agent may have more rights than the API server can list",
      details: [],
    },
    {
      level: "warning",
      text: "gateway/agent may list secrets in all namespaces: no rule needs it",
      details: ["a webhook says so"],
    },
  ]);
  assert.ok(asked.some(({ resource, verb }) => resource === "users" && verb === "impersonate"));
});

Deno.test("checkCluster() reports all problems together and creates no token without the minter's right to it", async () => {
  let minted = 0;
  const found = await problems(healthy({
    mayI: () => Promise.resolve({ allowed: false, reason: "" }),
    rulesIn: () =>
      Promise.resolve({
        rules: [{ apiGroups: ["*"], resources: ["*"], verbs: ["*"] }],
        paths: [],
        incomplete: false,
      }),
    mint: () => {
      minted++;
      return Promise.resolve({ token: "agent", jti: "" });
    },
  }));
  assert.deepEqual(found.map(({ level, text }) => `${level}: ${text}`), [
    `error: ${MINTER} may not create serviceaccounts/token agent in gateway`,
    `warning: ${MINTER} may * *.* in gateway, default, kube-system: issuing tokens does not need it`,
  ]);
  const everything = formatRbacRule({ apiGroups: ["*"], resources: ["*"], verbs: ["*"] });
  assert.deepEqual(found[1]?.details, [`remove ${everything}`]);
  assert.equal(minted, 0);
});

Deno.test("checkCluster() warns of rights to non-resource paths", async () => {
  const rulesIn: Reviews["rulesIn"] = async (token, namespace) => ({
    ...await healthy().rulesIn(token, namespace),
    paths: token === "agent"
      ? [...OPEN, { verbs: ["get", "*"], nonResourceURLs: ["/metrics", "/livez"] }]
      : OPEN,
  });
  assert.deepEqual((await problems(healthy({ rulesIn }))).map(({ text }) => text), [
    "gateway/agent may get /metrics, * /metrics, * /livez: no rule needs it",
  ]);
});

type ClusterFlags = Parameters<typeof readClusterEntry>[0];

Deno.test.each<{ name: string; flags: ClusterFlags; entry: ReturnType<typeof readClusterEntry> }>([
  { name: "no settings without flags", flags: {}, entry: {} },
  {
    name: "a rule with namespaces and object names",
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
    name: "a rule without namespaces or names, which covers all",
    flags: { rule: ["deny * secrets"] },
    entry: {
      rules: [{ verbs: ["*"], resources: ["secrets"], namespaces: ["*"], names: ["*"], effect: "deny" }],
    },
  },
  {
    name: "ServiceAccounts for all end users and for groups",
    flags: { serviceAccount: ["gateway/dba=dba,ops", "gateway/agent"] },
    entry: {
      sa_bindings: [
        { groups: ["dba", "ops"], namespace: "gateway", service_account: "dba" },
        { namespace: "gateway", service_account: "agent" },
      ],
    },
  },
  {
    name: "namespaced and cluster-wide resources",
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
    name: "a cleared list and a list with one value",
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

Deno.test.each<[string, ClusterFlags, RegExp]>([
  ["a rule without resources", { rule: ["allow get"] }, /Cannot read rule "allow get"/],
  ["an unknown effect", { rule: ["permit get pods"] }, /allow\|deny\|require_approval/],
  ["a rule with too many words", { rule: ["allow get pods prod web"] }, /Cannot read rule/],
  ["a rule with two names", { rule: ["allow get pods prod/a/b"] }, /Cannot read rule/],
  ["a rule with an empty list of verbs", { rule: ["allow , pods prod"] }, /Cannot read rule/],
  ["a rule with an empty name", { rule: ["allow get pods prod/"] }, /Cannot read rule/],
  ["a rule with an empty namespace", { rule: ["allow get pods prod,"] }, /Cannot read rule/],
  ["an empty rule among others", { rule: ["", "allow get pods"] }, /Cannot read rule ""/],
  ["an account without a namespace", { serviceAccount: ["agent"] }, /Cannot read ServiceAccount/],
  ["a resource without a version", { resource: ["widgets.example.com"] }, /Cannot read resource/],
])("readClusterEntry() rejects %s", (_name, flags, error) => {
  assert.throws(() => readClusterEntry(flags), error);
});

Deno.test.each<{ text: string; pattern: string }>([
  { text: "delete pods web/shop-1", pattern: "^(?:delete) (?:pods) (?:web)/(?:shop-1)$" },
  {
    text: "get,apply deployments,widgets.example.com web/*",
    pattern: "^(?:get|apply) (?:deployments\\.apps|widgets\\.example\\.com) (?:web)/(?:[^ ]+)$",
  },
  { text: "get nodes -/n1.local", pattern: "^(?:get) (?:nodes) (?:-)/(?:n1\\.local)$" },
])("actionPattern() converts $text to a pattern", ({ text, pattern }) => {
  assert.equal(actionPattern(text), pattern);
});

Deno.test.each<{ text: string; error: RegExp }>([
  { text: "get pods", error: /Cannot read action/ },
  { text: "get pods web", error: /Cannot read action/ },
  { text: "get pods web/a/b", error: /Cannot read action/ },
  { text: "allow get pods web/a", error: /Cannot read action/ },
  { text: "watch pods web/a", error: /Cannot grant "watch"/ },
  { text: "get widgets web/a", error: /Cannot grant "widgets"/ },
])("actionPattern() rejects $text", ({ text, error }) => {
  assert.throws(() => actionPattern(text), { message: error });
});

function answering(outcome: ApiOutcome): Reviews & { readonly asked: ApiRequest[] } {
  const asked: ApiRequest[] = [];
  const reviews = new Reviews({
    request: (request) => {
      asked.push(request);
      return Promise.resolve(outcome);
    },
  });
  return Object.assign(reviews, { asked });
}

function answer(status: number, body: unknown): ApiOutcome {
  return {
    kind: "answered",
    status,
    headers: {},
    text: typeof body === "string" ? body : JSON.stringify(body),
  };
}

const NO_API = /did not respond like an API server/;
const ended = (kind: "untrusted" | "unreachable", cause: string) => ({ kind, cause: new Error(cause) });

Deno.test.each<[string, ApiOutcome, RegExp]>([
  ["silence", { kind: "timed_out" }, /^no response within 10 s$/],
  ["a flood", { kind: "too_large" }, /larger than 4194304 bytes/],
  ["a foreign certificate", ended("untrusted", "UnknownIssuer"), /ca_cert.*UnknownIssuer/],
  ["nobody", ended("unreachable", "refused"), /it is unreachable \(refused\)/],
  ["a rejected token", answer(401, { message: "Unauthorized" }), /it rejected the token/],
  ["a denied right", answer(403, { message: "secrets is forbidden" }), /HTTP 403: secrets is forbidden/],
  ["a redirect", answer(302, "<html>"), /redirect \(HTTP 302\), which is not followed/],
  ["an error without words", answer(500, "<html>"), /^it responded with HTTP 500$/],
  ["a page", answer(200, "<html>ok</html>"), NO_API],
  ["another object", answer(200, { status: { allowed: "yes" } }), NO_API],
  ["an empty token", answer(201, { status: { token: "" } }), NO_API],
])("Reviews reports %s", async (_name, outcome, problem) => {
  const reviews = answering(outcome);
  const account = { namespace: "gateway", name: "agent" };
  await assert.rejects(reviews.mint("t", account), { message: problem });
  assert.equal(reviews.asked.length, 1);
});

Deno.test("Reviews.mayI() sends the subresource and treats only true as allowed", async () => {
  const reviews = answering(answer(201, { status: { allowed: false, reason: "no" } }));
  const question = { namespace: "web", group: "", resource: "pods/log", verb: "get", name: "web-1" };
  assert.deepEqual(await reviews.mayI("t", question), { allowed: false, reason: "no" });
  const body = JSON.parse(new TextDecoder().decode(reviews.asked[0]?.body?.bytes));
  assert.deepEqual(body.spec.resourceAttributes, {
    namespace: "web",
    group: "",
    verb: "get",
    name: "web-1",
    resource: "pods",
    subresource: "log",
  });
});

const jwt = (payload: unknown) =>
  `e30.${
    new TextEncoder().encode(JSON.stringify(payload)).toBase64({ alphabet: "base64url", omitPadding: true })
  }.x`;

Deno.test.each<{ name: string; token: string; claims: ReturnType<typeof readClaims> }>([
  {
    name: "ID and expiry",
    token: jwt({ jti: "4e72", exp: 1_795_351_331 }),
    claims: { jti: "4e72", exp: 1_795_351_331 },
  },
  { name: "a token without ID and expiry", token: jwt({ sub: "ä?>" }), claims: { jti: "" } },
  { name: "no claims from another kind of token", token: "opaque", claims: undefined },
  { name: "no claims from text that is not base64url", token: "a.!!.c", claims: undefined },
  { name: "no claims from text that is not JSON", token: "a.YWJj.c", claims: undefined },
  { name: "no ID unless it is a string", token: jwt({ jti: 7 }), claims: undefined },
])("readClaims() reads $name", ({ token, claims }) => {
  assert.deepEqual(readClaims(token), claims);
});
