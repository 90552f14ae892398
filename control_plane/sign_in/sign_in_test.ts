import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import {
  ANN,
  type Browser,
  ISSUER,
  KEY,
  OTHER_KEY,
  OUR_FORM,
  OUR_URL,
  SECRETS,
  startSignedIn,
  startSignIn,
} from "../testing/sign_in_scene.ts";

type Scene = Awaited<ReturnType<typeof startSignIn>>;
type SignedIn = Awaited<ReturnType<typeof startSignedIn>>;

Deno.test("a sign-in opens a session whose name decides requests and is in the records", async () => {
  const { plane, trusted, browser } = await startSignIn();
  const ann = browser();
  const started = await ann.open("/ui/login");
  const { searchParams: asked, origin, pathname } = new URL(started.headers.get("location") ?? "");
  assert.deepEqual([started.status, origin + pathname], [303, `${ISSUER}/auth`]);
  const { state, nonce, code_challenge, ...rest } = Object.fromEntries(asked);
  assert.deepEqual(rest, {
    ...{ response_type: "code", client_id: "gateway", scope: "openid email", code_challenge_method: "S256" },
    redirect_uri: `${OUR_URL}/ui/callback`,
  });
  assert.deepEqual([state, nonce, code_challenge].map((secret) => secret?.length), [43, 43, 43]);
  assert.match(
    started.headers.getSetCookie().join(),
    /^__Host-gateway-login=[\w-]{43}; Path=\/; Secure; HttpOnly; SameSite=Lax; Max-Age=600$/,
  );
  const id = await plane.park();
  const finished = await ann.signIn(`/ui/approvals/${id}`);
  // The strict cookie is missing in a redirect from the provider's site, so our own page opens the next page.
  assert.ok(finished.text.includes(`http-equiv="refresh" content="0;url=/ui/approvals/${id}"`));
  assert.match(
    finished.headers.getSetCookie().join(),
    /^__Host-gateway-session=[\w-]{43}; Path=\/; Secure; HttpOnly; SameSite=Strict,__Host-gateway-login=; .*Max-Age=0$/,
  );
  const { text } = await ann.open(`/ui/approvals/${id}`);
  assert.match(text, /Signed in as <b>.*ann@example\.com.*action="\/ui\/logout"/);
  assert.ok(text.includes(`data-api="/ui/approvals/${id}"`));
  assert.equal((await ann.post(`/ui/approvals/${id}`)).status, 303);
  const json = { "content-type": "application/json", accept: "*/*", origin: OUR_URL };
  const other = `/ui/approvals/${await plane.park({ command: "rm y" })}`;
  assert.equal((await ann.post(other, '{"approve":false}', json)).status, 200);
  assert.deepEqual(trusted, Array(3).fill(ANN));
  const { entries } = plane.log;
  const own = entries.filter(({ caller, approved_by }) => caller === ANN || approved_by === ANN);
  const expected = ["signed-in", "approval-decision-allow", "approval-denied"];
  assert.deepEqual(own.map(({ outcome }) => outcome), expected);
});

/** Asserts that an attack opens no session, is recorded once, and reveals no secret. */
async function assertRejected(
  reason: RegExp,
  attack: (query: URLSearchParams, scene: Scene, ann: Browser) => unknown,
) {
  const scene = await startSignIn();
  const ann = scene.browser();
  const query = await ann.start();
  const original = new URLSearchParams(query);
  await attack(query, scene, ann);
  const before = scene.plane.log.entries.length;
  const { status, text } = await ann.finish(query);
  assert.ok(status === 401 || status === 403, String(status));
  assert.equal(ann.session, undefined);
  const [entry, ...more] = scene.plane.log.entries.slice(before);
  assert.deepEqual([entry?.outcome, more], ["denied", []]);
  assert.match(entry?.err ?? "", reason);
  assert.match(text, /id="sign-in"/);
  const shown = text + JSON.stringify(entry);
  const secrets = [...SECRETS, original.get("state") ?? ""];
  assert.deepEqual(secrets.filter((secret) => shown.includes(secret)), []);
  // A sign-in is used once, so the right response fails now, too.
  Object.assign(scene.provider, { claims: {}, key: KEY, frozen: [] });
  assert.equal((await ann.finish(original)).status, 401);
}

