import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { endOfTurn } from "../clock.ts";
import { AppError } from "../errors.ts";
import { createAuditKey, GENESIS, hashLine, parseLine } from "./record.ts";
import { type ChainProblem, checkLog } from "./verify.ts";
import { GroupCommit, type GroupCommitOptions, type RecordStore } from "./log.ts";

const KEY = createAuditKey(new Uint8Array(32).fill(7));

/** A disk in memory that counts operations and can be made to fail. */
class FakeDisk implements RecordStore {
  files: Uint8Array[] = [new Uint8Array(0)];
  durableBytes = 0;
  writes = 0;
  syncs = 0;
  looks = 0;
  closed = false;
  failWriteAfter: number | undefined;
  /** The number of syncs that fail from now on. */
  failSyncs = 0;
  failTruncate = false;
  mayRotate = true;
  /** The reason why the file is not at its path. */
  gone: string | undefined;
  /** While set, a sync waits for this promise. */
  hold: Promise<void> | undefined;

  get active(): Uint8Array {
    return this.files.at(-1)!;
  }

  set active(bytes: Uint8Array) {
    this.files[this.files.length - 1] = bytes;
  }

  async write(bytes: Uint8Array): Promise<void> {
    await Promise.resolve();
    this.writes++;
    const room = this.failWriteAfter ?? bytes.length;
    this.active = Buffer.concat([this.active, bytes.subarray(0, room)]);
    if (room < bytes.length) throw new Error("no space left on device");
  }

  async sync(): Promise<void> {
    await this.hold;
    this.syncs++;
    if (this.failSyncs-- > 0) throw new Error("input/output error");
    this.durableBytes = this.active.length;
  }

  size(): number {
    this.looks++;
    if (this.gone !== undefined) throw new Error(this.gone);
    return this.active.length;
  }

  async truncate(size: number): Promise<void> {
    await Promise.resolve();
    if (this.failTruncate) throw new Error("read-only file system");
    this.active = this.active.subarray(0, size);
  }

  async rotate(): Promise<boolean> {
    await Promise.resolve();
    if (this.mayRotate) this.files.push(new Uint8Array(0));
    return this.mayRotate;
  }

  close(): void {
    this.closed = true;
  }
}

function setUp(options: Partial<GroupCommitOptions> = {}) {
  const disk = new FakeDisk();
  const fresh = { key: KEY, head: GENESIS, size: 0, terminated: true, maxFileBytes: 1e9 };
  return { disk, log: new GroupCommit({ store: disk, ...fresh, ...options }) };
}

const body = (outcome: string) => ({ body: `{"outcome":"${outcome}"`, ext: '{"request_id":"r-1"}' });

async function problemsOf(disk: FakeDisk): Promise<readonly ChainProblem[]> {
  const problems: ChainProblem[] = [];
  let expectedHash = "";
  for (const file of disk.files) {
    const result = await checkLog([file], {
      publicKey: KEY.publicKey,
      expectedHash,
      onProblem: (problem) => problems.push(problem),
    });
    expectedHash = result.lastHash ?? expectedHash;
  }
  return problems;
}

function outcomesOf(file: Uint8Array): readonly string[] {
  return Buffer.from(file).toString().split("\n").filter((line) => line !== "").map((line) =>
    JSON.parse(line).outcome
  );
}

const isUnavailable = (cause: string) => (error: unknown) =>
  error instanceof AppError && error.code === "audit_unavailable" && error.message === "audit unavailable" &&
  error.cause instanceof Error && error.cause.message === cause;

Deno.test("GroupCommit.append() batches concurrent appends into one stat, one write and one sync, in call order", async () => {
  const { disk, log } = setUp();
  const names = Array.from({ length: 50 }, (_, index) => `r${index}`);
  await Promise.all(names.map((name) => log.append(body(name))));
  assert.deepEqual([disk.looks, disk.writes, disk.syncs], [1, 1, 1]);
  assert.deepEqual(outcomesOf(disk.active), names);
  assert.deepEqual(await problemsOf(disk), []);
});

Deno.test("GroupCommit.append() batches sequential appends of one event-loop turn into one write and one sync", async () => {
  const { disk, log } = setUp();
  const appends: Promise<void>[] = [];
  for (let request = 0; request < 50; request++) {
    appends.push(log.append(body(`r${request}`)));
    await Promise.resolve();
  }
  await Promise.all(appends);
  assert.deepEqual([disk.looks, disk.writes, disk.syncs], [1, 1, 1]);
});

Deno.test("GroupCommit.append() acknowledges a record only after the sync (L16)", async () => {
  const { disk, log } = setUp();
  const { promise, resolve } = Promise.withResolvers<void>();
  disk.hold = promise;
  const acknowledged: string[] = [];
  const appends = ["a", "b"].map((name) => log.append(body(name)).then(() => acknowledged.push(name)));
  while (disk.writes === 0) await endOfTurn();
  // Appended while the disk is busy, so it belongs to the next group.
  appends.push(log.append(body("c")).then(() => acknowledged.push("c")));
  for (let turn = 0; turn < 100; turn++) await endOfTurn();
  assert.deepEqual(acknowledged, []);
  assert.equal(disk.durableBytes, 0);
  resolve();
  await Promise.all(appends);
  assert.deepEqual(acknowledged, ["a", "b", "c"]);
  assert.deepEqual([disk.writes, disk.syncs], [2, 2]);
  assert.equal(disk.durableBytes, disk.active.length);
});

