import assert from "node:assert/strict";
import { ENV_NAMES } from "./config.ts";
import manifest from "./deno.json" with { type: "json" };
import { TOOL_ENV_NAMES } from "./tools/catalogue.ts";
import { PROGRAM_RULES } from "./tools/program_rules.ts";

const PROGRAMS = [...Object.keys(PROGRAM_RULES), "git", "kill", "kubectl", "ssh"];

for (const [name, set] of Object.entries(manifest.permissions)) {
  Deno.test(`the set ${name} allows exactly the variables that are read`, () => {
    assert.deepEqual(set.env.allow, [...new Set([...ENV_NAMES, ...TOOL_ENV_NAMES])].sort());
  });

  Deno.test(`the set ${name} allows exactly the programs of the tools`, () => {
    assert.deepEqual(set.run, [...PROGRAMS].sort());
  });
}

Deno.test("the server writes into its volume only", () => {
  assert.deepEqual(manifest.permissions.serve.write, ["/data"]);
});
