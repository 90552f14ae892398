import assert from "node:assert/strict";
import { join } from "node:path";
import { createFolder, run } from "./ctl_fixture.ts";

Deno.test("permissions prints the flags of a fresh set-up on one line", async () => {
  await using folder = await createFolder();
  await run(folder.path, "init");
  const signer = await run(folder.path, "permissions", "signer");
  assert.match(
    signer.out,
    /^--no-prompt --cached-only --no-code-cache --v8-flags=\S+ --allow-read=.*\/pki\/ssh_ca,.*\n$/,
  );
  assert.match(signer.out, / --allow-net=127\.0\.0\.1:9160,127\.0\.0\.1:9443 --ignore-env\n$/);
  const mcp = await run(
    folder.path,
    "permissions",
    "broker",
    "--frontend",
    "serve-mcp",
    "-config=config.json",
  );
  assert.doesNotMatch(mcp.out, /ssh_ca|8443|broker-server/);
});

Deno.test("permissions quotes the value of a flag for the shell, and not its name", async () => {
  await using folder = await createFolder();
  const odd = join(folder.path, "gate way");
  await Deno.mkdir(odd, { mode: 0o700 });
  await run(odd, "init");
  const { out } = await run(odd, "permissions", "signer");
  assert.match(out, / --allow-read='\/[^']*\/gate way\/[^']*' /);
  assert.match(out, / --allow-net=127\.0\.0\.1:9160,/);
});

Deno.test("permissions refuses a config that would not load", async () => {
  await using folder = await createFolder();
  await Deno.writeTextFile(join(folder.path, "signer.json"), '{ "hots": {} }');
  const result = await run(folder.path, "permissions", "signer", "--json");
  assert.equal(result.exit, 1);
  assert.equal(JSON.parse(result.err).code, "invalid_config");
  assert.match(JSON.parse(result.err).message, /unknown key "hots"/);
});
