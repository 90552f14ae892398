import assert from "node:assert/strict";
import { refusedMethods } from "@gateway/shared/testing";
import { AppError } from "@gateway/shared/errors";
import { ALONE } from "@gateway/shared/instances";
import { CONTROL_PLANE_ROUTES } from "./app.ts";
import { allow, gate } from "./testing/fake_signer.ts";
import { CONFIG, get, ONE_SHOT, post, startControlPlane } from "./testing/memory_control_plane.ts";

const SIGNING = [
  { name: "POST /v1/sign", request: () => post("/v1/sign", ONE_SHOT) },
  { name: "GET /v1/hosts", request: () => get("/v1/hosts") },
  { name: "GET /v1/clusters", request: () => get("/v1/clusters") },
  { name: "GET /v1/revocations", request: () => get("/v1/revocations") },
  { name: "GET /v1/sign/result/{id}", request: () => get("/v1/sign/result/abc") },
];

const APPROVING = [
  { name: "GET /v1/approvals", request: () => get("/v1/approvals"), detail: "not authorised" },
  {
    name: "POST /v1/approvals/{id}",
    request: () => post("/v1/approvals/abc", { approve: true }),
    detail: "not authorised to approve",
  },
];

Deno.test.each([
  "/v1/approvals",
  "/v1/%61pprovals",
  "/%76%31/approvals",
  "/v1/sign/%72esult/abc",
  "/ui/approval%73",
  "/ui/approvals/abc",
  "POST /v1/%61pprovals/abc",
  "POST /ui/%61pprovals/abc",
])("%s returns 503 if the approvals may be out of date", async (route) => {
  const [path = "", method = "GET"] = route.split(" ").reverse();
  const requireFresh = () => {
    throw new AppError("state_stale", "too old");
  };
  const plane = await startControlPlane({}, { instances: { ...ALONE, isShared: true, requireFresh } });
  const request = method === "GET" ? get(path) : post(path, { approve: true });
  for (const cn of ["approver-1", "broker-1"]) {
    assert.equal((await plane.send(request.clone(), cn)).status, 503);
  }
});

Deno.test.each(SIGNING)("$name rejects a caller that is not in sign_callers", async ({ name, request }) => {
  const plane = await startControlPlane();
  for (const caller of ["approver-1", "broker-3", "Broker-1", "broker-1 "]) {
    const { status, body } = await plane.send(request(), caller);
    const expected = { status: 403, code: "forbidden", detail: "not authorised to request signing" };
    assert.deepEqual({ status, code: body.code, detail: body.detail }, expected, caller);
  }
  assert.deepEqual(plane.signer.requests, [], "the signer is not asked");
  assert.deepEqual(plane.log.entries[0], {
    caller: "approver-1",
    command: name,
    outcome: "denied",
    err: "not authorised to request signing",
  });
});

Deno.test.each(SIGNING)("$name without sign_callers allows all but approvers (I7)", async ({ request }) => {
  const plane = await startControlPlane({ sign_callers: [] });
  assert.equal((await plane.send(request(), "approver-1")).status, 403);
  assert.notEqual((await plane.send(request(), "anyone")).status, 403);
});

Deno.test.each(SIGNING)(
  "$name rejects a host's identity, which can only fetch its revocation list",
  async ({ request }) => {
    for (const sign_callers of [[], ["web01.krl"]]) {
      const plane = await startControlPlane({ sign_callers });
      assert.equal((await plane.send(request(), "web01.krl")).status, 403);
      assert.deepEqual(plane.signer.requests, [], "the signer is not asked");
      assert.deepEqual(plane.outcomes(), ["denied"]);
    }
  },
);

Deno.test.each(SIGNING)(
  "$name rejects a caller name with spaces",
  async ({ request }) => {
    const plane = await startControlPlane({ sign_callers: [] });
    for (const caller of ["broker-1 ", " broker-1", "broker\u00a01"]) {
      assert.equal((await plane.send(request(), caller)).status, 400, caller);
    }
    assert.deepEqual(plane.signer.requests, []);
  },
);

