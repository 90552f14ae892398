import assert from "node:assert/strict";
import { FakeClock } from "@gateway/shared/testing";
import { createMetrics } from "@gateway/shared/service/metrics";
import { brokerConfig } from "../config/config.ts";
import { createRecordings, DISK_MS, type RecordingFile } from "./recorder.ts";

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
])("createRecordings() a recording $name counts once (K18)", async ({ createFile, reason }) => {
  const lenient = scene(false, createFile);
  assert.equal(await lenient.start(HEADER), undefined);
  assert.equal(lenient.failures.length, 1);

  const strict = scene(true, createFile);
  await assert.rejects(strict.start(HEADER), { message: `opening session recording: ${reason}` });
  assert.equal(strict.failures.length, 1);
});

Deno.test("createRecordings() gives up a disk on which no file comes about, and releases one that comes after all", async () => {
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

Deno.test("createRecordings() writes the session's header", async () => {
  const parts: string[] = [];
  const { start } = scene(true, () =>
    Promise.resolve({
      write: (bytes) => Promise.resolve(void parts.push(new TextDecoder().decode(bytes))),
      truncate: () => Promise.resolve(),
      close: () => Promise.resolve(),
    }));
  await (await start(HEADER))?.close();
  assert.equal(JSON.parse(parts.join("")).gateway.session_id, "a");
});
