import assert from "node:assert/strict";
import type { AuditLog } from "@gateway/shared/audit";
import { AppError } from "@gateway/shared/errors";
import { LogFolder } from "./audit_fixture.ts";

/** What somebody does to the log of a running service, and how it is put right again. */
const CHANGES: readonly {
  readonly name: string;
  readonly change: (path: string) => void;
  readonly mend?: (path: string) => void;
  readonly fault: string;
}[] = [
  {
    name: "moved away",
    change: (path) => Deno.renameSync(path, `${path}.away`),
    mend: (path) => Deno.renameSync(`${path}.away`, path),
    fault: "it was removed or moved while the service runs",
  },
  {
    name: "removed",
    change: (path) => Deno.removeSync(path),
    fault: "it was removed or moved while the service runs",
  },
  {
    name: "replaced by a copy",
    change(path) {
      Deno.renameSync(path, `${path}.away`);
      Deno.copyFileSync(`${path}.away`, path);
    },
    mend: (path) => Deno.renameSync(`${path}.away`, path),
    fault: "another file is in its place",
  },
  {
    name: "emptied",
    change: (path) => Deno.truncateSync(path),
    fault: "it is shorter than what was written to it",
  },
  {
    name: "cut by one byte",
    change: (path) => Deno.truncateSync(path, Deno.statSync(path).size - 1),
    fault: "it is shorter than what was written to it",
  },
  {
    name: "written to by another process",
    change: (path) => Deno.writeTextFileSync(path, '{"outcome":"forged"}\n', { append: true }),
    mend: (path) => Deno.truncateSync(path, Deno.statSync(path).size - '{"outcome":"forged"}\n'.length),
    fault: "it has bytes that this process did not write",
  },
];

const faultOf = (run: () => unknown) => {
  try {
    run();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return undefined;
};

async function assertRefused(log: AuditLog, cause: string): Promise<void> {
  await assert.rejects(log.append({ outcome: "issued" }), (error: unknown) => {
    assert.ok(error instanceof AppError && error.cause instanceof Error);
    assert.deepEqual([error.code, error.cause.message], ["audit_unavailable", cause]);
    return true;
  });
}

Deno.test.each(CHANGES)(
  "a log that is $name takes no record, and says what happened",
  async ({ change, mend, fault }) => {
    await using folder = new LogFolder();
    const log = await folder.open();
    await log.append({ outcome: "issued" });
    assert.equal(faultOf(() => log.check()), undefined);
    change(folder.path);
    const after = folder.names();
    assert.equal(faultOf(() => log.check()), fault);
    await assertRefused(log, fault);
    assert.deepEqual(folder.names(), after, "nothing is made in its place");
    if (mend !== undefined) {
      mend(folder.path);
      assert.equal(faultOf(() => log.check()), undefined);
      await log.append({ outcome: "denied" });
      assert.deepEqual(await folder.problems(), []);
    }
    await log.close();
  },
);
