import assert from "node:assert/strict";
import manifest from "../../shim/deno.json" with { type: "json" };
import { FORMATS, InstalledShim } from "./installed_shim.ts";

const LAUNCHER = new URL("../../shim/gateway-shim-v1", import.meta.url).pathname;

Deno.test("gateway-shim-v1 starts the verifier under exactly the permissions of shim/deno.json", async () => {
  const text = await Deno.readTextFile(LAUNCHER);
  const { read, write, env } = manifest.permissions["gateway-shim"];
  const [keys = "", store = ""] = read;
  assert.deepEqual(write, [store]);
  assert.match(text, new RegExp(`^ *keys=${keys}; store=${store}$`, "m"));
  assert.deepEqual(text.match(/"?--allow-[^ ]*/g), [
    '"--allow-read=$keys,$store"',
    '"--allow-write=$store"',
    `--allow-env=${env.allow.join()}`,
  ]);
  assert.doesNotMatch(text, /deno run.* (?:-A|-P)\b/);
});

Deno.test.each([
  { name: "read another file", code: "Deno.readTextFile('/etc/passwd')" },
  { name: "write the keys", code: "Deno.writeTextFile(Deno.args[0], '')" },
  { name: "see another variable", code: "(async () => Deno.env.get('DENO_DIR'))()" },
  { name: "start a program", code: "new Deno.Command('/bin/true').output()" },
  { name: "connect", code: "Deno.connect({ hostname: '127.0.0.1', port: 1 })" },
  { name: "load native code", code: "(async () => Deno.dlopen('libc.so.6', {}))()" },
])("the verifier of gateway-shim-v1 may not $name", async ({ code }) => {
  await using shim = await InstalledShim.create(FORMATS.v1);
  const probe = `${shim.folder}/probe.ts`;
  await Deno.writeTextFile(probe, `await ${code}.catch((error) => console.log(error.name + "."));`);
  const program = `${shim.folder}/gateway-shim`;
  const text = await Deno.readTextFile(program);
  // The launcher as it is, with another module: what this prints is run as a command.
  await Deno.writeTextFile(program, text.replace(/"[^"]*main\.ts"/, `"${probe}"`));
  const { stderr } = await shim.run(shim.seal());
  assert.match(stderr, /NotCapable/);
});

Deno.test("gateway-shim-v1 starts the executable beside it where there is one, with the paths in it", async () => {
  await using shim = await InstalledShim.create(FORMATS.v1);
  const main = new URL("../../shim/main.ts", import.meta.url).pathname;
  // What deno compile makes holds these arguments and permissions; here a shell stands in for it.
  await Deno.writeTextFile(
    `${shim.folder}/gateway-shim-verify`,
    `#!/bin/sh\nexec '${Deno.execPath()}' run --quiet --cached-only -RWE '${main}' '${shim.keyFile}' '${shim.store}' "$@"\n`,
    { mode: 0o755 },
  );
  await shim.edit("deno run", "./no-deno run");
  assert.equal((await shim.run(shim.seal())).stdout, "done\n");
  assert.match(
    (await shim.run(shim.seal({ host: "web02" }))).stderr,
    /refused: the envelope is for another host/,
  );
});
