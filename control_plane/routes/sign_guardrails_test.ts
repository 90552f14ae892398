import assert from "node:assert/strict";
import { allow, gate, refusal } from "../testing/fake_signer.ts";
import { openMemoryStore } from "../testing/failing_control_store.ts";
import { startControlPlane } from "../testing/memory_control_plane.ts";

const enforce = (rate_limit_per_min = 0) => ({ behavior: { mode: "enforce", rate_limit_per_min } });
const observe = (rate_limit_per_min = 0) => ({ behavior: { mode: "observe", rate_limit_per_min } });

Deno.test("observe: what is unusual is recorded, forwarded, and usual from then on", async () => {
  const plane = await startControlPlane(observe());
  await plane.sign();
  for (let count = 0; count < 2; count++) {
    assert.equal((await plane.sign({ host: "web02", command: "df -h" })).status, 200);
  }
  const anomalies = plane.log.entries.filter(({ outcome }) => outcome === "anomaly");
  assert.deepEqual(anomalies.map(({ anomaly }) => anomaly), ["new-host:web02,new-command:df"]);
  assert.deepEqual(plane.outcomes(), ["forwarded", "anomaly", "forwarded", "forwarded"]);
});

Deno.test("observe: what the signer refuses is not learned", async () => {
  const plane = await startControlPlane(observe());
  await plane.sign();
  plane.signer.reply = () => refusal(403, "denied", "no");
  await plane.sign({ host: "web02" });
  plane.signer.reply = allow;
  await plane.sign({ host: "web02" });
  assert.equal(plane.outcomes().filter((outcome) => outcome === "anomaly").length, 2);
});

Deno.test("observe: too much is recorded and forwarded", async () => {
  const plane = await startControlPlane(observe(1));
  await plane.sign();
  assert.equal((await plane.sign()).status, 200);
  assert.equal(plane.log.entries[1]?.anomaly, "rate-exceeded");
});

Deno.test("observe: an approver sees what was unusual about what the policy wants approved", async () => {
  const plane = await startControlPlane(observe());
  await plane.sign();
  plane.signer.reply = gate;
  await plane.park({ host: "web02" });
  assert.deepEqual(plane.notified[0]?.anomalies, ["new-host:web02", "new-command:rm"]);
  assert.equal(plane.notified[0]?.rule, "require_approval:^rm");
});

Deno.test("enforce: too much is 429 with Retry-After, and the signer is not asked", async () => {
  const plane = await startControlPlane(enforce(2));
  await plane.sign();
  await plane.sign();
  const { status, body, headers } = await plane.sign();
  assert.deepEqual([status, body.detail], [429, "rate limit exceeded"]);
  const retryAfter = Number(headers.get("retry-after"));
  assert.ok(retryAfter >= 1 && retryAfter <= 60);
  assert.equal(plane.signer.signed.length, 2);
  assert.deepEqual(plane.outcomes(), ["forwarded", "forwarded", "rate-limited"]);
  assert.equal(plane.log.entries[2]?.anomaly, "rate-exceeded");
  await plane.clock.advance(60_001);
  assert.equal((await plane.sign()).status, 200);
});

Deno.test("enforce: what is unusual waits for approval, with rule behavior and what was found", async () => {
  const plane = await startControlPlane(enforce());
  await plane.sign();
  const { status } = await plane.sign({ host: "web02", command: "df" });
  assert.equal(status, 202);
  const asked = plane.signer.signed.at(-1);
  assert.deepEqual([asked?.dry_run, asked?.approved, asked?.host], [true, false, "web02"]);
  const [record] = plane.notified;
  assert.deepEqual([record?.rule, record?.anomalies], ["behavior", ["new-host:web02", "new-command:df"]]);
  const entry = plane.log.entries.at(-1);
  assert.deepEqual([entry?.outcome, entry?.policy_rule, entry?.anomaly], [
    "approval-required",
    "behavior",
    "new-host:web02,new-command:df",
  ]);
});

Deno.test("enforce: an approver of what is unusual sees when the policy wants it approved as well", async () => {
  const plane = await startControlPlane(enforce());
  await plane.sign();
  const decision = { allowed: true, require_approval: true, matched_rule: "require_approval:^rm" };
  plane.signer.reply = () => ({ body: { decision } });
  await plane.park({ host: "web02", command: "rm x" });
  const [record] = plane.notified;
  assert.deepEqual([record?.rule, record?.anomalies], [
    "require_approval:^rm",
    ["new-host:web02", "new-command:rm"],
  ]);
});

Deno.test("enforce: what is unusual and would be denied anyway bothers no human: 403", async () => {
  const plane = await startControlPlane(enforce());
  await plane.sign();
  plane.signer.reply = () => ({ body: { decision: { allowed: false, reason: "not in allowlist" } } });
  const { status, body } = await plane.sign({ command: "df" });
  assert.deepEqual([status, body.code, body.detail], [403, "denied", "command not allowed"]);
  const entry = plane.log.entries.at(-1);
  assert.deepEqual([entry?.outcome, entry?.anomaly, entry?.err], [
    "denied",
    "new-command:df",
    "not in allowlist",
  ]);
  assert.deepEqual(plane.notified, []);
});

