import assert from "node:assert/strict";
import { InstalledShim } from "./installed_shim.ts";
import { REFUSED_CASES } from "./refusals.ts";
import { SHIMS } from "./shims.ts";

for (const { name, format, shell } of SHIMS) {
  const cases = REFUSED_CASES.filter(({ only }) => only === undefined || only === format.name);
  Deno.test.each(cases)(`${name} refuses $name`, async ({ envelope, arrange, options, reason }) => {
    await using shim = await InstalledShim.create(format, shell);
    await arrange?.(shim);
    const sent = envelope === undefined ? shim.seal() : envelope(shim);
    const { code, stdout, stderr } = await shim.run(sent, options);
    const expected = reason.replace("KEYS", shim.keyFile).replace("STORE", shim.store);
    // What can't be started may say so itself before.
    const told = reason.includes("not run") ? stderr.slice(stderr.indexOf("gateway-shim:")) : stderr;
    assert.deepEqual({ code, stdout, told }, {
      code: 126,
      stdout: "",
      told: `gateway-shim: refused: ${expected}\n`,
    });
    if (reason.includes("STORE")) return;
    assert.deepEqual(shim.claims(), []);
  });
}
