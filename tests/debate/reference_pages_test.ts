import { FakeClock } from "@gateway/shared/testing";
import assert from "node:assert/strict";
import { parseEnv } from "node:util";
import { loadSettings } from "../../debate/settings/config.ts";
import { collectContext } from "../../debate/context/collect.ts";
import { createContextRedactor } from "../../debate/context/redact_context.ts";
import { debatePage } from "../documents/reference/debate.ts";

const file = (path: string) => new URL(`../../debate/${path}`, import.meta.url);

Deno.test("docs/reference/debate.md describes every kind of event", async () => {
  const page = debatePage();
  const events = await Deno.readTextFile(file("engine/events.ts"));
  const types = [...events.matchAll(/readonly type: "(\w+)";/g)].map(([, type]) => type);
  assert.ok(types.length > 20);
  for (const type of types) assert.match(page, new RegExp(`^### ${type}\n\n\\S`, "m"));
});

Deno.test("debate/.env.example with every line active equals the defaults", async () => {
  const text = (await Deno.readTextFile(file(".env.example"))).replace(/^# (?=[A-Z_]+=)/gm, "");
  const env = { HOME: "/home/ann" };
  const settings = loadSettings({ env: { ...parseEnv(text), ...env }, workingFolder: "/work" });
  assert.deepEqual(settings, loadSettings({ env, workingFolder: "/work" }));
});

Deno.test("debate/examples/base_context.md contains nothing that looks like a secret", async () => {
  const bytes = await Deno.readFile(file("examples/base_context.md"));
  const rules = { redact: createContextRedactor([]), clock: new FakeClock(), allowedRoots: [] };
  const { redactions, notes, text } = await collectContext({
    baseContext: [{ name: "base_context.md", bytes }],
  }, rules);
  assert.deepEqual([redactions, notes], [{}, []]);
  assert.ok(text.includes("checkout-api"));
});
