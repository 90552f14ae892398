import assert from "node:assert/strict";
import { FakeClock } from "@gateway/shared/testing";
import { play } from "./replay.ts";

/** Two commands, with hostile output and a pause of an hour. */
async function* events() {
  yield* [
    [1, "i", "uptime\x1b]0;x\x07\n"] as [number, string, string],
    [2, "o", "up\x1b]52;c;QQ=="] as [number, string, string],
    [3, "e", "\x07\x1b[31m!\r\n"] as [number, string, string],
    [3600, "i", "id\n"] as [number, string, string],
    [5, "r", "80x24"] as [number, string, string],
    [4, "o", "end"] as [number, string, string],
  ];
}
const COMMAND = "\x1b[0;1m$ uptime\\x1b]0;x\\x07\x1b[0m\r\n";
const ALL = `${COMMAND}up\x1b[31m!\r\n\x1b[0;1m$ id\x1b[0m\r\nend\x1b[0m\r\n`;

function start(speed: number, columns?: number) {
  const shown: string[] = [];
  const clock = new FakeClock();
  const typed = Promise.withResolvers<string>();
  const terminal = { out: (text: string) => void shown.push(text), err: () => {}, columns };
  const keys = async function* (signal: AbortSignal) {
    signal.addEventListener("abort", () => typed.resolve(""));
    yield await typed.promise;
  };
  const playing = play(events(), speed, { terminal, keys, workingFolder: "", variables: {} }, clock);
  return { clock, playing, typed, shown: () => shown.join("") };
}

Deno.test.each<[speed: number, ms: number]>([[1, 5000], [4, 1250]])(
  "play() with speed %s takes %s ms, because a pause is at most 2 s",
  async (speed, ms) => {
    const { clock, playing, shown } = start(speed, 80);
    await clock.advance(ms - 1);
    assert.ok(!shown().includes("$ id"));
    await clock.advance(1);
    await playing;
    assert.equal(shown(), ALL);
  },
);

Deno.test("play() without a terminal has no pauses", async () => {
  const { playing, shown } = start(1);
  await playing;
  assert.equal(shown(), ALL);
});

Deno.test.each([["q", "q"], ["Ctrl-C", "\x03"]])(
  "%s ends play() and resets the colors",
  async (_name, key) => {
    const { clock, playing, typed, shown } = start(1, 80);
    await clock.advance(1000);
    typed.resolve(key);
    await playing;
    assert.equal(shown(), `${COMMAND}\x1b[0m\r\n`);
  },
);
