import assert from "node:assert/strict";
import { FakeClock } from "../testing/fake_clock.ts";
import { FRESH_SECONDS, keepFresh } from "./tls_files.ts";

Deno.test("keepFresh() takes what has changed and is sound, and says once what is not", async () => {
  const clock = new FakeClock();
  const stop = new AbortController();
  const lines: string[] = [];
  const logger = {
    info: (text: string) => void lines.push(`info ${text}`),
    warn: (text: string) => void lines.push(`warn ${text}`),
  };
  let found: string | Error = "a";
  const taken: string[] = [];
  const running = keepFresh({ clock, signal: stop.signal, logger, what: "it", current: { cert: "a" } }, {
    load: () => found instanceof Error ? Promise.reject(found) : Promise.resolve({ cert: found }),
    take: ({ cert }) => {
      if (cert === "refused") throw new Error("refused");
      taken.push(cert);
    },
  });
  for (const next of ["a", "b", "b", new Error("torn"), new Error("torn"), "refused", "refused", "b", "c"]) {
    found = next;
    await clock.advance(FRESH_SECONDS * 1000);
  }
  stop.abort();
  await running;
  assert.deepEqual(taken, ["b", "c"]);
  assert.deepEqual(lines, [
    "info it: what lies in its files now is in force",
    "warn it: its files are not taken",
    "warn it: its files are not taken",
    "info it: what lies in its files now is in force",
  ]);
});
