/** Known classes of bugs that need a file system to show themselves. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { editPath } from "@gateway/signer/config";
import { SET_UP_ENTRIES } from "../../ctl/setup/layout.ts";
import manifest from "../../deno.json" with { type: "json" };
import { openConfigFile } from "../../signer/config/config_file.ts";

const inRepository = (name: string) => Deno.readTextFile(new URL(`../../${name}`, import.meta.url));

Deno.test("a link that lies ready under the name of the next config is not written through (C4)", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const [config, victim] = [join(folder, "signer.json"), join(folder, "victim")];
    await Deno.writeTextFile(config, "old", { mode: 0o640 });
    await Deno.writeTextFile(victim, "precious", { mode: 0o644 });
    await Deno.symlink(victim, editPath(config));
    const file = openConfigFile(config, {} as never);
    assert.equal(await file.replace("old", "new"), true);
    assert.equal(await Deno.readTextFile(victim), "precious");
    assert.equal(await Deno.readTextFile(config), "new");
    const { isSymlink, mode } = await Deno.lstat(config);
    assert.deepEqual([isSymlink, (mode ?? 0) & 0o777], [false, 0o640]);
    assert.deepEqual([...Deno.readDirSync(folder)].map(({ name }) => name).sort(), ["signer.json", "victim"]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("git ignores every config and key of a set-up that is made in the repository (C21)", async () => {
  const ignored = (await inRepository(".gitignore")).split("\n").map((line) => line.replace(/\/$/, ""));
  assert.deepEqual(SET_UP_ENTRIES.filter((entry) => !ignored.includes(`/${entry}`)), []);
});

Deno.test("every package is named by its exact version, and locked with all it needs by digest (R10)", async () => {
  const lock = JSON.parse(await inRepository("deno.lock"));
  for (const specifier of Object.values(manifest.imports)) {
    assert.match(specifier, /^npm:\/?(?:@[a-z-]+\/)?[a-z0-9.-]+@\d+\.\d+\.\d+\/?$/);
    assert.ok(specifier.replaceAll(/(?<=^npm:)\/|\/$/g, "") in lock.specifiers, specifier);
  }
  const packages: Record<string, { readonly integrity?: string }> = lock.npm;
  for (const [name, { integrity }] of Object.entries(packages)) {
    assert.match(integrity ?? "", /^sha512-/, name);
  }
});
