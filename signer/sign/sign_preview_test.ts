import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import type { ApiAnswer } from "@gateway/shared/kubernetes";
import { answered, type Asked, MINTED, startClusterSigner, TOKEN } from "../testing/cluster_scene.ts";

const APPLY = "apply deployments.apps web/api";
const MANIFEST = '{ "spec": {"replicas": 3} }';
const PATH = "/apis/apps/v1/namespaces/web/deployments/api";
const ASKED = { on_behalf_of: "broker-1", end_user: "alice", k8s_manifest: MANIFEST };

async function ask(
  get: ApiAnswer,
  patch: ApiAnswer,
  changes: Record<string, unknown> = {},
  cn = "control-plane",
) {
  const reply = ({ method, path }: Asked) =>
    path.endsWith("/token") ? MINTED : method === "GET" ? get : patch;
  const signer = await startClusterSigner({ reply });
  const { status, body } = await signer.act(APPLY, { ...ASKED, ...changes }, cn);
  assert.equal(status, 200);
  assert.equal(body["k8s_token"], undefined);
  return { ...signer, diff: body["k8s_diff"], body };
}

const live = (replicas: number) => answered(200, { kind: "Deployment", spec: { replicas } });
const refused = (status: number, message: string) => answered(status, { kind: "Status", message });

Deno.test("an approver is sent what an apply would change, found with the account's own rights", async () => {
  const { diff, asked, log, body } = await ask(live(2), live(3));
  assert.equal(body.decision?.["require_approval"], true);
  assert.equal((body["target"] as { user: string }).user, "system:serviceaccount:gateway:agent");
  assert.deepEqual(diff, { kind: "changed", changes: [{ path: "spec.replicas", before: "2", after: "3" }] });
  assert.deepEqual(asked.slice(1), [
    { cluster: "prod", method: "GET", path: PATH, token: TOKEN, body: undefined },
    {
      cluster: "prod",
      method: "PATCH",
      path: `${PATH}?fieldManager=gateway&dryRun=All`,
      token: TOKEN,
      body: MANIFEST,
    },
  ]);
  assert.deepEqual(log.entries.map(({ outcome }) => outcome), ["approval-required"]);
  assert.equal(log.entries[0]?.jti, "id-1", "its uses are explained");
});

Deno.test.each<{ name: string; get: ApiAnswer; patch?: ApiAnswer; diff: unknown }>([
  {
    name: "a new object",
    get: refused(404, "not found"),
    patch: answered(201, {}),
    diff: { kind: "created" },
  },
  { name: "nothing", get: live(3), patch: live(3), diff: { kind: "unchanged" } },
  {
    name: "what the account may not read",
    get: refused(403, "deployments is forbidden"),
    diff: { kind: "unknown", reason: "the object can't be read: 403 deployments is forbidden" },
  },
  {
    name: "an API server that hangs",
    get: { kind: "timed_out" },
    diff: { kind: "unknown", reason: "the API server gave no answer that can be used" },
  },
  {
    name: "an API server that answers HTML",
    get: answered(200, "<h1>"),
    patch: answered(200, "<h1>"),
    diff: { kind: "unknown", reason: "the API server's answer is no object" },
  },
])("a difference of $name", async ({ get, patch = live(3), diff }) => {
  assert.deepEqual((await ask(get, patch)).diff, diff);
});

Deno.test("a control plane that asks a human for reasons of its own has the difference by a preflight", async () => {
  const { diff, body, log } = await ask(live(2), live(3), { dry_run: true, preflight: true });
  assert.deepEqual(diff, { kind: "changed", changes: [{ path: "spec.replicas", before: "2", after: "3" }] });
  assert.equal(body.serial, undefined);
  assert.deepEqual(log.entries.map(({ outcome }) => outcome), ["dry_run_allowed"]);
});

Deno.test.each<{ name: string; changes?: Record<string, unknown>; cn?: string }>([
  { name: "in a dry run", changes: { dry_run: true } },
  { name: "without its manifest", changes: { k8s_manifest: "" } },
  { name: "of a broker that asks by itself", changes: { on_behalf_of: "" }, cn: "broker-1" },
])("an apply $name has no difference, and no token is made for one", async ({ changes, cn }) => {
  const { diff, asked } = await ask(live(2), live(3), changes, cn);
  assert.deepEqual([diff, asked], [undefined, []]);
});

