import assert from "node:assert/strict";
import { freePort } from "./free_port.ts";
import { join } from "node:path";
import { createInstallation } from "./installation.ts";

const PROGRAM = `
  import { freePort } from "${new URL("free_port.ts", import.meta.url).href}";
  console.log(JSON.stringify(Array.from({ length: 100 }, freePort)));
  await Deno.stdin.read(new Uint8Array(1));
`;

Deno.test("freePort() returns no port that another process has reserved but not used yet", async () => {
  const mine = Array.from({ length: 100 }, freePort);
  const others = Array.from({ length: 3 }, () =>
    new Deno.Command(Deno.execPath(), {
      args: ["eval", "--quiet", "--ext=ts", PROGRAM],
      stdin: "piped",
      stdout: "piped",
    }).spawn());
  const given = await Promise.all(others.map(async ({ stdout }) => {
    for await (const text of stdout.pipeThrough(new TextDecoderStream())) {
      if (text.endsWith("\n")) return JSON.parse(text);
    }
  }));
  // All processes held their ports at the same time.
  await Promise.all(others.map(({ stdin }) => stdin.close()));
  await Promise.all(others.map(({ status }) => status));
  const all = [...mine, ...given.flat()];
  assert.equal(new Set(all).size, 400);
});

Deno.test("freePort() skips a port in use", () => {
  const taken = freePort();
  using _listener = Deno.listen({ hostname: "127.0.0.1", port: taken });
  const next = Array.from({ length: 200 }, freePort);
  assert.ok(!next.includes(taken));
  assert.equal(new Set(next).size, 126);
});

/** Returns mode and content of each file, by its path in the installation. */
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

Deno.test("a copied installation equals the one of init, except for directory and ports", async () => {
  const dir = await Deno.makeTempDir({ prefix: "gateway-test-" });
  try {
    const first = await createInstallation(`${dir}/first`, []);
    const before = await readAll(first.folder);
    // Changes of the first installation must not appear in the copy.
    await Deno.writeTextFile(first.signer_config, "{}");
    const second = await createInstallation(`${dir}/second`, []);
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
