import assert from "node:assert/strict";
import { hostsResponse } from "@gateway/shared/wire";
import { CONFIG, get, HOST_KEY, startSigner } from "../testing/memory_signer.ts";
import { FakeClock } from "@gateway/shared/testing";
import type { PolicyVersions } from "../live/state/postgres.ts";
import { prepareOtherInstances } from "./policy.ts";

const BEHALF = { "x-on-behalf-of": "broker-1" };

Deno.test("GET /v1/hosts returns the hosts that the caller may use, without their policy", async () => {
  const { status, body } = await (await startSigner()).send(get("/v1/hosts"));
  assert.equal(status, 200);
  assert.deepEqual(body, {
    web01: { addr: "10.0.0.1:22", user: "deploy", host_key: HOST_KEY, allow_sudo: true, groups: ["web"] },
    open01: { addr: "10.0.0.2:22", user: "deploy", host_key: HOST_KEY, groups: ["web"] },
  });
});

Deno.test("GET /v1/hosts omits hosts whose allowed_callers lack the caller (I4)", async () => {
  const { body } = await (await startSigner()).send(get("/v1/hosts"), "approver-broker");
  assert.deepEqual(Object.keys(body), ["web01"]);
});

Deno.test("GET /v1/hosts accepts X-On-Behalf-Of only from a trusted forwarder", async () => {
  const signer = await startSigner();
  const request = () => get("/v1/hosts", BEHALF);
  const { body } = await signer.send(request(), "control-plane");
  assert.deepEqual(Object.keys(body), ["open01", "web01"]);
  assert.equal((await signer.send(request(), "approver-broker")).status, 403);
  assert.deepEqual((await signer.send(get("/v1/hosts"), "control-plane")).body, {}, "a forwarder's own");
});

Deno.test.each([
  { name: "a space", value: "broker 1" },
  { name: "two names", value: "broker-1, broker-2" },
  { name: "a control character", value: "broker-1\x85" },
  { name: "an invisible character", value: "broker\xad-1" },
])("GET /v1/hosts rejects an X-On-Behalf-Of with $name", async ({ value }) => {
  const signer = await startSigner();
  const { status, body } = await signer.send(get("/v1/hosts", { "x-on-behalf-of": value }), "control-plane");
  assert.equal(status, 400);
  assert.match(String(body["detail"]), /^X-On-Behalf-Of ".*" contains disallowed characters$/);
});

Deno.test("a caller with only_via gets hosts and certificates only through its forwarder", async () => {
  const broker = { allowed_groups: ["web"], only_via: ["control-plane"], self_approve: true };
  const trusted_forwarders = ["control-plane", "other"];
  const signer = await startSigner({ callers: { "broker-1": broker }, trusted_forwarders });
  const via = { on_behalf_of: "broker-1" };
  for (const dry_run of [false, true]) {
    assert.equal((await signer.sign({ dry_run, approved: true })).status, 403);
    assert.equal((await signer.sign({ ...via, dry_run }, "other")).status, 403, "another forwarder");
    assert.equal((await signer.sign({ ...via, dry_run }, "control-plane")).status, 200);
  }
  const { detail } = (await signer.send(get("/v1/hosts"))).body;
  assert.equal(detail, "direct requests not allowed for this caller");
  assert.equal((await signer.send(get("/v1/hosts", BEHALF), "other")).status, 403);
  assert.equal((await signer.send(get("/v1/hosts", BEHALF), "control-plane")).status, 200);
  const denied = signer.log.entries.filter(({ outcome }) => outcome === "denied");
  assert.equal(denied.length, 6, "each is recorded");
});

type Signer = Awaited<ReturnType<typeof startSigner>>;

/** Requests hosts with the entity tag of an earlier response. */
function ask(signer: Signer, tag: string, cn = "broker-1", headers: Record<string, string> = {}) {
  return signer.send(get("/v1/hosts", { ...headers, "if-none-match": tag }), cn);
}

async function tagFor(signer: Signer, cn = "broker-1", headers: Record<string, string> = {}) {
  const tag = (await signer.send(get("/v1/hosts", headers), cn)).headers.get("etag");
  assert.ok(tag);
  return tag;
}

Deno.test("GET /v1/hosts returns 304 without a body for the tag of the caller's current list", async () => {
  const signer = await startSigner();
  const tag = await tagFor(signer);
  for (const has of [tag, `"x", W/${tag}`]) {
    const { status, headers, body } = await ask(signer, has);
    assert.deepEqual([status, headers.get("etag"), headers.get("content-type"), body], [304, tag, null, {}]);
    assert.equal(headers.get("cache-control"), "private, no-cache");
  }
  const { status, body } = await ask(signer, '"x"');
  assert.deepEqual([status, Object.keys(body)], [200, ["open01", "web01"]]);
});

