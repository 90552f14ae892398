import assert from "node:assert/strict";
import { LogFolder } from "./audit_fixture.ts";

const WRITER = new URL("audit_writer.ts", import.meta.url).href;

/** Starts a writer that may touch the log's folder and nothing else. */
function startWriter(folder: LogFolder, firstSerial: number): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--no-prompt",
      "--quiet",
      `--allow-read=${folder.folder}`,
      `--allow-write=${folder.folder}`,
      WRITER,
      folder.path,
      String(firstSerial),
      "1000000",
    ],
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
}

/** Reads what was acknowledged; kills without warning after so many. */
async function acknowledgedUntilKilled(writer: Deno.ChildProcess, count: number): Promise<readonly string[]> {
  let text = "";
  let lines = 0;
  let killed = false;
  for await (const chunk of writer.stdout.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    lines += chunk.split("\n").length - 1;
    if (!killed && lines >= count) {
      writer.kill("SIGKILL");
      killed = true;
    }
  }
  assert.equal((await writer.status).signal, "SIGKILL");
  return text.split("\n").slice(0, -1);
}

Deno.test("kill -9 loses no acknowledged record, and the chain goes on", async () => {
  await using folder = new LogFolder();
  const acknowledged: string[] = [];
  for (const [round, count] of [1, 40, 333, 1000, 77, 512].entries()) {
    const writer = startWriter(folder, (round + 1) * 1_000_000);
    acknowledged.push(...await acknowledgedUntilKilled(writer, count));
  }
  await folder.write("the last");
  assert.deepEqual(await folder.problems(), []);
  const logs = folder.names().filter((name) => !name.includes(".corrupt-"));
  assert.ok(logs.length > 1, "the writers have rotated the log");
  const kept = new Set(logs.flatMap((name) => folder.records(name)).map(({ serial }) => String(serial)));
  assert.ok(acknowledged.length > 1900);
  assert.deepEqual(acknowledged.filter((serial) => !kept.has(serial)), []);
});