Deno.test.each([
  ["a partial write (L19)", { failWriteAfter: 100 }, "no space left on device"],
  ["a write that wrote no bytes", { failWriteAfter: 0 }, "no space left on device"],
  ["a sync that failed after a whole write (L12)", { failSyncs: 1 }, "input/output error"],
])("GroupCommit.append() truncates to the last record after %s and recovers", async (_name, fault, cause) => {
  const { disk, log } = setUp();
  await log.append(body("before"));
  const good = Buffer.from(disk.active);
  Object.assign(disk, fault);
  const results = await Promise.allSettled(["x", "y", "z"].map((name) => log.append(body(name))));
  for (const result of results) {
    assert.equal(result.status, "rejected");
    assert.ok(isUnavailable(cause)(result.reason));
  }
  assert.deepEqual(Buffer.from(disk.active), good);
  Object.assign(disk, { failWriteAfter: undefined });
  await log.append(body("after"));
  assert.deepEqual(outcomesOf(disk.active), ["before", "after"]);
  assert.deepEqual(await problemsOf(disk), []);
});

Deno.test("GroupCommit.append() repairs a tail that could not be truncated before the next write (L19)", async () => {
  const { disk, log } = setUp();
  await log.append(body("before"));
  Object.assign(disk, { failWriteAfter: 40, failTruncate: true });
  await assert.rejects(log.append(body("x")), isUnavailable("no space left on device"));
  const dirty = disk.active.length;
  disk.failWriteAfter = undefined;
  const writes = disk.writes;
  await assert.rejects(log.append(body("y")), isUnavailable("read-only file system"));
  assert.equal(disk.writes, writes, "nothing may be written after the half record");
  assert.equal(disk.active.length, dirty);
  disk.failTruncate = false;
  await log.append(body("after"));
  assert.deepEqual(outcomesOf(disk.active), ["before", "after"]);
  assert.deepEqual(await problemsOf(disk), []);
});

Deno.test("GroupCommit.append() rejects a group whose sync fails and writes the next group", async () => {
  const { disk, log } = setUp();
  const { promise, resolve } = Promise.withResolvers<void>();
  disk.hold = promise;
  disk.failSyncs = 1;
  const lost = assert.rejects(log.append(body("lost")), isUnavailable("input/output error"));
  while (disk.writes === 0) await endOfTurn();
  const kept = ["a", "b"].map((name) => log.append(body(name)));
  resolve();
  await Promise.all([lost, ...kept]);
  assert.deepEqual(outcomesOf(disk.active), ["a", "b"]);
  assert.deepEqual(await problemsOf(disk), []);
  assert.equal(parseLine(Buffer.from(Buffer.from(disk.active).toString().split("\n")[0]!))?.seq, 1n);
});

Deno.test("GroupCommit.append() continues in the old file while rotation fails (L20)", async () => {
  const { disk, log } = setUp({ maxFileBytes: 300 });
  disk.mayRotate = false;
  for (const name of ["a", "b", "c"]) await log.append(body(name));
  assert.deepEqual(disk.files.map(outcomesOf), [["a", "b", "c"]]);
  disk.mayRotate = true;
  await log.append(body("d"));
  assert.deepEqual(disk.files.map(outcomesOf), [["a", "b", "c"], ["d"]]);
  assert.deepEqual(await problemsOf(disk), []);
});

Deno.test("GroupCommit.append() inserts a newline after a record that lacks one", async () => {
  const first = setUp();
  await first.log.append(body("a"));
  const unterminated = first.disk.active.subarray(0, -1);
  const line = Buffer.from(unterminated);
  const head = { seq: 1, hash: hashLine(line) };
  const { disk, log } = setUp({ head, size: unterminated.length, terminated: false });
  disk.active = unterminated;
  disk.failSyncs = 1;
  await assert.rejects(log.append(body("lost")));
  assert.deepEqual(disk.active, unterminated);
  await log.append(body("b"));
  await log.append(body("c"));
  assert.deepEqual(outcomesOf(disk.active), ["a", "b", "c"]);
  assert.doesNotMatch(Buffer.from(disk.active).toString(), /\n\n/);
  assert.deepEqual(await problemsOf(disk), []);
});

Deno.test("GroupCommit.check() reports no defect while a group is being written", async () => {
  const { disk, log } = setUp();
  const held = Promise.withResolvers<void>();
  disk.hold = held.promise;
  const appended = log.append(body("held"));
  while (disk.active.length === 0) await endOfTurn();
  log.check();
  held.resolve();
  await appended;
  log.check();
});

Deno.test("GroupCommit.check() reports no defect while the file is being rotated", async () => {
  const { disk, log } = setUp({ maxFileBytes: 1 });
  await log.append(body("first"));
  const held = Promise.withResolvers<void>();
  const rotate = disk.rotate.bind(disk);
  disk.rotate = async () => {
    disk.gone = "it was removed or moved while the service was running";
    await held.promise;
    disk.gone = undefined;
    return await rotate();
  };
  const second = log.append(body("second"));
  while (disk.gone === undefined) await endOfTurn();
  log.check();
  held.resolve();
  await second;
  log.check();
  assert.deepEqual(await problemsOf(disk), []);
});
