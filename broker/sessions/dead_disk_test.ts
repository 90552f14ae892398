import assert from "node:assert/strict";
import { FakeClock } from "@gateway/shared/testing";
import { createRedactStreams } from "@gateway/shared/redact";
import { DISK_MS, Recorder, type RecordingFile } from "./recorder.ts";

type Step = keyof RecordingFile;

/** A file whose disk stops answering at one step. */
class HangingFile implements RecordingFile {
  readonly asked: Step[] = [];
  hangsAt: Step | undefined;
  readonly answer = Promise.withResolvers<void>();

  write(): Promise<void> {
    return this.#ask("write");
  }
  truncate(): Promise<void> {
    return this.#ask("truncate");
  }
  close(): Promise<void> {
    return this.#ask("close");
  }

  #ask(step: Step): Promise<void> {
    this.asked.push(step);
    return step === this.hangsAt ? this.answer.promise : Promise.resolve();
  }
}

async function startRecorder(strict = false) {
  const file = new HangingFile();
  const clock = new FakeClock();
  const failures: unknown[] = [];
  const recorder = await Recorder.start({
    file,
    header: { sessionId: "s1", caller: "agent-1", host: "web01", serial: 7n, startedAt: clock.now() },
    clock,
    openRedaction: createRedactStreams(undefined),
    strict,
    onFailure: (error) => failures.push(error),
  });
  file.asked.length = 0;
  return { recorder, file, clock, failures };
}

Deno.test("Recorder.close() gives up a disk that does not answer, and knows no digest then (K18)", async () => {
  const { recorder, file, clock, failures } = await startRecorder();
  file.hangsAt = "close";
  let closed = false;
  const closing = recorder.close().finally(() => closed = true);
  await clock.advance(DISK_MS - 1);
  assert.equal(closed, false);
  await clock.advance(1);
  const { sha256, complete } = await closing;
  assert.deepEqual([sha256, complete, failures.length], [undefined, false, 1]);
  assert.equal(clock.sleeping, 0);
});

Deno.test("Recorder lets go of whoever waits for a write, and asks a disk that is dead for nothing more", async () => {
  const { recorder, file, clock, failures } = await startRecorder();
  file.hangsAt = "write";
  const [output, next] = [recorder.output("a\n"), recorder.error("b\n")];
  const closing = recorder.close();
  await clock.advance(DISK_MS);
  await Promise.all([output, next]);
  const { sha256, complete } = await closing;
  assert.deepEqual([sha256, complete, file.asked], [undefined, false, ["write"]]);
  assert.ok(failures.length >= 2);

  file.answer.resolve();
  await clock.advance(0);
  assert.deepEqual(file.asked, ["write", "close"], "the file is released");
});

Deno.test("Recorder in strict mode rejects what a dead disk does not take", async () => {
  const { recorder, file, clock } = await startRecorder(true);
  file.hangsAt = "write";
  const rejected = assert.rejects(recorder.input("a\n"), {
    code: "internal",
    message: "session recording failed (strict mode): TimeoutError",
  });
  await clock.advance(DISK_MS);
  await rejected;
  await assert.rejects(recorder.input("b\n"), { code: "internal" });
  assert.deepEqual(file.asked, ["write"]);
});

Deno.test("Recorder.start() gives up a disk that does not answer", async () => {
  const clock = new FakeClock();
  const file = new HangingFile();
  file.hangsAt = "write";
  const starting = Recorder.start({
    file,
    header: { sessionId: "s1", caller: "agent-1", host: "web01", serial: 7n, startedAt: clock.now() },
    clock,
    openRedaction: createRedactStreams(undefined),
    strict: false,
    onFailure: () => {},
  });
  const rejected = assert.rejects(starting, { name: "TimeoutError" });
  await clock.advance(DISK_MS);
  await rejected;
});
