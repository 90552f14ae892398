import assert from "node:assert/strict";
import { join } from "node:path";
import { makeSetUp } from "./set_up.ts";

/** Each file's mode and its bytes, by the place that it has in the set-up. */
async function readAll(folder: string, under = ""): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for await (const { name, isDirectory } of Deno.readDir(join(folder, under))) {
    const path = join(under, name);
    const mode = (await Deno.stat(join(folder, path))).mode;
    found.set(path, `${mode} ${isDirectory ? "" : (await Deno.readFile(join(folder, path))).toHex()}`);
    if (isDirectory) {
      for (const [inner, content] of await readAll(folder, path)) found.set(inner, content);
    }
  }
  return found;
}

const textOf = (shown: string) => new TextDecoder().decode(Uint8Array.fromHex(shown.split(" ")[1]!));

Deno.test("a set-up that was not made by init itself is as init made it, elsewhere and on other ports", async () => {
  const dir = await Deno.makeTempDir({ prefix: "gateway-test-" });
  try {
    const first = await makeSetUp(`${dir}/first`, []);
    const before = await readAll(first.folder);
    // What the first test does to its set-up is not in the second.
    await Deno.writeTextFile(first.signer_config, "{}");
    const second = await makeSetUp(`${dir}/second`, []);
    const after = await readAll(second.folder);
    assert.deepEqual([...after.keys()].sort(), [...before.keys()].sort());
    const changed = [...after.keys()].filter((path) => after.get(path) !== before.get(path)).sort();
    assert.deepEqual(changed, [
      "broker-ctl.json",
      "config.json",
      "control-plane.json",
      "mcp.json",
      "signer.json",
      "systemd/gateway-renew.service",
      "systemd/gateway-renew.timer",
    ]);
    const ports = (text: string) => new Set(text.match(/127\.0\.0\.1:\d+/g));
    for (const path of changed) {
      const [old, now] = [textOf(before.get(path)!), textOf(after.get(path)!)];
      assert.equal(now.includes(first.folder), false, path);
      assert.deepEqual(ports(now).intersection(ports(old)), new Set(), path);
      assert.equal(ports(now).size, ports(old).size, path);
      const blank = (text: string, { folder }: { folder: string }) =>
        text.replaceAll(folder, "").replaceAll(/127\.0\.0\.1:\d+/g, "");
      assert.equal(blank(now, second), blank(old, first), path);
    }
    assert.equal(second.signer_config, `${dir}/second/signer.json`);
    assert.equal(JSON.stringify(second).includes(first.folder), false);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
