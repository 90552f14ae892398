import assert from "node:assert/strict";
import { FakeClock } from "@gateway/shared/testing";
import { createMetrics } from "@gateway/shared/service/metrics";
import { brokerConfig } from "../config/config.ts";
import {
  createRecordings,
  DISK_MS,
  encodeEvent,
  encodeHeader,
  Recorder,
  type RecorderOptions,
  type RecordingFile,
  RedactingDecoder,
} from "./recorder.ts";
import { createHash } from "node:crypto";
import { createRedactStreams } from "@gateway/shared/redact";

const HEADER = { sessionId: "a", caller: "alice", host: "web01", serial: 1n, startedAt: 0 };

function scene(strict: boolean, createFile: (id: string) => Promise<RecordingFile>) {
  const failures: unknown[] = [];
  const clock = new FakeClock();
  const start = createRecordings(
    brokerConfig.parse({
      ...{ audit_log: "audit.log", audit_key: "seed", ca_key: "ca", hosts: {} },
      ...{ session_recording_dir: "/recordings", session_recording_strict: strict },
    }),
    {
      clock,
      metrics: createMetrics(),
      logger: { warn: (_message, fields) => failures.push(fields?.["error"]) },
    },
    (_directory, id) => createFile(id),
  );
  assert.ok(start !== undefined);
  return { start, failures, clock };
}

const noFolder = () => Promise.reject(new Deno.errors.NotFound("/secret/path"));
const fullDisk = (): Promise<RecordingFile> =>
  Promise.resolve({
    write: () => Promise.reject(new Error("no space left")),
    truncate: () => Promise.resolve(),
    close: () => Promise.resolve(),
  });

Deno.test.each([
  { name: "whose file can't be created", createFile: noFolder, reason: "NotFound" },
  { name: "whose header can't be written", createFile: fullDisk, reason: "Error" },
])("createRecordings() counts a recording $name as one failure (K18)", async ({ createFile, reason }) => {
  const lenient = scene(false, createFile);
  assert.equal(await lenient.start(HEADER), undefined);
  assert.equal(lenient.failures.length, 1);

  const strict = scene(true, createFile);
  await assert.rejects(strict.start(HEADER), { message: `opening session recording: ${reason}` });
  assert.equal(strict.failures.length, 1);
});

Deno.test("createRecordings() fails if the disk hangs and closes a file that opens late", async () => {
  const creating = Promise.withResolvers<RecordingFile>();
  const { start, failures, clock } = scene(true, () => creating.promise);
  const rejected = assert.rejects(start(HEADER), { message: "opening session recording: TimeoutError" });
  await clock.advance(DISK_MS);
  await rejected;
  assert.equal(failures.length, 1);

  const file = await fullDisk();
  const closed = Promise.withResolvers<void>();
  creating.resolve({ ...file, close: () => Promise.resolve(closed.resolve()) });
  await closed.promise;
});

const HEADER_ASCIICAST = {
  sessionId: "0123456789abcdef01234567",
  caller: "agent-1",
  host: "web01",
  serial: 18446744073709551615n,
  startedAt: Date.UTC(2026, 0, 2, 3, 4, 5, 678),
};

Deno.test("encodeHeader() returns an asciicast v2 header with the exact serial", () => {
  assert.equal(
    encodeHeader(HEADER_ASCIICAST),
    '{"version":2,"width":220,"height":40,"timestamp":1767323045,' +
      '"title":"session 0123456789abcdef01234567 — agent-1@web01","env":{"TERM":"xterm-256color"},' +
      '"gateway":{"session_id":"0123456789abcdef01234567","caller":"agent-1","host":"web01",' +
      '"serial":18446744073709551615,"started_at":"2026-01-02T03:04:05Z"}}\n',
  );
});

Deno.test.each([
  ["writes seconds", 1500, "a\n", '[1.5, "o", "a\\r\\n"]\n'],
  ["keeps the line breaks of a terminal", 0, "a\r\n\rb", '[0, "o", "a\\r\\n\\rb"]\n'],
  ["starts at zero", 0, "a", '[0, "o", "a"]\n'],
  ["escapes controls", 1, "\u001b[31m\u0000", '[0.001, "o", "\\u001b[31m\\u0000"]\n'],
  ["replaces lone surrogates", 1, "a\ud800b", '[0.001, "o", "a\ufffdb"]\n'],
])("encodeEvent() %s", (_name, elapsed, data, line) => {
  assert.equal(encodeEvent(elapsed, "o", data), line);
});

const HEADER_RECORDER = {
  sessionId: "s1",
  caller: "agent-1",
  host: "web01",
  serial: 7n,
  startedAt: 1_000_000,
};
const FIRST_LINE = encodeHeader(HEADER_RECORDER);

