import assert from "node:assert/strict";
import { join } from "node:path";
import { buildDebian } from "../../deploy/release/debian.ts";
import { RUNTIME } from "../../deploy/release/packages.ts";
import { architectureOf, findRuntimes } from "../../deploy/release/runtimes.ts";
import { write } from "../../deploy/release/stage.ts";
import { elfHeader } from "../packages/elf_header.ts";
import { mustRun } from "../packages/machine.ts";
import { createFolder } from "./ctl_fixture.ts";

Deno.test("a release takes the architecture of a runtime from the program itself, and releases each once", async () => {
  await using folder = await createFolder();
  const at = (name: string) => join(folder.path, name);
  for (const [name, machine] of [["a", 62], ["b", 183], ["c", 40]] as const) {
    await Deno.writeFile(at(name), elfHeader(machine));
  }
  await Deno.writeTextFile(at("text"), "#!/bin/sh\nexec deno\n");
  assert.deepEqual(await findRuntimes([at("b"), at("a")], folder.path), [
    { architecture: "arm64", path: at("b") },
    { architecture: "amd64", path: at("a") },
  ]);
  await assert.rejects(findRuntimes([at("a"), at("a")], folder.path), /two runtimes for amd64/);
  for (const other of ["c", "text"]) {
    await assert.rejects(findRuntimes([at(other)], folder.path), /no ELF program for amd64 or arm64/);
  }
});

Deno.test("the package of the runtime is for the architecture of the Deno program in it", async () => {
  await using folder = await createFolder();
  const build = { output: folder.path, version: "2.9.6", epoch: 1_700_000_000 };
  for (const [architecture, machine] of [["amd64", 62], ["arm64", 183]] as const) {
    const root = join(folder.path, architecture);
    await write(join(root, "usr/lib/gateway/deno"), elfHeader(machine), 0o755);
    const file = await buildDebian(RUNTIME, { ...build, root, architecture });
    assert.equal(file, `gateway-runtime_2.9.6_${architecture}.deb`);
    const path = join(folder.path, file);
    assert.equal((await mustRun("dpkg-deb", "--field", path, "Architecture")).trim(), architecture);
    const unpacked = join(folder.path, `of-${architecture}`);
    await mustRun("dpkg-deb", "--extract", path, unpacked);
    assert.equal(await architectureOf(join(unpacked, "usr/lib/gateway/deno")), architecture);
  }
});
