import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { FakeClock } from "@gateway/shared/testing";
import { createRedactStreams } from "@gateway/shared/redact";
import { encodeHeader, Recorder, type RecorderOptions, type RecordingFile } from "./recorder.ts";

const HEADER = { sessionId: "s1", caller: "agent-1", host: "web01", serial: 7n, startedAt: 1_000_000 };
const FIRST_LINE = encodeHeader(HEADER);

/** A file in memory that can fail, after it has taken a part. */
class FakeFile implements RecordingFile {
  text = "";
  failing = false;
  /** A line that is torn stays. */
  uncuttable = false;
  closed = false;

  write(bytes: Uint8Array): Promise<void> {
    const text = new TextDecoder().decode(bytes);
    this.text += this.failing ? text.slice(0, 3) : text;
    return this.failing ? Promise.reject(new Deno.errors.WriteZero("no space")) : Promise.resolve();
  }

  truncate(size: number): Promise<void> {
    if (this.uncuttable) return Promise.reject(new Error("read-only"));
    this.text = new TextDecoder().decode(new TextEncoder().encode(this.text).slice(0, size));
    return Promise.resolve();
  }

  close(): Promise<void> {
    this.closed = true;
    return Promise.resolve();
  }
}

function setUp(options: Partial<RecorderOptions> = {}) {
  const file = new FakeFile();
  const clock = new FakeClock(HEADER.startedAt);
  const failures: unknown[] = [];
  const start = () =>
    Recorder.start({
      file,
      header: HEADER,
      clock,
      openRedaction: createRedactStreams(undefined),
      strict: false,
      onFailure: (error) => failures.push(error),
      ...options,
    });
  return { file, clock, failures, start };
}

Deno.test("Recorder writes header and events in the order of the calls, redacted, and none for nothing", async () => {
  const { file, clock, start } = setUp();
  const recorder = await start();
  await clock.advance(250);
  await Promise.all([
    recorder.input("TOKEN=hunter2\n"),
    recorder.output(""),
    recorder.output("ok\n"),
    recorder.error("warn\n"),
  ]);
  await recorder.close();
  assert.equal(
    file.text,
    `${FIRST_LINE}[0.25, "i", "TOKEN=[REDACTED:env-assignment]\\n"]\n[0.25, "o", "ok\\r\\n"]\n[0.25, "e", "warn\\r\\n"]\n`,
  );
  assert.equal(file.closed, true);
});

Deno.test("Recorder never goes back in time, whatever the clock does", async () => {
  const { file, clock, start } = setUp();
  const recorder = await start();
  await clock.advance(500);
  await recorder.output("a");
  await clock.advance(-300);
  await recorder.output("b");
  await recorder.close();
  assert.equal(file.text, `${FIRST_LINE}[0.5, "o", "a"]\n[0.5, "o", "b"]\n`);
});

Deno.test("Recorder gives the digest of what is in the file", async () => {
  const { file, start } = setUp();
  const recorder = await start();
  await recorder.output("ä\n");
  const summary = await recorder.close();
  assert.deepEqual(summary, {
    sha256: createHash("sha256").update(file.text).digest("hex"),
    bytes: new TextEncoder().encode(file.text).length,
    complete: true,
  });
  assert.equal(await recorder.close(), summary);
});

Deno.test("Recorder stops at its limit with a mark, also in strict mode without an error", async () => {
  const { file, failures, start } = setUp({ strict: true, maxBytes: FIRST_LINE.length + 40 });
  const recorder = await start();
  await recorder.output("a".repeat(10));
  await recorder.output("b".repeat(50));
  await recorder.output("c");
  const { complete } = await recorder.close();
  const lines = file.text.trimEnd().split("\n").slice(1);
  assert.equal(lines.length, 2);
  assert.match(lines[1] ?? "", /\[recording truncated: \d+-byte limit reached\]/);
  assert.equal(complete, false);
  assert.deepEqual(failures, []);
});

Deno.test("Recorder continues after a failed write, reports it, and leaves no torn line (K18)", async () => {
  const { file, failures, start } = setUp();
  const recorder = await start();
  file.failing = true;
  await recorder.output("lost\n");
  await recorder.error("lost too\n");
  file.failing = false;
  await recorder.output("kept\n");
  const { complete, sha256 } = await recorder.close();
  assert.equal(file.text, `${FIRST_LINE}[0, "o", "kept\\r\\n"]\n`);
  assert.equal(sha256, createHash("sha256").update(file.text).digest("hex"));
  assert.equal(complete, false);
  assert.equal(failures.length, 2);
});

Deno.test("Recorder cuts a torn line off when it is closed", async () => {
  const { file, start } = setUp();
  const recorder = await start();
  file.failing = true;
  await recorder.output("lost\n");
  await recorder.close();
  assert.equal(file.text, FIRST_LINE);
});

Deno.test("Recorder gives no digest of a file whose torn line stays, and releases it", async () => {
  const { file, failures, start } = setUp();
  const recorder = await start();
  file.failing = true;
  file.uncuttable = true;
  await recorder.output("lost\n");
  const { sha256, complete } = await recorder.close();
  assert.deepEqual([sha256, complete, file.closed, failures.length], [undefined, false, true, 2]);
});

Deno.test.each([{ strict: true }, { strict: false }])(
  "Recorder writes nothing more once it is being closed, because its digest is out by then (strict: $strict) (K17)",
  async ({ strict }) => {
    const { file, failures, start } = setUp({ strict });
    const recorder = await start();
    await recorder.output("in time\n");
    const closing = recorder.close();
    const late = recorder.output("late\n");
    if (strict) await assert.rejects(late, { code: "internal" });
    else await late;
    const { sha256, complete } = await closing;
    assert.equal(sha256, createHash("sha256").update(file.text).digest("hex"));
    assert.deepEqual([complete, failures.length, file.text.includes("late")], [false, 1, false]);
  },
);

Deno.test.each([
  { name: "input", record: (recorder: Recorder) => recorder.input("x\n") },
  { name: "output", record: (recorder: Recorder) => recorder.output("x\n") },
])("Recorder in strict mode rejects $name that is not in the file", async ({ record }) => {
  const { file, failures, start } = setUp({ strict: true });
  const recorder = await start();
  file.failing = true;
  await assert.rejects(record(recorder), {
    code: "internal",
    message: "session recording failed (strict mode): WriteZero",
  });
  assert.equal(failures.length, 1);
});

Deno.test("Recorder in strict mode counts an error stream that is not in the file, and continues", async () => {
  const { file, failures, start } = setUp({ strict: true });
  const recorder = await start();
  file.failing = true;
  await recorder.error("x\n");
  assert.equal(failures.length, 1);
});

Deno.test("Recorder.start() closes the file and rejects when there is no room for the header", async () => {
  const { file, start } = setUp();
  file.failing = true;
  await assert.rejects(start(), { name: "WriteZero" });
  assert.equal(file.closed, true);
});
