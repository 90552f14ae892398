import assert from "node:assert/strict";
import { freePort } from "./free_port.ts";

const PROGRAM = `
  import { freePort } from "${new URL("free_port.ts", import.meta.url).href}";
  console.log(JSON.stringify(Array.from({ length: 100 }, freePort)));
  await Deno.stdin.read(new Uint8Array(1));
`;

Deno.test("freePort() gives no port that another program was given and has not used yet", async () => {
  const mine = Array.from({ length: 100 }, freePort);
  const others = Array.from({ length: 3 }, () =>
    new Deno.Command(Deno.execPath(), {
      args: ["eval", "--quiet", "--ext=ts", PROGRAM],
      stdin: "piped",
      stdout: "piped",
    }).spawn());
  const given = await Promise.all(others.map(async ({ stdout }) => {
    for await (const text of stdout.pipeThrough(new TextDecoderStream())) {
      if (text.endsWith("\n")) return JSON.parse(text);
    }
  }));
  // All of them had their ports at the same time.
  await Promise.all(others.map(({ stdin }) => stdin.close()));
  await Promise.all(others.map(({ status }) => status));
  const all = [...mine, ...given.flat()];
  assert.equal(new Set(all).size, 400);
});

Deno.test("freePort() passes over a port that is in use", () => {
  const taken = freePort();
  using _listener = Deno.listen({ hostname: "127.0.0.1", port: taken });
  const next = Array.from({ length: 200 }, freePort);
  assert.ok(!next.includes(taken));
  assert.equal(new Set(next).size, 126);
});
