import assert from "node:assert/strict";

const SCRIPT = `
import { waitForStop } from "@gateway/shared/service";
const stopped = waitForStop();
console.log("ready");
console.log(await stopped);
`;

Deno.test.each([{ signal: "SIGTERM" as const }, { signal: "SIGINT" as const }])(
  "waitForStop() ends the wait of a process that gets $signal",
  async ({ signal }) => {
    const root = new URL("../../", import.meta.url);
    await using child = new Deno.Command(Deno.execPath(), {
      args: ["eval", SCRIPT],
      cwd: root,
      stdout: "piped",
      stderr: "null",
    }).spawn();
    let output = "";
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      output += text;
      if (output === "ready\n") child.kill(signal);
    }
    assert.equal(output, `ready\n${signal}\n`);
    assert.equal((await child.status).code, 0);
  },
);
