import assert from "node:assert/strict";
import { callerFromCertificate } from "@gateway/shared/http";
import { decideEndUser } from "@gateway/shared/oidc";
import { endUserOidcConfig } from "@gateway/shared/oidc/model";
import { compilePolicy, decideSsh } from "@gateway/shared/policy";
import { formatKeyId } from "../shared/ssh/certificate.ts";
import { compileSample, sampleConfig, sampleHost, sampleIntent } from "@gateway/shared/testing";
import { checkCaller, checkSignFields, freezeRequest, grantRequest, signRequest } from "@gateway/shared/wire";
import { checkPath } from "../broker/request/transfer.ts";

const OIDC = endUserOidcConfig.parse({ issuer: "https://idp.example", audience: "broker" });
const REQUEST = { host: "web01", role: "target", purpose: "oneshot", command: "uptime" };

const claimsOf = (claims: object) =>
  decideEndUser({ iss: OIDC.issuer, aud: OIDC.audience, exp: 2, sub: "alice", ...claims }, {
    ...OIDC,
    groups_claim: "groups" in claims ? "groups" : "",
    max_token_age_seconds: 0,
  }, 1000).kind === "verified";
const accepts = (check: () => unknown) => {
  try {
    check();
    return true;
  } catch {
    return false;
  }
};
const signs = (fields: object) =>
  accepts(() => checkSignFields(signRequest.parse({ ...REQUEST, ...fields })));
const keyIdOf = (parts: object) =>
  accepts(() => formatKeyId({ caller: "broker-1", host: "web01", role: "target", issuedAt: 1, ...parts }));
const loads = (name: string, host: object) =>
  compilePolicy({ ...sampleConfig(), hosts: { [name]: sampleHost(host) } }).kind !== "invalid";
const permits = (fields: object) =>
  decideSsh(compileSample(sampleConfig()), sampleIntent(fields)).kind === "allowed";

/** Every place where a name is let in, or becomes a word of a record or a certificate. */
const DOORS: Readonly<Record<string, (name: string) => boolean>> = {
  "a token's user": (sub) => claimsOf({ sub }),
  "a token's group": (group) => claimsOf({ groups: [group] }),
  "a sign request's end user": (end_user) => signs({ end_user }),
  "a sign request's group": (group) => signs({ end_user_groups: [group] }),
  "a sign request's approver": (learn_approver) => signs({ learn_approver }),
  "a forwarded caller": (on_behalf_of) => signs({ on_behalf_of }),
  "a sign request's cluster namespace": (k8s_namespace) => signs({ k8s_namespace }),
  "a sign request's cluster object": (k8s_name) => signs({ k8s_name }),
  "a caller at the control plane": (caller) => accepts(() => checkCaller(caller)),
  "an intent's caller": (caller) => permits({ caller }),
  "an intent's end user": (endUser) => permits({ endUser }),
  "a KeyId's caller": (caller) => keyIdOf({ caller }),
  "a KeyId's end user": (endUser) => keyIdOf({ endUser }),
  "a frozen subject": (value) => freezeRequest.safeParse({ kind: "end_user", value }).success,
  "a host's name": (name) => loads(name, {}),
  "a host's account": (user) => loads("web01", { user }),
  "a host's principal": (principal) => loads("web01", { principal }),
  "a transferred file's path": (path) => accepts(() => checkPath(path)),
};

/** Those that take blanks: who only reads may have one in its CN, and a grant is not refused for its scope. */
const DOORS_FOR_BLANKS: Readonly<Record<string, (name: string) => boolean>> = {
  "a certificate's CN": (cn) => callerFromCertificate(true, cn) !== undefined,
  "a grant's scope": (caller) => grantRequest.safeParse({ allow: ["^id$"], ttl_seconds: 60, caller }).success,
};

const BLANK = ["al ice", "al\u00a0ice", "al\u2003ice", "al\u3000ice"];
const UNSEEN = [
  ...["al\tice", "al\nice", "al\0ice", "al\x1bice", "al\x7fice", "al\x85ice", "al\x9bice"],
  ...["al\u2028ice", "al\u2029ice", "al\u00adice", "al\u200bice", "al\u200dice", "\ufeffalice"],
  ...["\u202eecila", "al\u2066ice", "alice\u{e0041}", "alice\ufe0f", "alice\u3164", "alice\u2800"],
  ...["alice\ue000", "alice\u{10fffd}", "alice\ud800"],
];

Deno.test.each(Object.entries(DOORS).map(([door, lets]) => ({ door, lets })))(
  "$door is let in by the one definition of blanks and unseen characters",
  ({ lets }) => {
    for (const name of ["alice", "brøker-1", "日本", "al-ice@example.com"]) assert.ok(lets(name), name);
    for (const name of [...BLANK, ...UNSEEN]) assert.ok(!lets(name), JSON.stringify(name));
  },
);

Deno.test.each(Object.entries(DOORS_FOR_BLANKS).map(([door, lets]) => ({ door, lets })))(
  "$door may have blanks, and no unseen characters",
  ({ lets }) => {
    for (const name of ["alice", "brøker-1", "日本", ...BLANK]) assert.ok(lets(name), name);
    for (const name of UNSEEN) assert.ok(!lets(name), JSON.stringify(name));
  },
);
