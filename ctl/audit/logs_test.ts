import assert from "node:assert/strict";
import { mergeByTime } from "./logs.ts";
import type { LogRecord } from "./record.ts";

/** A log; `x` is a line that is not a record. */
async function* logOf(...times: readonly string[]): AsyncGenerator<LogRecord | undefined> {
  for (const time of times) {
    await Promise.resolve();
    yield time === "x"
      ? undefined
      : { text: time, record: { time: `2026-01-02T03:04:${time}Z` } as LogRecord["record"] };
  }
}

Deno.test.each([
  {
    name: "one log as it is, also where its clock was set back",
    logs: [["03", "01", "02"]],
    merged: "03 01 02",
  },
  { name: "several by time", logs: [["01", "04"], ["02", "05"], ["03"]], merged: "01 02 03 04 05" },
  {
    name: "fractions of a second as numbers",
    logs: [["01.5"], ["01.25", "01.75"]],
    merged: "01.25 01.5 01.75",
  },
  { name: "those of one time in the order of the logs", logs: [["01", "01"], ["01"]], merged: "01 01 01" },
  {
    name: "lines that are not records at once",
    logs: [["02", "x", "03"], ["01", "x"]],
    merged: "01 x 02 x 03",
  },
  { name: "empty logs as nothing", logs: [[], []], merged: "" },
])("mergeByTime() takes $name", async ({ logs, merged }) => {
  const seen = await Array.fromAsync(
    mergeByTime(logs.map((times) => logOf(...times))),
    (record) => record?.text ?? "x",
  );
  assert.equal(seen.join(" "), merged);
});
