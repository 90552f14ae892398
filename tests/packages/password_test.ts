import assert from "node:assert/strict";
import { maintainerScripts } from "../../deploy/release/debian.ts";
import { PACKAGES } from "../../deploy/release/packages.ts";

Deno.test("the installation of the debate creates a password once, which only root can read", async () => {
  const folder = await Deno.makeTempDir({ prefix: "password-" });
  try {
    const debate = PACKAGES.find(({ name }) => name === "gateway-debate");
    assert.ok(debate);
    const script = maintainerScripts(debate).postinst?.replaceAll("/etc/gateway/", `${folder}/`)
      // Without a service manager.
      .replaceAll("/run/systemd/system", `${folder}/none`) ?? "";
    const install = async () => {
      const args = ["-c", script, "postinst", "configure"];
      const { code, stdout, stderr } = await new Deno.Command("sh", { args }).output();
      assert.equal(code, 0);
      return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    };
    const path = `${folder}/debate.env`;
    const output = await install();
    const text = await Deno.readTextFile(path);
    const [, password = ""] = /^WEB_USERNAME=operator\nWEB_PASSWORD=([0-9a-f]{48})\n$/.exec(text) ?? [];
    assert.notEqual(password, "");
    assert.equal(output, `${path} has the user name and the generated password\n`);
    assert.equal((await Deno.stat(path)).mode! & 0o777, 0o600);
    assert.equal(await install(), "");
    assert.equal(await Deno.readTextFile(path), text);
    await Deno.remove(path);
    await install();
    assert.notEqual(await Deno.readTextFile(path), text);
    await Deno.remove(path);
    await Deno.symlink(`${folder}/elsewhere`, path);
    await install();
    await assert.rejects(Deno.stat(`${folder}/elsewhere`), Deno.errors.NotFound);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
