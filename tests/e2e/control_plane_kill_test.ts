import assert from "node:assert/strict";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { poll } from "../stage/poll.ts";
import { type ControlPlaneScene, withControlPlane } from "./control_plane_scene.ts";

const ROUNDS = 4;
const REQUESTS = 24;
const UNLIMITED = { path: ["behavior", "rate_limit_per_min"], value: 0 };

async function statuses(scene: ControlPlaneScene): Promise<ReadonlyMap<string, string>> {
  const { body } = await scene.get("approver", "/v1/approvals");
  return new Map((body as readonly ApprovalRecord[]).map(({ id, status }) => [id, status]));
}

Deno.test("after kill -9 between the steps of an approval no result is lost and none is served twice", () =>
  withControlPlane({}, async (scene) => {
    await scene.stage.startSigner();
    let controlPlane = await scene.stage.startControlPlane();
    const restart = async () => {
      await controlPlane.stop("SIGKILL");
      controlPlane = await scene.stage.startControlPlane();
    };
    const [approved, denied] = [await scene.park(), await scene.park()];
    await restart();
    assert.match(controlPlane.log, /"approvals":2/);
    assert.equal((await scene.poll(approved)).status, 202);
    assert.equal((await scene.decide(approved, { approve: true })).status, 200);
    assert.equal((await scene.decide(denied, { approve: false })).status, 200);
    await restart();
    assert.equal((await scene.decide(approved, { approve: false })).status, 409);
    assert.equal((await scene.poll(denied)).status, 403);
    assert.equal((await scene.poll(approved)).status, 200);
    await restart();
    assert.equal((await scene.poll(approved)).status, 410);
    assert.equal((await scene.poll(denied)).status, 403);
    const issued = (await scene.records("signer")).filter(({ outcome }) => outcome === "issued");
    assert.equal(issued.length, 1);
    await scene.assertLogVerifies();
  }));

Deno.test("without state_db, a restart loses approvals, and they must be requested again", () =>
  withControlPlane({ controlPlaneConfig: [{ path: ["state_db"] }] }, async (scene) => {
    await scene.stage.startSigner();
    const controlPlane = await scene.stage.startControlPlane();
    assert.match(controlPlane.log, /state_db is not set/);
    const id = await scene.park();
    await controlPlane.stop();
    await scene.stage.startControlPlane();
    assert.equal((await scene.poll(id)).status, 404);
    assert.equal((await scene.decide(id, { approve: true })).status, 409);
  }));

Deno.test("after kill -9 during decisions acknowledged decisions hold, and each approval has a record", () => {
  const cap = { path: ["approval", "max_pending_per_caller"], value: 1000 };
  return withControlPlane({ controlPlaneConfig: [UNLIMITED, cap] }, async (scene) => {
    await scene.stage.startSigner();
    const acknowledged = new Set<string>();
    for (let round = 0; round < ROUNDS; round++) {
      const controlPlane = await scene.stage.startControlPlane();
      const ids = await Promise.all(Array.from({ length: REQUESTS }, () => scene.park()));
      const before = acknowledged.size;
      const deciding = ids.map(async (id) => {
        const answer = await scene.decide(id, { approve: true }).catch(() => undefined);
        if (answer?.status === 200) acknowledged.add(id);
      });
      await poll(() => acknowledged.size > before + 3 * round, { what: "decisions", intervalMs: 1 });
      await controlPlane.stop("SIGKILL");
      await Promise.all(deciding);
    }
    const controlPlane = await scene.stage.startControlPlane();
    const after = await statuses(scene);
    const recorded = new Set(
      (await scene.records()).filter(({ outcome }) => outcome === "approval-decision-allow").map((each) =>
        each.approval_id
      ),
    );
    assert.equal(after.size, ROUNDS * REQUESTS);
    for (const [id, status] of after) {
      if (status === "approved") assert.ok(recorded.has(id), "approved and not in the log");
      else assert.equal(status, "pending");
      if (acknowledged.has(id)) assert.equal(status, "approved", "acknowledged and lost");
    }
    await controlPlane.stop();
    await scene.assertLogVerifies();
  });
});

Deno.test("after kill -9 during collections each result is served at most once", () => {
  const cap = { path: ["approval", "max_pending_per_caller"], value: 1000 };
  return withControlPlane({ controlPlaneConfig: [UNLIMITED, cap] }, async (scene) => {
    await scene.stage.startSigner();
    let controlPlane = await scene.stage.startControlPlane();
    const ids = await Promise.all(Array.from({ length: ROUNDS * 8 }, () => scene.park()));
    for (const id of ids) await scene.decide(id, { approve: true });
    const served = new Map<string, number>();
    const collectAll = async () => {
      await Promise.all(ids.map(async (id) => {
        const answer = await scene.poll(id).catch(() => undefined);
        if (answer?.status === 200) served.set(id, (served.get(id) ?? 0) + 1);
      }));
    };
    for (let round = 0; round < ROUNDS; round++) {
      const before = served.size;
      let isDone = false;
      const collecting = collectAll().then(() => isDone = true);
      // Approvals used up before the kill are no longer listed, so the list may be empty.
      await poll(() => isDone || served.size > before + round, { what: "results", intervalMs: 1 });
      await controlPlane.stop("SIGKILL");
      await collecting;
      controlPlane = await scene.stage.startControlPlane();
    }
    await collectAll();
    assert.ok([...served.values()].every((times) => times === 1));
    const granted = (await scene.records()).filter(({ outcome }) => outcome === "approval-granted");
    const recorded = new Set(granted.map(({ approval_id }) => approval_id));
    for (const id of served.keys()) assert.ok(recorded.has(id), "handed out and not in the log");
    await controlPlane.stop();
    await scene.assertLogVerifies();
  });
});
