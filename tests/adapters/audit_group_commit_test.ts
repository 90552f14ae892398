import assert from "node:assert/strict";
import { createAuditKey, GENESIS } from "@gateway/shared/audit";
import { GroupCommit, type RecordStore, SegmentedFile } from "../../shared/audit/log.ts";
import { openForAppend } from "../../shared/audit/files.ts";
import { LogFolder, SEED } from "./audit_fixture.ts";

/** A real file that counts what it is asked for. */
class CountedFile implements RecordStore {
  writes = 0;
  syncs = 0;
  readonly #file: SegmentedFile;

  constructor(file: SegmentedFile) {
    this.#file = file;
  }

  write(bytes: Uint8Array): Promise<void> {
    this.writes++;
    return this.#file.write(bytes);
  }

  sync(): Promise<void> {
    this.syncs++;
    return this.#file.sync();
  }

  size(): number {
    return this.#file.size();
  }

  truncate(size: number): Promise<void> {
    return this.#file.truncate(size);
  }

  rotate(): Promise<boolean> {
    return this.#file.rotate();
  }

  close(): void {
    this.#file.close();
  }
}

Deno.test("GroupCommit on a real file: sixteen appenders share writes and syncs", async () => {
  await using folder = new LogFolder();
  const clock = { now: () => 0, sleep: () => Promise.resolve() };
  const file = await openForAppend(folder.path);
  const store = new CountedFile(new SegmentedFile({ path: folder.path, file, clock }));
  const log = new GroupCommit({
    store,
    key: createAuditKey(SEED),
    head: GENESIS,
    size: 0,
    terminated: true,
    maxFileBytes: 1e9,
  });
  await Promise.all(Array.from({ length: 16 }, async () => {
    for (let index = 0; index < 20; index++) await log.append({ body: '{"outcome":"issued"', ext: "" });
  }));
  await log.close();
  assert.equal(folder.records().length, 320);
  assert.deepEqual([store.writes, store.syncs], [20, 20]);
  assert.deepEqual(await folder.problems(), []);
});
