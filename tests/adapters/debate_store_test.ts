import { AppError } from "@gateway/shared/errors";
import assert from "node:assert/strict";
import { readRuns } from "../../debate/cli/runs_commands.ts";
import { openDiskFolder } from "../../debate/runs/disk_folder.ts";

async function withFolder(test: (path: string) => Promise<void>): Promise<void> {
  const path = await Deno.makeTempDir();
  try {
    await test(path);
  } finally {
    await Deno.remove(path, { recursive: true });
  }
}

const encode = (text: string) => new TextEncoder().encode(text);

Deno.test("the folder of run records is made, and readable by nobody else", () =>
  withFolder(async (path) => {
    const folder = await openDiskFolder(`${path}/a/b`);
    await folder.write("x.json", encode("{}"));
    await folder.append("x.jsonl", encode("1\n"));
    await folder.append("x.jsonl", encode("2\n"));
    assert.equal(((await Deno.stat(`${path}/a/b`)).mode ?? 0) & 0o777, 0o700);
    for (const name of ["x.json", "x.jsonl"]) {
      assert.equal(((await Deno.stat(`${path}/a/b/${name}`)).mode ?? 0) & 0o777, 0o600);
    }
    assert.equal(await Deno.readTextFile(`${path}/a/b/x.jsonl`), "1\n2\n");
    assert.deepEqual([...await folder.names()].toSorted(), [".lock", "x.json", "x.jsonl"]);
    await folder.close();
  }));

Deno.test("readEnds() gives both ends of a file, and nothing of none", () =>
  withFolder(async (path) => {
    const folder = await openDiskFolder(path);
    await folder.write("x", encode(`${"a".repeat(100)}${"b".repeat(100)}`));
    const ends = await folder.readEnds("x", 10);
    assert.equal(new TextDecoder().decode(ends?.head), "a".repeat(10));
    assert.equal(new TextDecoder().decode(ends?.tail), "b".repeat(16));
    await folder.write("empty", encode(""));
    assert.equal((await folder.readEnds("empty", 10))?.head.length, 0);
    assert.equal(await folder.readEnds("none", 10), undefined);
    assert.equal(await folder.read("none"), undefined);
    await folder.remove("none");
    await folder.close();
  }));

Deno.test("a second server on the same folder is refused until the first has closed it", () =>
  withFolder(async (path) => {
    const folder = await openDiskFolder(path);
    await assert.rejects(
      openDiskFolder(path),
      (error) => error instanceof AppError && /another server is using it/.test(error.message),
    );
    await folder.close();
    await (await openDiskFolder(path)).close();
  }));

Deno.test("no name leads out of the folder", () =>
  withFolder(async (path) => {
    const folder = await openDiskFolder(path);
    for (const name of ["../x", "a/b", "..", ""]) {
      assert.throws(() => folder.write(name, encode("x")), TypeError);
    }
    await folder.close();
  }));

Deno.test("a folder that cannot be used is said", () =>
  withFolder(async (path) => {
    await Deno.writeTextFile(`${path}/file`, "");
    await assert.rejects(
      openDiskFolder(`${path}/file/runs`),
      (error) => error instanceof AppError && /^Cannot use DATA_DIR ".*": /.test(error.message),
    );
  }));

Deno.test("the list of the command line reads the beginning of a file, and no more", () =>
  withFolder(async (path) => {
    const [early, late] = ["a", "b"].map((digit) => digit.repeat(32));
    const head = (time: string) =>
      `{\n  "topic": "it hangs",\n  "timestamp": "${time}",\n  "status": "completed"`;
    // Whoever reads on finds that it is damaged.
    await Deno.writeTextFile(`${path}/${early}.json`, `${head("2026-01-01T00:00:00Z")},\n  "context": "…}`);
    await Deno.writeTextFile(`${path}/${late}.json`, `${head("2026-01-02T00:00:00Z")}\n}\n`);
    await Deno.writeTextFile(`${path}/${"c".repeat(32)}.json`, "{");
    const runs = await readRuns(path);
    assert.deepEqual(runs.map(({ run_id, topic, status }) => [run_id, topic, status]), [
      [late, "it hangs", "completed"],
      [early, "it hangs", "completed"],
    ]);
  }));
