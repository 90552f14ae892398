import assert from "node:assert/strict";
import { mayNotMount, TinyDisk } from "../adapters/tiny_disk.ts";
import { InstalledShim } from "./installed_shim.ts";
import { SHIMS } from "./shims.ts";

for (const { name, format, shell } of SHIMS) {
  Deno.test({
    name: `${name} refuses while the use of an envelope can't be recorded for want of room (needs root)`,
    ignore: mayNotMount,
    async fn() {
      await using disk = await TinyDisk.mount("size=1m,nr_inodes=4");
      await using shim = await InstalledShim.create(format, shell, disk.folder);
      const filler = `${disk.folder}/filler`;
      await Deno.mkdir(filler);
      // The root, the store and the filler are there: one more goes in.
      await Deno.writeTextFile(`${filler}/last`, "");
      const envelope = shim.seal();
      const { code, stdout, stderr } = await shim.run(envelope);
      assert.deepEqual({ code, stdout, stderr }, {
        code: 126,
        stdout: "",
        stderr: `gateway-shim: refused: cannot record the envelope's use in ${shim.store}\n`,
      });
      await Deno.remove(`${filler}/last`);
      assert.equal((await shim.run(envelope)).stdout, "done\n");
    },
  });
}