Deno.test("GET /v1/hosts returns 304 on the first request with a tag of another process", async () => {
  const tag = await tagFor(await startSigner());
  assert.equal((await ask(await startSigner(), tag)).status, 304);
});

Deno.test("GET /v1/hosts returns a tag per caller's list, which is invalid for other callers", async () => {
  const signer = await startSigner();
  const [one, other] = [await tagFor(signer), await tagFor(signer, "approver-broker")];
  assert.notEqual(one, other);
  assert.equal(await tagFor(signer, "control-plane", BEHALF), one);
  assert.equal((await ask(signer, one, "approver-broker")).status, 200);
  assert.equal((await ask(signer, one, "control-plane", BEHALF)).status, 304);
  assert.equal((await ask(signer, one, "control-plane")).status, 200, "a forwarder as itself sees its own");
});

Deno.test("GET /v1/hosts returns 304 after a reload only if the list is unchanged", async () => {
  const signer = await startSigner();
  const tag = await tagFor(signer);
  const [web01, open01] = [CONFIG.hosts.web01, CONFIG.hosts.open01];
  await signer.reload({ hosts: { web01, open01: { ...open01, max_ttl_seconds: 60 } } });
  assert.equal((await ask(signer, tag)).status, 304);
  await signer.reload({ hosts: { web01, open01: { ...open01, addr: "10.0.0.9:22" } } });
  const { status, headers, body } = await ask(signer, tag);
  assert.equal(status, 200);
  assert.deepEqual((body as unknown as Record<string, { addr: string }>)["open01"]?.addr, "10.0.0.9:22");
  assert.notEqual(headers.get("etag"), tag);
});

Deno.test("GET /v1/hosts denies a frozen caller even if it sends a valid tag", async () => {
  const signer = await startSigner();
  const tag = await tagFor(signer);
  const before = signer.log.entries.length;
  await signer.freeze("caller", "broker-1");
  for (const has of [tag, "*"]) assert.equal((await ask(signer, has)).body.code, "frozen");
  const outcomes = signer.log.entries.slice(before).map(({ outcome }) => outcome);
  assert.deepEqual(outcomes.filter((outcome) => outcome === "frozen_denied").length, 2, "each is recorded");
  assert.equal((await ask(signer, tag, "approver-broker", BEHALF)).status, 403);
});

Deno.test("GET /v1/hosts?policy=true returns the rules of the named hosts that the caller may use", async () => {
  const signer = await startSigner();
  const { status, body } = await signer.send(get("/v1/hosts?policy=true&host=web01&host=none&host=open01"));
  assert.equal(status, 200);
  assert.deepEqual(Object.keys(body), ["web01", "open01"]);
  const { web01 } = hostsResponse.parse(body);
  assert.equal(web01?.addr, "10.0.0.1:22");
  assert.equal(web01.policy?.max_ttl_seconds, 120);
  const other = await signer.send(get("/v1/hosts?policy=true&host=open01"), "approver-broker");
  assert.deepEqual(other.body, {}, "not its host");
});

Deno.test.each([
  { name: "no host", query: "policy=true" },
  { name: "too many hosts", query: `policy=true${"&host=web01".repeat(21)}` },
])("GET /v1/hosts?policy=true with $name returns 400", async ({ query }) => {
  assert.equal((await (await startSigner()).send(get(`/v1/hosts?${query}`))).status, 400);
});

function edit(signer: Signer, method: "POST" | "DELETE", pattern: unknown, host = "web01", cn = "operator") {
  const init = { method, body: JSON.stringify({ pattern }), headers: { "content-type": "application/json" } };
  return signer.send(new Request(`https://signer/v1/policy/hosts/${host}/allow`, init), cn);
}

Deno.test("POST and DELETE …/allow change policy and file together", async () => {
  const signer = await startSigner();
  signer.file.text = `// by hand\n${signer.file.text}`;
  assert.deepEqual((await edit(signer, "POST", "^id$")).body, { status: "ok", host: "web01", hosts: 3 });
  assert.equal((await signer.sign({ command: "id" })).status, 200);
  assert.match(signer.file.text, /^\/\/ by hand\n/);
  assert.ok(signer.file.text.includes('"^id$"'));
  await edit(signer, "DELETE", "^id$");
  assert.equal((await signer.sign({ command: "id" })).status, 403);
  assert.ok(!signer.file.text.includes('"^id$"'));
  const records = signer.log.entries.filter(({ outcome }) => outcome === "policy-changed");
  assert.deepEqual(
    records.map(({ command, policy_rule, host_name, addr }) =>
      `${command} ${policy_rule} ${host_name} ${addr}`
    ),
    ["add", "remove"].map((edit) => `policy-allow-${edit} allow:^id$ web01 10.0.0.1:22`),
  );
});

