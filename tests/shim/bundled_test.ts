import assert from "node:assert/strict";
import { FOREIGN_KEY, FORMATS, InstalledShim } from "./installed_shim.ts";

Deno.test("gateway-shim-v1 takes the bundled verifier beside it, and needs nothing else of this folder", async () => {
  await using shim = await InstalledShim.create(FORMATS.v1);
  await shim.bundle();
  // The source is not there, as on a host.
  const launcher = `${shim.folder}/gateway-shim`;
  const text = await Deno.readTextFile(launcher);
  await Deno.writeTextFile(launcher, text.replace(/verifier="\S*main\.ts"/, "verifier=/none/main.ts"));
  const envelope = shim.seal({ command: "echo ran; exit 7" });
  const ran = await shim.run(envelope);
  assert.deepEqual([ran.code, ran.stdout, ran.stderr], [7, "ran\n", ""]);
  const again = await shim.run(envelope);
  assert.deepEqual([again.code, again.stdout], [126, ""]);
  assert.match(again.stderr, /replay/);
  const foreign = await shim.run(shim.seal({}, FOREIGN_KEY));
  assert.deepEqual([foreign.code, foreign.stdout], [126, ""]);
  assert.equal(shim.claims().length, 1);
});
