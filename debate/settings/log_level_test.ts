import assert from "node:assert/strict";
import { LOG_LEVELS, writersFrom } from "./config.ts";

Deno.test.each(
  [
    { least: "DEBUG", logged: ["DEBUG", "INFO", "WARNING", "ERROR"] },
    { least: "INFO", logged: ["INFO", "WARNING", "ERROR"] },
    { least: "WARNING", logged: ["WARNING", "ERROR"] },
    { least: "ERROR", logged: ["ERROR"] },
  ] as const,
)("writersFrom() writes at $least and above", ({ least, logged }) => {
  const lines: string[] = [];
  const log = writersFrom(least, (line) => lines.push(line));
  for (const level of LOG_LEVELS) log[level](level);
  assert.deepEqual(lines, logged);
});
