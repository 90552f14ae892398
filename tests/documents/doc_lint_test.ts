import assert from "node:assert/strict";
import manifest from "../../shared/deno.json" with { type: "json" };

const SHARED = new URL("../../shared/", import.meta.url).pathname;

/** Types of packages: `deno doc` takes every one for private, and nothing that we write makes them public. */
const OF_PACKAGES =
  /references private type '(?:ZodType|ZodArray|ZodURL|ZodExactOptional|JWK|JWTHeaderParameters|GenerateKeyPairResult)'$/;

Deno.test("deno doc --lint finds nothing in shared but types of packages", async () => {
  const entries = Object.values(manifest.exports).map((path) => `${SHARED}${path}`);
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["doc", "--lint", ...entries],
    env: { NO_COLOR: "1" },
  }).output();
  const decoder = new TextDecoder();
  const findings = `${decoder.decode(stdout)}${decoder.decode(stderr)}`
    .match(/^error\[.*\n.*$/gm)
    ?.filter((finding) => !OF_PACKAGES.test(finding.split("\n")[0] ?? ""));
  // The types of packages show that it has looked.
  assert.ok(findings !== undefined, "deno doc --lint did not run");
  assert.deepEqual(findings, []);
});
