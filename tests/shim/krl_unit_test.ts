import assert from "node:assert/strict";
import { isMissing } from "../stage/is_missing.ts";

const UNIT = new URL("../../shim/gateway-krl.service", import.meta.url);
const ignore = isMissing("systemd-analyze", ["/usr/bin/systemd-analyze"]);

Deno.test("systemd takes gateway-krl.service without a word, and exposes it little", { ignore }, async () => {
  const folder = await Deno.makeTempDir({ prefix: "krl-unit-" });
  try {
    const unit = `${folder}/gateway-krl.service`;
    // What it starts need not be installed here.
    const text = await Deno.readTextFile(UNIT);
    await Deno.writeTextFile(unit, text.replace("=/usr/local/bin/gateway-krl", "=/bin/true"));
    for (
      const args of [["verify", "--man=no"], ["security", "--offline=true", "--threshold=25", "--no-pager"]]
    ) {
      const { code, stdout, stderr } = await new Deno.Command("systemd-analyze", { args: [...args, unit] })
        .output();
      const said = new TextDecoder().decode(stderr) +
        (args[0] === "verify" ? new TextDecoder().decode(stdout) : "");
      assert.deepEqual({ code, said }, { code: 0, said: "" });
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