/** A file in memory that can fail after a partial write. */
class FakeFile implements RecordingFile {
  text = "";
  failing = false;
  /** While true, an incomplete line cannot be truncated. */
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
  const clock = new FakeClock(HEADER_RECORDER.startedAt);
  const failures: unknown[] = [];
  const start = () =>
    Recorder.start({
      file,
      header: HEADER_RECORDER,
      clock,
      openRedaction: createRedactStreams(undefined),
      strict: false,
      onFailure: (error) => failures.push(error),
      ...options,
    });
  return { file, clock, failures, start };
}

Deno.test("Recorder writes redacted events in call order and skips empty events", async () => {
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

Deno.test("Recorder writes no decreasing times if the clock is set back", async () => {
  const { file, clock, start } = setUp();
  const recorder = await start();
  await clock.advance(500);
  await recorder.output("a");
  await clock.advance(-300);
  await recorder.output("b");
  await recorder.close();
  assert.equal(file.text, `${FIRST_LINE}[0.5, "o", "a"]\n[0.5, "o", "b"]\n`);
});

Deno.test("Recorder stops at its size limit with a mark and without an error in strict mode", async () => {
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

Deno.test("Recorder continues after a failed write, reports it and keeps no partial line (K18)", async () => {
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

Deno.test("Recorder removes a partial line when it closes", async () => {
  const { file, start } = setUp();
  const recorder = await start();
  file.failing = true;
  await recorder.output("lost\n");
  await recorder.close();
  assert.equal(file.text, FIRST_LINE);
});

Deno.test("Recorder returns no digest for a file with a partial line and closes the file", async () => {
  const { file, failures, start } = setUp();
  const recorder = await start();
  file.failing = true;
  file.uncuttable = true;
  await recorder.output("lost\n");
  const { sha256, complete } = await recorder.close();
  assert.deepEqual([sha256, complete, file.closed, failures.length], [undefined, false, true, 2]);
});

Deno.test.each([{ strict: true }, { strict: false }])(
  "Recorder writes nothing after close() has started (strict: $strict) (K17)",
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
])("Recorder in strict mode rejects $name that it cannot write", async ({ record }) => {
  const { file, failures, start } = setUp({ strict: true });
  const recorder = await start();
  file.failing = true;
  await assert.rejects(record(recorder), {
    code: "internal",
    message: "session recording failed (strict mode): WriteZero",
  });
  assert.equal(failures.length, 1);
});

Deno.test("Recorder in strict mode counts an unwritten error stream event and continues", async () => {
  const { file, failures, start } = setUp({ strict: true });
  const recorder = await start();
  file.failing = true;
  await recorder.error("x\n");
  assert.equal(failures.length, 1);
});

Deno.test("Recorder.start() closes the file and fails if it cannot write the header", async () => {
  const { file, start } = setUp();
  file.failing = true;
  await assert.rejects(start(), { name: "WriteZero" });
  assert.equal(file.closed, true);
});

const open = createRedactStreams(undefined);

async function tapped(chunks: readonly Uint8Array[], maxBytes = 1_000_000): Promise<readonly string[]> {
  const texts: string[] = [];
  const write = (text: string) => Promise.resolve(void texts.push(text));
  const tap = new RedactingDecoder({ openRedaction: open, output: write, error: write }, "stdout", maxBytes);
  for (const chunk of chunks) tap.push(chunk);
  await tap.end("");
  return texts;
}

const bytes = (text: string) => new TextEncoder().encode(text);

Deno.test("RedactingDecoder writes whole lines and the rest at the end", async () => {
  assert.deepEqual(await tapped([bytes("a\nb"), bytes("c\nd\ne")]), ["a\n", "bc\nd\n", "e"]);
});

Deno.test("RedactingDecoder keeps a character that spans two packets", async () => {
  const euro = bytes("€\n");
  assert.deepEqual(await tapped([euro.subarray(0, 1), euro.subarray(1)]), ["€\n"]);
});

Deno.test("RedactingDecoder drops text above its limit and the truncated word", async () => {
  assert.deepEqual(await tapped([bytes("ab c"), bytes("def")], 6), ["ab "]);
  assert.deepEqual(await tapped([bytes("ab "), bytes("c")], 4), ["ab c"]);
});

Deno.test("RedactingDecoder.end() fails with the first write error", async () => {
  let count = 0;
  const write = () => Promise.reject(new Error(`no ${count += 1}`));
  const tap = new RedactingDecoder({ openRedaction: open, output: write, error: write }, "stdout", 100);
  tap.push(bytes("a\nb"));
  await assert.rejects(tap.end(""), { message: "no 1" });
});