Deno.test.each([
  { name: "refuses", reply: refusal(403, "frozen", "subject is frozen"), status: 403, outcome: "denied" },
  { name: "finds it malformed", reply: refusal(400, "invalid_request", "x"), status: 400, outcome: "denied" },
  { name: "is too busy", reply: refusal(429, "rate_limited", "x"), status: 429, outcome: "rate-limited" },
  { name: "fails", reply: refusal(500, "internal", "x"), status: 502, outcome: "error" },
  { name: "says nothing", reply: { body: {} }, status: 502, outcome: "error" },
])("enforce: what is unusual while the signer $name is $status", async ({ reply, status, outcome }) => {
  const plane = await startControlPlane(enforce());
  await plane.sign();
  plane.signer.reply = () => reply;
  assert.equal((await plane.sign({ command: "df" })).status, status);
  const entry = plane.log.entries.at(-1);
  assert.deepEqual([entry?.outcome, entry?.anomaly], [outcome, "new-command:df"]);
  assert.deepEqual(plane.notified, []);
});

Deno.test("enforce: what is unusual becomes usual when it was approved and collected, not before (A8)", async () => {
  const plane = await startControlPlane(enforce());
  await plane.sign();
  const id = await plane.park({ command: "df -h" });
  await plane.park({ command: "df -h" });
  await plane.decide(id, { approve: true });
  const third = await plane.park({ command: "df -i" });
  await plane.decide(third, { approve: false });
  assert.equal((await plane.poll(id)).status, 200);
  assert.equal(plane.signer.signed.at(-1)?.approved, true);
  assert.equal((await plane.sign({ command: "df -i" })).status, 200);
});

Deno.test("enforce: what was approved and not issued stays unusual", async () => {
  const plane = await startControlPlane(enforce());
  await plane.sign();
  const id = await plane.park({ command: "df" });
  await plane.decide(id, { approve: true });
  plane.signer.reply = () => refusal(403, "denied", "no");
  assert.equal((await plane.poll(id)).status, 502);
  plane.signer.reply = allow;
  assert.equal((await plane.sign({ command: "df" })).status, 202);
});

Deno.test("a preflight is judged like the command that follows it (A9, I21)", async () => {
  const plane = await startControlPlane(enforce());
  await plane.sign();
  assert.equal((await plane.sign({ command: "df", dry_run: true, preflight: true })).status, 202);
  assert.equal((await plane.sign({ command: "df", dry_run: true })).status, 200, "a mere question is not");
});

Deno.test("a preflight that needs approval teaches nothing: the broker runs nothing after it (A8)", async () => {
  const plane = await startControlPlane(enforce());
  plane.signer.reply = () => ({ body: { decision: { allowed: true, require_approval: true } } });
  await plane.sign({ dry_run: true, preflight: true });
  plane.signer.reply = allow;
  assert.equal((await plane.sign({ command: "df" })).status, 200, "still the first request of its subject");
});

Deno.test("enforce: an unusual preflight that a rule gates gets its decision, and no human is asked in vain", async () => {
  const plane = await startControlPlane(enforce());
  await plane.sign();
  const decision = { allowed: true, require_approval: true, matched_rule: "require_approval:^rm" };
  plane.signer.reply = () => ({ body: { decision } });
  for (let count = 0; count < 2; count++) {
    const { status, body } = await plane.sign({ command: "rm x", dry_run: true, preflight: true });
    assert.deepEqual([status, body.decision], [200, decision]);
  }
  assert.deepEqual(plane.notified, []);
  const entry = plane.log.entries.at(-1);
  assert.deepEqual([entry?.outcome, entry?.dry_run, entry?.policy_rule, entry?.anomaly], [
    "forwarded",
    true,
    "require_approval:^rm",
    "new-command:rm",
  ]);
});

Deno.test("a broker that is not trusted cannot become another subject by its end user (I12)", async () => {
  const plane = await startControlPlane(enforce());
  await plane.sign({ end_user: "alice" });
  assert.equal((await plane.sign({ end_user: "bob", command: "df" })).status, 202);
});

Deno.test("the end users of a trusted broker are subjects of their own", async () => {
  const plane = await startControlPlane(enforce());
  await plane.sign({ end_user: "alice" }, "broker-2");
  assert.equal((await plane.sign({ end_user: "bob", command: "df" }, "broker-2")).status, 200);
  assert.equal((await plane.sign({ end_user: "alice", command: "df" }, "broker-2")).status, 202);
});

Deno.test("enforce: the first request here of a subject that another control plane knows is compared with that", async () => {
  const other = { hosts: ["web09"], commands: ["uptime"], lastSeen: 1_700_000_000_000 };
  const store = Object.assign(openMemoryStore(), {
    findBaseline: (subject: string) => Promise.resolve({ subject, ...other }),
  });
  const plane = await startControlPlane(enforce(), { store });
  assert.equal((await plane.sign({ command: "uptime" })).status, 202);
  assert.deepEqual(plane.notified[0]?.anomalies, ["new-host:web01"]);
});
