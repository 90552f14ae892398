import assert from "node:assert/strict";
import { runUntilKilled } from "./killed_writer.ts";
import { StateFolder } from "./state_fixture.ts";

const MODULE = new URL("state_writer.ts", import.meta.url).href;

Deno.test("kill -9 at any point undoes no change that was acknowledged (K1, K4, K22)", async () => {
  using folder = new StateFolder();
  const said: string[] = [];
  for (const [run, count] of [1, 2, 3, 4, 50, 211, 98, 333, 7].entries()) {
    const { path } = folder;
    said.push(...await runUntilKilled({ module: MODULE, path, args: [path, `run${run}`] }, count));
  }
  const about = (what: string) =>
    said.filter((line) => line.startsWith(`${what} `)).map((line) => line.slice(what.length + 1));
  const store = folder.open();
  const grants = new Set((await store.loadGrants(0)).map(({ id }) => id));
  const freezes = new Set((await store.loadFreezes()).map(({ kind, value }) => `${kind}=${value}`));
  await store.close();
  assert.ok(about("frozen").length > 150);
  assert.deepEqual(about("granted").filter((id) => !grants.has(id)), [], "grants lost");
  assert.deepEqual(about("revoked").filter((id) => grants.has(id)), [], "grants back");
  assert.deepEqual(about("frozen").filter((name) => !freezes.has(`caller=${name}`)), [], "freezes lost");
  const frozen = [...freezes].map((subject) => subject.replace(/^.*=/, ""));
  assert.deepEqual(frozen.filter((name) => grants.has(`scoped-${name}`)), [], "half a freeze");
  assert.deepEqual(about("lifted").filter((name) => freezes.has(`end_user=${name}`)), [], "freezes back");
  assert.deepEqual(folder.warnings, []);
});