Deno.test("an apply that no token can be made for goes to the approver with why", async () => {
  const signer = await startClusterSigner({ reply: () => refused(401, "Unauthorized") });
  const { status, body } = await signer.act(APPLY, ASKED, "control-plane");
  assert.equal(status, 200);
  assert.deepEqual(body["k8s_diff"], {
    kind: "unknown",
    reason:
      'minting token for gateway/agent on "prod": the API server refuses the credential in token_file; renew it',
  });
});

Deno.test("the record of a preview that fails has the id of its token", async () => {
  const reply = ({ path }: Asked) => {
    if (path.endsWith("/token")) return MINTED;
    throw new AppError("canceled", "the signer is stopping");
  };
  const { act, log } = await startClusterSigner({ reply });
  const { body } = await act(APPLY, ASKED, "control-plane");
  assert.deepEqual(body["k8s_diff"], { kind: "unknown", reason: "the signer is stopping" });
  assert.equal(log.entries[0]?.jti, "id-1");
});

Deno.test.each([{ dry_run: false }, { dry_run: true, preflight: true }])(
  "an apply that conflicts is refused before an approver is asked, with the fields and their manager: $dry_run",
  async (changes) => {
    const message = 'Apply failed with 1 conflict: conflict with "kubectl": .spec.replicas';
    const signer = await startClusterSigner({
      reply: ({ method, path }) =>
        path.endsWith("/token") ? MINTED : method === "GET" ? live(2) : refused(409, message),
    });
    const { status, body } = await signer.act(APPLY, { ...ASKED, ...changes }, "control-plane");
    assert.deepEqual([status, body.code, body["k8s_diff"]], [400, "invalid_request", undefined]);
    assert.equal(
      body.detail,
      `the apply would fail: 409 ${message}; leave these fields out of the manifest, or name all of them in force_fields`,
    );
    const [{ outcome, err, jti } = {}] = signer.log.entries;
    assert.deepEqual([outcome, err], [
      changes.dry_run ? "dry_run_denied" : "denied",
      `the apply would fail: 409 ${message}`,
    ]);
    assert.equal(jti, "id-1");
  },
);

Deno.test("an apply that takes named fields over always asks an approver, and is refused where others conflict too", async () => {
  const conflict = answered(409, {
    kind: "Status",
    message: "Apply failed",
    details: { causes: [{ reason: "FieldManagerConflict", field: ".spec.replicas" }] },
  });
  const act = async (fields: readonly string[], changes: Record<string, unknown> = {}) => {
    const signer = await startClusterSigner({
      reply: ({ method, path }) => {
        if (path.endsWith("/token")) return MINTED;
        return method === "GET" ? live(2) : path.endsWith("&force=true") ? live(3) : conflict;
      },
    });
    const asked = { ...ASKED, k8s_force_fields: fields, ...changes };
    return { ...await signer.act(APPLY, asked, "control-plane"), log: signer.log };
  };
  const { body, log } = await act([".spec.replicas", ".spec.paused"]);
  assert.deepEqual([body.decision?.["require_approval"], body.decision?.["force"]], [true, true]);
  assert.deepEqual(body["k8s_diff"], {
    kind: "changed",
    changes: [{ path: "spec.replicas", before: "2", after: "3" }],
  });
  assert.match(String(log.entries[0]?.warning), /^force_fields=".spec.replicas,.spec.paused"$/);
  const other = await act([".spec.paused"]);
  assert.equal(other.status, 400);
  assert.match(String(other.body.detail), /; force_fields: \["\.spec\.replicas"\]; leave these fields out/);
  const approved = await act([".spec.replicas"], { approved: true, learn_ttl_seconds: 60 });
  assert.equal(approved.body["k8s_token"], TOKEN);
  assert.deepEqual(
    approved.log.entries.map(({ outcome }) => outcome),
    ["issued"],
    "nothing is learned of it",
  );
  assert.equal((await act([".a"], { k8s_manifest: "" })).status, 400);
});