Deno.test("…/allow keeps comments inside the list if a pattern is added or removed", async () => {
  const signer = await startSigner();
  const commented = '"^uptime$", // INC-1: ann\n          // "^reboot$"\n          /* INC-2 */';
  signer.file.text = signer.file.text.replace('"^uptime$",', commented);
  const before = signer.file.text;
  assert.equal((await edit(signer, "POST", "^id$")).status, 200);
  assert.ok(signer.file.text.includes(commented));
  assert.equal((await edit(signer, "DELETE", "^id$")).status, 200);
  assert.equal(signer.file.text, before, "as it was, to the letter");
});

Deno.test("the first allow rule makes a host an allowlist, and without its last rule everything is denied", async () => {
  const signer = await startSigner();
  assert.equal((await signer.sign({ host: "open01", command: "id" })).status, 200);
  await edit(signer, "POST", "^uptime$", "open01");
  assert.equal((await signer.sign({ host: "open01", command: "id" })).status, 403);
  assert.equal((await signer.sign({ host: "open01", command: "uptime" })).status, 200);
  await edit(signer, "DELETE", "^uptime$", "open01");
  assert.equal((await signer.sign({ host: "open01", command: "uptime" })).status, 403);
});

Deno.test("POST and DELETE of …/deny and …/require_approval change what the signer decides", async () => {
  const signer = await startSigner();
  const change = async (method: "POST" | "DELETE", list: string, host: string, pattern: string) => {
    const init = {
      method,
      body: JSON.stringify({ pattern }),
      headers: { "content-type": "application/json" },
    };
    const request = new Request(`https://signer/v1/policy/hosts/${host}/${list}`, init);
    return (await signer.send(request, "operator")).status;
  };
  const decide = async (command: string) => (await signer.sign({ host: "open01", command })).status;
  assert.equal(await decide("id"), 200);
  assert.equal(await change("POST", "deny", "open01", "^id$"), 200);
  assert.deepEqual(
    [await decide("id"), await decide("uptime")],
    [403, 200],
    "the first one makes a denylist",
  );
  assert.equal(await change("POST", "require_approval", "open01", "^uptime$"), 200);
  const { body } = await signer.sign({ host: "open01", command: "uptime" });
  assert.equal(
    (body.decision as { require_approval?: boolean }).require_approval,
    true,
    JSON.stringify(body),
  );
  assert.equal(await change("POST", "deny", "open01", "^id$"), 409);
  assert.equal(await change("DELETE", "deny", "open01", "^id$"), 200);
  assert.equal(await change("DELETE", "require_approval", "open01", "^uptime$"), 200);
  assert.deepEqual([await decide("id"), await decide("uptime")], [200, 200]);
  assert.deepEqual(
    signer.log.entries.filter(({ outcome }) => outcome === "policy-changed").map(({ command, policy_rule }) =>
      `${command} ${policy_rule}`
    ),
    [
      "policy-deny-add deny:^id$",
      "policy-require_approval-add require_approval:^uptime$",
      "policy-deny-remove deny:^id$",
      "policy-require_approval-remove require_approval:^uptime$",
    ],
  );
});

Deno.test.each<[name: string, method: "POST" | "DELETE", host: string, pattern: unknown, status: number]>([
  ["a missing pattern", "POST", "web01", undefined, 400],
  ["an empty pattern", "POST", "web01", "", 400],
  ["a bad pattern, also on an unknown host", "POST", "web02", "(", 400],
  ["an unknown host", "POST", "web02", "^id$", 404],
  ["a host by the name of an object's member", "POST", "constructor", "^id$", 404],
  ["a pattern that is there", "POST", "web01", "^uptime$", 409],
  ["the removal of a missing pattern", "DELETE", "web01", "^id$", 409],
])("…/allow rejects %s", async (_name, method, host, pattern, status) => {
  const signer = await startSigner();
  const before = signer.file.text;
  const answer = await edit(signer, method, pattern, host);
  assert.equal(answer.status, status, String(answer.body.detail));
  assert.equal(signer.file.text, before);
});

Deno.test("…/allow without a body and a content type returns 400", async () => {
  const signer = await startSigner();
  const request = new Request("https://signer/v1/policy/hosts/web01/allow", { method: "POST" });
  assert.equal((await signer.send(request, "operator")).status, 400);
});

Deno.test("…/allow is restricted to admins, and a denial is recorded", async () => {
  const signer = await startSigner();
  assert.equal((await edit(signer, "POST", "^id$", "web01", "broker-1")).status, 403);
  assert.equal(signer.log.entries[0]?.outcome, "policy-denied");
});

