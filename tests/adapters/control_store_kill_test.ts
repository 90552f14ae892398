import assert from "node:assert/strict";
import type { ApprovalState } from "../../control_plane/approval/approval.ts";
import { ControlFolder } from "./control_store_fixture.ts";

const WRITER = new URL("control_store_writer.ts", import.meta.url).href;

/** Runs a writer that may touch the database and nothing else; kills it without warning after so many steps. */
async function runUntilKilled({ path }: ControlFolder, count: number): Promise<readonly string[]> {
  const flags = [`--allow-read=${path}`, `--allow-write=${path}`];
  const writer = new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "--quiet", "--cached-only", ...flags, WRITER, path],
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  let text = "";
  let lines = 0;
  let killed = false;
  for await (const chunk of writer.stdout.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    lines += chunk.split("\n").length - 1;
    if (!killed && lines >= count) {
      writer.kill("SIGKILL");
      killed = true;
    }
  }
  assert.equal((await writer.status).signal, "SIGKILL");
  return text.split("\n").slice(0, -1);
}

Deno.test("kill -9 at any point: nothing acknowledged is lost, nothing is approved unrecorded or served twice", async () => {
  using folder = new ControlFolder();
  const said: string[] = [];
  for (const count of [1, 2, 3, 4, 5, 6, 7, 8, 60, 211, 99, 333, 10]) {
    said.push(...await runUntilKilled(folder, count));
  }
  const about = (what: string) =>
    said.filter((line) => line.startsWith(`${what} `)).map((line) => line.slice(what.length + 1));
  const store = folder.open();
  const states = new Map((await store.loadApprovals(-Infinity)).map(({ id, state }) => [id, state]));
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