const STATE = /"state" response parameter value|"state" missing/;

Deno.test.each<{ name: string; attack: Parameters<typeof assertRejected>[1]; reason: RegExp }>([
  {
    name: "another issuer (mix-up)",
    attack: (query) => query.set("iss", "https://x.example"),
    reason: /"iss"/,
  },
  { name: "no issuer (mix-up)", attack: (query) => query.delete("iss"), reason: /"iss" \(issuer\) missing/ },
  { name: "another state", attack: (query) => query.set("state", "x".repeat(43)), reason: STATE },
  { name: "no state", attack: (query) => query.delete("state"), reason: STATE },
  { name: "the response to another browser", attack: swapState, reason: STATE },
  { name: "no cookie", attack: (_, __, { cookies }) => cookies.clear(), reason: /no open sign-in/ },
  { name: "a late response", attack: (_, { plane }) => plane.clock.advance(600_000), reason: /too long/ },
  { name: "two codes", attack: (query) => query.append("code", "y"), reason: /provided only once/ },
  { name: "a used code (replay)", attack: useCode, reason: /answered invalid_grant$/ },
  { name: "an error", attack: (query) => query.set("error", "<b>the-code"), reason: /with an unknown error/ },
  { name: "another key", attack: (_, { provider }) => provider.key = OTHER_KEY, reason: /signature verif/ },
  {
    name: "a frozen person",
    attack: (_, { provider }) => provider.frozen = ["ANN@example.com"],
    reason: /frozen/,
  },
])("GET /ui/callback rejects $name", ({ attack, reason }) => assertRejected(reason, attack));

async function swapState(query: URLSearchParams, { browser }: Scene): Promise<void> {
  query.set("state", (await browser().start()).get("state") ?? "");
}

async function useCode(query: URLSearchParams, { browser }: Scene): Promise<void> {
  const thief = browser();
  const own = await thief.start();
  own.set("code", query.get("code") ?? "");
  assert.equal((await thief.finish(own)).status, 200);
}

Deno.test.each([
  { name: "another nonce", claims: { nonce: "x" }, reason: /"nonce"/ },
  { name: "no nonce", claims: { nonce: undefined }, reason: /"nonce" \(nonce\) claim missing/ },
  { name: "another audience", claims: { aud: "other" }, reason: /unexpected JWT "aud"/ },
  {
    name: "several audiences",
    claims: { aud: ["gateway", "other"] },
    reason: /additional untrusted audiences/,
  },
  { name: "another issuer", claims: { iss: "https://evil.example" }, reason: /unexpected JWT "iss"/ },
  { name: "a past expiry", claims: { exp: 1_600_000_000 }, reason: /"exp" \(expiration time\)/ },
  { name: "an unverified address", claims: { email_verified: false }, reason: /address not verified/ },
  { name: "no verification", claims: { email_verified: undefined }, reason: /address not verified/ },
  { name: "a verification as text", claims: { email_verified: "true" }, reason: /address not verified/ },
  { name: "no name", claims: { email: undefined }, reason: /user claim absent/ },
  { name: "the name of a host", claims: { email: "web01.krl" }, reason: /not the name of a person/ },
  {
    name: "an invisible character",
    claims: { email: "ann\u200b@example.com" },
    reason: /control characters/,
  },
  { name: "no groups", claims: { groups: undefined }, reason: /in none of the groups/ },
  { name: "another group", claims: { groups: ["approvers eu"] }, reason: /in none of the groups/ },
  { name: "nested groups", claims: { groups: [["Approvers EU"]] }, reason: /in none of the groups/ },
])(
  "GET /ui/callback rejects an ID token with $name",
  ({ claims, reason }) => assertRejected(reason, (_, { provider }) => provider.claims = claims),
);

