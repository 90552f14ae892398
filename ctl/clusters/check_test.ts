import assert from "node:assert/strict";
import { sampleCluster } from "@gateway/shared/testing";
import { checkCluster, type Finding } from "./check.ts";
import { formatRbacRule, neededRights, type Right, toRbacRules } from "./rights.ts";
import type { Reviews } from "./reviews.ts";

const CLUSTER = sampleCluster();
const OPEN = [{
  verbs: ["get"],
  nonResourceURLs: ["/healthz", "/version/", "/api", "/apis/*", "/openid/v1/jwks"],
}];
const NOW = Date.UTC(2026, 0, 2);
const MINTER = "system:serviceaccount:gateway:minter";

/** An API server of which everything is as it should be, but for what is given. */
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

Deno.test("checkCluster() finds nothing amiss where rights and rules are the same", async () => {
  const findings = await checkCluster({
    name: "prod",
    cluster: CLUSTER,
    token: "minter",
    reviews: healthy(),
    now: NOW,
  });
  assert.deepEqual(findings.map(({ level, text }) => `${level}: ${text}`), [
    `ok: https://10.0.0.5:6443 answers; the token of token_file is ${MINTER}'s`,
    `ok: ${MINTER} may make the tokens, and nothing else`,
    "ok: gateway/agent: a token was made for this check, id 4e72",
    "ok: gateway/agent may do what the rules allow, and nothing else",
  ]);
  assert.deepEqual(findings.flatMap(({ details }) => details), [
    "broker-ctl audit show --join takes it for explained with --checked 4e72",
    "its rights are looked at in default, gateway, kube-system, web; in others it may have more",
  ]);
});

Deno.test.each<{ name: string; username: string; groups: readonly string[]; text: RegExp }>([
  {
    name: "an administrator",
    username: "admin",
    groups: ["system:masters"],
    text: /admin may do everything/,
  },
  { name: "a person", username: "ann", groups: [], text: /ann is no ServiceAccount/ },
  {
    name: "the account that actions are done as",
    username: "system:serviceaccount:gateway:agent",
    groups: [],
    text: /is one of those that they are made for/,
  },
])("checkCluster() warns where the tokens are made by $name", async ({ username, groups, text }) => {
  const found = await problems(healthy({ whoAmI: () => Promise.resolve({ username, groups }) }));
  assert.deepEqual(found.map(({ level }) => level), ["warning"]);
  assert.match(found[0]?.text ?? "", text);
});

Deno.test("checkCluster() warns of a credential that ends within a week", async () => {
  const token = (exp: number) => `e30.${btoa(JSON.stringify({ exp })).replace(/=+$/, "")}.x`;
  const day = 86_400;
  const rulesIn: Reviews["rulesIn"] = (token, namespace) =>
    healthy().rulesIn(token === "agent" ? token : "minter", namespace);
  const found = await problems(healthy({ rulesIn }), token(NOW / 1000 + 6 * day));
  assert.deepEqual(found.map(({ text }) => text), [
    "the token of token_file ends 2026-01-08T00:00:00Z: renew it before",
  ]);
  assert.deepEqual(await problems(healthy({ rulesIn }), token(NOW / 1000 + 8 * day)), []);
});

Deno.test("checkCluster() asks one by one where the API server can't list all rights", async () => {
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
    { level: "warning", text: "gateway/agent may do more than the API server can list", details: [] },
    {
      level: "warning",
      text: "gateway/agent may list secrets in all namespaces: no rule calls for it",
      details: ["a webhook says so"],
    },
  ]);
  assert.ok(asked.some(({ resource, verb }) => resource === "users" && verb === "impersonate"));
});

Deno.test("checkCluster() tells of everything at once, and makes no token where the minter may not", async () => {
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
    `warning: ${MINTER} may * *.* in gateway, default, kube-system: making tokens does not call for it`,
  ]);
  const everything = formatRbacRule({ apiGroups: ["*"], resources: ["*"], verbs: ["*"] });
  assert.deepEqual(found[1]?.details, [`take away ${everything}`]);
  assert.equal(minted, 0);
});

Deno.test("checkCluster() warns of paths that are no objects", async () => {
  const rulesIn: Reviews["rulesIn"] = async (token, namespace) => ({
    ...await healthy().rulesIn(token, namespace),
    paths: token === "agent"
      ? [...OPEN, { verbs: ["get", "*"], nonResourceURLs: ["/metrics", "/livez"] }]
      : OPEN,
  });
  assert.deepEqual((await problems(healthy({ rulesIn }))).map(({ text }) => text), [
    "gateway/agent may get /metrics, * /metrics, * /livez, which are no objects: no rule calls for it",
  ]);
});
