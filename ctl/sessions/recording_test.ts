import assert from "node:assert/strict";
import { FakeClock } from "@gateway/shared/testing";
import { play } from "./recording.ts";

/** Two commands, with hostile output and a pause of an hour. */
async function* events() {
  yield* [
    { seconds: 1, type: "i", data: "uptime\x1b]0;x\x07\n" },
    { seconds: 2, type: "o", data: "up\x1b]52;c;QQ==" },
    { seconds: 3, type: "e", data: "\x07\x1b[31m!\r\n" },
    { seconds: 3600, type: "i", data: "id\n" },
    { seconds: 5, type: "r", data: "80x24" },
    { seconds: 4, type: "o", data: "end" },
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

Deno.test.each<[speed: number, ms: number]>([[1, 5000], [4, 1250], [0.5, 10_000]])(
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
