import assert from "node:assert/strict";
import { FixedRandom } from "@gateway/shared/testing";
import { createFrame, encodeCommand, encodeStart } from "./shell_protocol.ts";

const FRAME = { begin: "__BRK_a__", end: "__BRK_b__" };

Deno.test("createFrame() makes two different words of 128 bits", () => {
  const { begin, end } = createFrame(new FixedRandom());
  assert.match(begin, /^__BRK_[0-9a-f]{32}__$/);
  assert.match(end, /^__BRK_[0-9a-f]{32}__$/);
  assert.notEqual(begin, end);
});

Deno.test("encodeStart() is one line, and only a terminal is set up", () => {
  for (const mode of ["shell", "pty"] as const) assert.match(encodeStart(FRAME, mode), /^[^\n]+\n$/);
  assert.doesNotMatch(encodeStart(FRAME, "shell"), /stty/);
  assert.match(encodeStart(FRAME, "pty"), /^stty -echo -icanon -ixon /);
});

Deno.test("encodeCommand() quotes the command as one word and clears the variable that held the frame", () => {
  const line = encodeCommand(`echo 'a'; "`, FRAME, "shell");
  assert.ok(line.startsWith("gateway_line=; "));
  assert.ok(
    line.includes(`\\command \\eval 'echo '\\''a'\\''; "' </dev/null 6>&- 7>&-; gateway_code=$?; done; `),
  );
  assert.equal(line.split("\n").length, 2);
});

Deno.test("encodeCommand() frames both streams of a shell, and the one of a terminal", () => {
  const count = (text: string) => text.split("__BRK_b__").length - 1;
  // Each print has a fallback.
  assert.equal(count(encodeCommand("true", FRAME, "shell")), 4);
  assert.equal(count(encodeCommand("true", FRAME, "pty")), 2);
});
