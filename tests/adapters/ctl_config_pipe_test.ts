import assert from "node:assert/strict";
import { createFolder, run } from "./ctl_fixture.ts";

// Whoever may write to a folder of configs must not be able to hang root's commands.
Deno.test.each([
  { args: ["host", "list", "--config", "taken"], is: "a pipe" },
  { args: ["host", "remove", "web", "--config", "taken"], is: "a pipe" },
  { args: ["callers", "list", "--config", "taken"], is: "a pipe" },
  { args: ["status", "--config", "taken"], is: "a pipe" },
  { args: ["doctor", "--config", "taken"], is: "a pipe" },
  { args: ["host", "list", "--config", "link"], is: "a device" },
])("$args: what is no file at a config's path is named, not waited for", async ({ args, is }) => {
  await using folder = await createFolder();
  const made = await new Deno.Command("mkfifo", { args: [`${folder.path}/taken`] }).output();
  assert.equal(made.code, 0);
  await Deno.symlink("/dev/zero", `${folder.path}/link`);
  const { out, err, exit } = await run(folder.path, ...args);
  assert.match(out + err, new RegExp(`it is ${is}, not a file`));
  assert.notEqual(exit, 0);
});

Deno.test.each([
  { args: ["doctor", "--json"], says: /client_cert .*broker\.crt.* can't be read: it is a pipe/ },
  { args: ["identity", "list"], says: /broker/ },
])("$args: a certificate that is a pipe is not waited for", async ({ args, says }) => {
  await using folder = await createFolder();
  await run(folder.path, "init");
  await Deno.remove(`${folder.path}/pki/broker.crt`);
  const made = await new Deno.Command("mkfifo", { args: [`${folder.path}/pki/broker.crt`] }).output();
  assert.equal(made.code, 0);
  const { out, err } = await run(folder.path, ...args);
  assert.match(out + err, says);
});