Deno.test("…/allow changes nothing on a denylist host, whose new config would be invalid", async () => {
  const command_policy = { mode: "denylist", deny: ["rm"] };
  const deny01 = { ...CONFIG.hosts.open01, principal: "host:deny01", command_policy };
  const signer = await startSigner({ hosts: { ...CONFIG.hosts, deny01 } });
  const before = signer.file.text;
  assert.equal((await edit(signer, "POST", "^id$", "deny01")).status, 500);
  assert.equal(signer.file.text, before);
  assert.equal(signer.log.entries.at(-1)?.outcome, "policy-failed");
});

Deno.test("…/allow changes neither policy nor file if the edit cannot be recorded", async () => {
  const signer = await startSigner();
  const before = signer.file.text;
  signer.log.failing = true;
  assert.equal((await edit(signer, "POST", "^id$")).body.detail, "audit unavailable");
  signer.log.failing = false;
  assert.equal(signer.file.text, before);
  assert.equal((await signer.sign({ command: "id" })).status, 403);
});

Deno.test("…/allow edits the current file and not the loaded config", async () => {
  const signer = await startSigner();
  signer.file.text = signer.file.text.replace('"^uptime$"', '"^uptime$",\n"^whoami$"');
  await edit(signer, "POST", "^id$");
  assert.ok(signer.file.text.includes('"^whoami$"'));
  assert.equal((await signer.sign({ command: "whoami" })).status, 200);
});

Deno.test("…/allow records a failure and edits the new text if the file changes during the record", async () => {
  const signer = await startSigner();
  const append = signer.log.append.bind(signer.log);
  let edits = 0;
  signer.log.append = async (entry) => {
    await append(entry);
    if (edits++ === 0) signer.file.text = signer.file.text.replace('"^uptime$"', '"^whoami$"');
  };
  assert.equal((await edit(signer, "POST", "^id$")).status, 200);
  assert.ok(signer.file.text.includes('"^whoami$"') && signer.file.text.includes('"^id$"'));
  const outcomes = signer.log.entries.map(({ outcome }) => outcome);
  assert.deepEqual(outcomes, ["policy-changed", "policy-failed", "policy-changed"]);
});

Deno.test("concurrent edits are all written to the policy and to the file (K23)", async () => {
  const signer = await startSigner();
  const patterns = Array.from({ length: 8 }, (_, i) => `^echo ${i}$`);
  const answers = await Promise.all(patterns.map((pattern) => edit(signer, "POST", pattern)));
  assert.deepEqual(answers.map(({ status }) => status), patterns.map(() => 200));
  for (const [i, pattern] of patterns.entries()) {
    assert.ok(signer.file.text.includes(JSON.stringify(pattern)), pattern);
    assert.equal((await signer.sign({ command: `echo ${i}` })).status, 200, pattern);
  }
});

Deno.test("GET /v1/policy/hosts returns the whole host policy only to admins", async () => {
  const signer = await startSigner();
  const { body } = await signer.send(get("/v1/policy/hosts"), "operator");
  assert.deepEqual(body["web01"], CONFIG.hosts.web01);
  assert.deepEqual(body["db01"], { ...CONFIG.hosts.db01, command_policy: {} });
  assert.equal((await signer.send(get("/v1/policy/hosts"))).status, 403);
  assert.equal((await signer.send(get("/v1/policy/hosts"), "control-plane")).status, 403);
  assert.deepEqual(signer.log.entries.map(({ outcome, command }) => `${outcome} ${command}`), [
    "policy-read policy-hosts-read hosts=3",
    "policy-read-denied policy-hosts-read",
    "policy-read-denied policy-hosts-read",
  ]);
});

Deno.test("prepareOtherInstances() waits for all, for 5 s at most, and not behind another proposal", async () => {
  const clock = new FakeClock();
  const proposed: string[] = [];
  let answer: Awaited<ReturnType<PolicyVersions["findPrepared"]>> = "some";
  const versions = {
    propose: (document: string) => Promise.resolve(void proposed.push(document)),
    findPrepared: () => Promise.resolve(answer),
  } as Partial<PolicyVersions> as PolicyVersions;
  const start = () => {
    const waiting = { done: false, promise: Promise.resolve() };
    waiting.promise = prepareOtherInstances(versions, { document: "{}", sha256: "00", clock }).finally(() =>
      waiting.done = true
    );
    waiting.promise.catch(() => {});
    return waiting;
  };
  const late = start();
  await clock.advance(4_900);
  assert.equal(late.done, false);
  await clock.advance(200);
  assert.equal(late.done, true);
  const quick = start();
  await clock.advance(100);
  answer = "all";
  await clock.advance(100);
  assert.equal(quick.done, true);
  answer = "replaced";
  await assert.rejects(start().promise, { code: "conflict", message: /changed by another request/ });
  assert.deepEqual(proposed, ["{}", "{}", "{}"]);
});