Deno.test.each(APPROVING)(
  "$name rejects a caller that is not in approval.callers",
  async ({ request, detail }) => {
    const plane = await startControlPlane();
    const { status, body } = await plane.send(request(), "broker-1");
    assert.deepEqual([status, body.code, body.detail], [403, "forbidden", detail]);
    assert.deepEqual(plane.outcomes(), ["denied"]);
  },
);

Deno.test.each(APPROVING)("$name rejects a host's identity in any caller list", async ({ request }) => {
  const { approval } = CONFIG;
  const plane = await startControlPlane({ approval: { ...approval, callers: ["web01.krl"] } });
  assert.equal((await plane.send(request(), "web01.krl")).status, 403);
  assert.deepEqual(plane.outcomes(), ["denied"]);
});

Deno.test("a CN in both lists can request and decide", async () => {
  const plane = await startControlPlane();
  assert.equal((await plane.sign({}, "both")).status, 200);
  assert.equal((await plane.get("/v1/approvals", "both")).status, 200);
});

Deno.test.each([
  ...refusedMethods(CONTROL_PLANE_ROUTES),
  { path: "/v1/sign/result/abc", method: "HEAD", allow: "GET" },
  { path: "/ui/approvals/abc", method: "DELETE", allow: "GET, POST" },
])("$method $path returns 405 with Allow: $allow", async ({ path, method, allow }) => {
  const plane = await startControlPlane();
  const { status, headers } = await plane.send(new Request(`https://localhost${path}`, { method }), "both");
  assert.deepEqual([status, headers.get("allow")], [405, allow]);
});

Deno.test.each([
  { path: "/v1/hosts", caller: "broker-1" },
  { path: "/v1/revocations", caller: "broker-1" },
  { path: "/v1/approvals", caller: "approver-1" },
  { path: "/ui/approvals", caller: "approver-1" },
])("HEAD $path returns no body", async ({ path, caller }) => {
  const plane = await startControlPlane();
  plane.signer.reply = ({ path }) => ({ body: path === "/v1/revocations" ? [] : {} });
  const { status, text } = await plane.send(
    new Request(`https://localhost${path}`, { method: "HEAD" }),
    caller,
  );
  assert.deepEqual([status, text], [200, ""]);
});

Deno.test.each(["/v1/", "/v1/sign/", "/v1/sign/result/a/b", "/v1/approvals/a/b", "/v1/reload", "/v1/freeze"])(
  "%s returns 404",
  async (path) => {
    const { status } = await (await startControlPlane()).get(path, "both");
    assert.equal(status, 404);
  },
);

Deno.test("controlplane_events_total counts records by outcome, including unwritten records", async () => {
  const plane = await startControlPlane();
  await plane.sign();
  plane.log.failing = true;
  await plane.sign();
  const text = await plane.metrics.text();
  assert.match(text, /^controlplane_events_total\{outcome="forwarded"\} 2$/m);
  assert.equal(plane.counts.failures, 1);
});

Deno.test("controlplane_approvals_pending reports the number of pending approvals", async () => {
  const plane = await startControlPlane();
  const gauge = async () => /^controlplane_approvals_pending (\d+)$/m.exec(await plane.metrics.text())?.[1];
  assert.equal(await gauge(), "0");
  plane.signer.reply = () => ({ body: { decision: { allowed: true, require_approval: true } } });
  await plane.park();
  assert.equal(await gauge(), "1");
  await plane.clock.advance(120_001);
  assert.equal(await gauge(), "0");
});

Deno.test("the audit log keeps records in the order of their events although some are late", async () => {
  const plane = await startControlPlane({}, { lateMs: 20 });
  await plane.sign();
  assert.deepEqual(
    plane.outcomes(),
    [],
    "the broker does not wait for the record of what the signer has recorded",
  );
  plane.signer.reply = gate;
  const id = await plane.park();
  assert.deepEqual(plane.outcomes(), ["forwarded", "approval-required"]);
  plane.signer.reply = allow;
  await plane.sign();
  await plane.decide(id, { approve: true });
  assert.deepEqual(plane.outcomes().slice(2), ["forwarded", "approval-decision-allow"]);
  await plane.sign();
  await plane.clock.advance(20);
  assert.equal(plane.outcomes().length, 5);
});
