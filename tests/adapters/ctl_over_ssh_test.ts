import assert from "node:assert/strict";
import { FakeClock, SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { runOverSsh, sshTo } from "../../ctl/kit/programs.ts";
import { poll } from "../stage/poll.ts";

const LOGIN = { login: "root", words: [], command: "true", input: "" };

Deno.test("sshTo() ends with words when a host says nothing for three minutes", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  const clock = new FakeClock();
  const host = { addr: `127.0.0.1:${port}`, host_key: SAMPLE_HOST_KEY };
  const asked = assert.rejects(
    sshTo("web01", host, { ...LOGIN, clock }),
    /The host did not answer within 180 seconds/,
  );
  using _connection = await listener.accept();
  await poll(() => Promise.resolve(clock.sleeping > 0), { what: "the wait" });
  await clock.advance(180_000);
  await asked;
});

Deno.test.each([
  { name: "an account that is an option", addr: "127.0.0.1:22", login: "-oProxyCommand=id" },
  { name: "an address that is an option", addr: "-oProxyCommand=id:22", login: "root" },
  { name: "an address with what ssh would replace", addr: "%h:22", login: "root" },
])("runOverSsh() refuses $name", async ({ addr, login }) => {
  await assert.rejects(
    runOverSsh("web01", { addr, host_key: SAMPLE_HOST_KEY }, { script: [""], login }),
    /Cannot log in/,
  );
});