Deno.test("GET /ui/callback opens no session without its audit record", async () => {
  const { plane, browser } = await startSignIn();
  plane.log.failing = true;
  const ann = browser();
  assert.equal((await ann.signIn()).status, 500);
  assert.equal(ann.session, undefined);
});

Deno.test("a sign-in replaces the session ID that the browser had (fixation)", async () => {
  const { ann, browser } = await startSignedIn();
  const old = ann.session ?? "";
  const victim = browser();
  victim.cookies.set("__Host-gateway-session", old);
  await victim.signIn();
  assert.notEqual(victim.session, old);
  assert.equal((await ann.open("/ui/approvals")).status, 401);
});

Deno.test.each([
  ..."https://evil.example //evil.example /\\evil.example /ui/approvals//evil.example /ui/../x javascript:x"
    .split(" "),
  ..."/ui/approvals/%2e%2e /ui/approvals/A?x=1 /ui/approvalsabc /v1/approvals/ab /ui/logout".split(" "),
  `/ui/approvals/${"a".repeat(65)}`,
])("GET /ui/login?next=%s leads to the list (open redirect)", async (next) => {
  const { text } = await (await startSignIn()).browser().signIn(next);
  assert.match(text, /content="0;url=\/ui\/approvals"/);
});

const POLL = { accept: "text/html", "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors" };

Deno.test.each<{ name: string; end: (scene: SignedIn) => unknown; outcome?: string }>([
  { name: "half an hour without activity", end: ({ plane }) => plane.clock.advance(1_800_000) },
  { name: "half an hour in which only the page polled", end: pollOnly },
  { name: "8 hours of activity", end: stayActive },
  { name: "a sign-out", end: ({ ann }) => ann.post("/ui/logout", ""), outcome: "signed-out" },
  { name: "a freeze", end: ({ provider }) => provider.frozen = ["ANN@EXAMPLE.COM"], outcome: "signed-out" },
  { name: "a freeze that another browser noticed", end: freezeForAMoment, outcome: "signed-out" },
  { name: "a move to another instance", end: startSignIn },
])("a session ends after $name", async ({ end, outcome }) => {
  const scene = await startSignedIn();
  const cookie = scene.ann.session ?? "";
  await end(scene);
  const reader = end === startSignIn ? (await startSignIn()).browser() : scene.ann;
  reader.cookies.set("__Host-gateway-session", cookie);
  const { status, text } = await reader.open("/ui/approvals/ab");
  assert.deepEqual([status, text.includes('href="/ui/login?next=%2Fui%2Fapprovals%2Fab"')], [401, true]);
  if (outcome !== undefined) assert.equal(scene.plane.log.entries.at(-1)?.outcome, outcome);
});

async function pollOnly({ plane, ann }: SignedIn): Promise<void> {
  await plane.clock.advance(1_000_000);
  assert.equal((await ann.open("/ui/approvals", { headers: POLL })).status, 200);
  await plane.clock.advance(1_000_000);
}

async function stayActive({ plane, ann }: SignedIn): Promise<void> {
  for (let minutes = 0; minutes < 480; minutes += 20) {
    assert.equal((await ann.open("/ui/approvals")).status, 200);
    await plane.clock.advance(1_200_000);
  }
}

async function freezeForAMoment({ provider, browser }: SignedIn): Promise<void> {
  const bob = browser();
  provider.claims = { email: "bob@example.com" };
  await bob.signIn();
  provider.frozen = [ANN];
  assert.equal((await bob.open("/ui/approvals")).status, 200);
  provider.frozen = [];
}

Deno.test("a session cannot be used while the signer does not report freezes", async () => {
  const { ann, plane } = await startSignedIn();
  plane.signer.reply = () => {
    throw new AppError("upstream_failure", "no");
  };
  const { status, text } = await ann.open("/ui/approvals");
  assert.equal(status, 502);
  assert.match(text, /Signed in as[^]*the signer could not be reached/);
  assert.equal((await ann.post("/ui/logout", "")).status, 200);
});

