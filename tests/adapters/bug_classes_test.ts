/** Known classes of bugs that need a file system to show themselves. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { editPath } from "@gateway/shared/config/edit_path";
import { openConfigFile } from "../../signer/config_file.ts";

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
