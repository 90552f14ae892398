import assert from "node:assert/strict";
import type { ApprovalState } from "../../control_plane/approvals/approval.ts";
import { ControlFolder } from "./control_store_fixture.ts";
import { runUntilKilled } from "./killed_writer.ts";
import { EVER } from "../../control_plane/testing/sample_approval.ts";

const MODULE = new URL("control_store_writer.ts", import.meta.url).href;

Deno.test("kill -9 at any point: nothing acknowledged is lost, nothing is approved unrecorded or served twice", async () => {
  using folder = new ControlFolder();
  const said: string[] = [];
  for (const count of [1, 2, 3, 5, 8, 60, 211, 99]) {
    said.push(...await runUntilKilled({ module: MODULE, path: folder.path, args: [folder.path] }, count));
  }
  const about = (what: string) =>
    said.filter((line) => line.startsWith(`${what} `)).map((line) => line.slice(what.length + 1));
  const store = folder.open();
  const states = new Map((await store.loadApprovals(EVER)).map(({ id, state }) => [id, state]));
  await store.close();
  const are = (ids: readonly string[], ...kinds: readonly (ApprovalState["kind"] | undefined)[]) =>
    assert.deepEqual(
      ids.filter((id) => !kinds.includes(states.get(id)?.kind)),
      [],
      `not ${kinds.join(" or ")}`,
    );
  const having = (...kinds: readonly ApprovalState["kind"][]) =>
    [...states].filter(([, { kind }]) => kinds.includes(kind)).map(([id]) => id);
  const from = (ids: readonly string[], whole: readonly string[], what: string) =>
    assert.deepEqual(ids.filter((id) => !whole.includes(id)), [], what);

  assert.ok(about("served").length > 30 && about("approved").length > about("served").length);
  are(about("parked"), "pending", "approved", "consumed", "denied");
  are(about("approved"), "approved", "consumed");
  are(about("denied"), "denied");
  are(about("served"), "consumed");
  from(having("approved", "consumed"), about("audited-approval"), "approved without a record");
  from(having("denied"), about("audited-denial"), "denied without a record");
  from(having("consumed"), about("granted"), "consumed without a record");
  assert.equal(new Set(about("served")).size, about("served").length, "served twice");
  assert.deepEqual([about("failed"), about("warned"), folder.warnings], [[], [], []]);
});