Deno.test.each<{ name: string; headers: Record<string, string> }>([
  { name: "another site", headers: { "sec-fetch-site": "cross-site", origin: "https://evil.example" } },
  { name: "another site without an origin", headers: { "sec-fetch-site": "cross-site", origin: "null" } },
  { name: "a sibling of our host", headers: { "sec-fetch-site": "same-site", origin: "https://x.example" } },
  { name: "the mTLS listener", headers: { "sec-fetch-site": "same-site", origin: "https://cp:7443" } },
  { name: "a program", headers: { "sec-fetch-site": "", origin: "" } },
])("a POST of $name with the session cookie returns 403 (CSRF)", async ({ headers }) => {
  const { ann, plane } = await startSignedIn();
  const json = { ...headers, "content-type": "application/json" };
  for (const path of [`/ui/approvals/${await plane.park()}`, "/ui/logout"]) {
    assert.equal((await ann.post(path, undefined, headers)).status, 403, path);
    assert.equal((await ann.post(path, '{"approve":true}', json)).status, 403, path);
  }
  assert.equal(plane.registry.pendingCount(), 1);
  assert.equal((await ann.open("/ui/approvals")).status, 200);
});

Deno.test.each(["ann@example.com", "ANN@Example.COM", "ａｎｎ@example.com", "ann@example.com."])(
  "a person who signed in cannot decide their own request as %s",
  async (end_user) => {
    const { ann, plane } = await startSignedIn();
    const id = await plane.park({ end_user }, "broker-2");
    assert.equal((await ann.post(`/ui/approvals/${id}`)).status, 403);
    assert.equal(plane.log.entries.at(-1)?.outcome, "self-approval-rejected");
  },
);

Deno.test.each([
  { path: "/v1/approvals", method: "GET" },
  { path: "/v1/sign", method: "POST" },
  { path: "/ui/../v1/approvals", method: "GET" },
])("$method $path returns 404 on ui_listen", async ({ path, method }) => {
  const { ann } = await startSignedIn();
  assert.equal((await ann.open(path, { method, headers: OUR_FORM })).status, 404);
});

Deno.test("a link on another site is opened again by our own page, because the cookie is strict", async () => {
  const headers = { "sec-fetch-site": "cross-site" };
  const { status, text } = await (await startSignIn()).browser().open("/ui/approvals/ab12", { headers });
  assert.deepEqual([status, text.includes('content="0;url=/ui/approvals/ab12"')], [200, true]);
});

Deno.test("unauthenticated clients from many addresses cause at most 60 records per minute", async () => {
  const { browser, plane } = await startSignIn();
  for (let sent = 0; sent < 80; sent++) {
    const { status } = await Object.assign(browser(), { address: `192.0.2.${sent}` }).open(
      "/ui/callback?state=x",
    );
    assert.equal(status, 401);
  }
  assert.equal(plane.log.entries.length, 60);
});

Deno.test("GET /ui/login is limited by source, rejects other sites, and forgets only the oldest of 1,000", async () => {
  const { browser } = await startSignIn();
  const [ann, attacker] = [browser(), browser()];
  const oldest = await ann.start();
  const open = (address: string) => Object.assign(attacker, { address }).open("/ui/login");
  for (let sent = 0; sent < 1000; sent++) assert.equal((await open(`198.51.${sent >> 5}.1`)).status, 303);
  assert.equal((await ann.finish(oldest)).status, 401);
  assert.equal((await ann.signIn()).status, 200);
  // One person can have all addresses of a /64 network.
  for (let sent = 0; sent < 60; sent++) await open(`2001:db8::${sent.toString(16)}`);
  assert.equal((await open("2001:db8::ffff")).status, 429);
  const { status } = await ann.open("/ui/login", { headers: { "sec-fetch-site": "cross-site" } });
  assert.equal(status, 403);
});
