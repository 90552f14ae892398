import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { createRedactStreams } from "@gateway/shared/redact";
import { createRecordingFile, Recorder } from "../../broker/sessions/recorder.ts";

const SESSION = "0123456789abcdef01234567";

async function startRecorder(folder: string, strict = false) {
  const failures: unknown[] = [];
  const recorder = await Recorder.start({
    file: await createRecordingFile(folder, SESSION),
    header: {
      sessionId: SESSION,
      caller: "agent-1",
      host: "web01",
      serial: 18446744073709551615n,
      startedAt: systemClock.now(),
    },
    clock: systemClock,
    openRedaction: createRedactStreams(undefined),
    strict,
    onFailure: (error) => failures.push(error),
  });
  return { recorder, failures };
}

async function withFolder(run: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "recording-" });
  try {
    await run(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** What asciinema prints of a recording; undefined where it is not installed and need not be. */
async function play(path: string): Promise<string | undefined> {
  if (Deno.env.get("REQUIRE_REAL_SERVERS") !== "1" && !await isInstalled("asciinema")) return undefined;
  // It wants a terminal of its own, if only to look at it.
  const { success, stdout } = await new Deno.Command("script", {
    args: ["-qec", `asciinema cat '${path}' > '${path}.played'`, "/dev/null"],
    stdin: "null",
  }).output();
  assert.ok(success, new TextDecoder().decode(stdout));
  return await Deno.readTextFile(`${path}.played`);
}

async function isInstalled(program: string): Promise<boolean> {
  return (await new Deno.Command("sh", { args: ["-c", `command -v ${program}`], stdout: "null" }).output())
    .success;
}

Deno.test("a recording plays in asciinema, and its digest is that of the file", async () => {
  await withFolder(async (folder) => {
    const { recorder } = await startRecorder(folder);
    await recorder.input("echo ä\n");
    await recorder.output("ä \u001b[31mred\u001b[0m\r\n");
    await recorder.output("last");
    const { sha256, bytes, complete } = await recorder.close();
    const path = join(folder, `${SESSION}.cast`);
    const content = await Deno.readFile(path);
    assert.equal(complete, true);
    assert.equal(bytes, content.length);
    assert.equal(sha256, createHash("sha256").update(content).digest("hex"));
    assert.equal((await Deno.stat(path)).mode! & 0o777, 0o600);
    const played = await play(path);
    if (played !== undefined) assert.equal(played, "ä \u001b[31mred\u001b[0m\r\nlast");
  });
});

Deno.test("a recording is never overwritten", async () => {
  await withFolder(async (folder) => {
    const { recorder } = await startRecorder(folder);
    await recorder.close();
    await assert.rejects(startRecorder(folder), Deno.errors.AlreadyExists);
  });
});

Deno.test("a recording whose folder is not there can't start", async () => {
  await withFolder(async (folder) => {
    await assert.rejects(startRecorder(join(folder, "none")), Deno.errors.NotFound);
  });
});
