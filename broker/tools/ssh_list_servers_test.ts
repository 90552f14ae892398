import assert from "node:assert/strict";
import { stringifyJson } from "@gateway/shared/json";
import { HOSTS } from "../testing/fake_authority.ts";
import { createSshListServersTool } from "./ssh_list_servers.ts";

const hosts = new Map(Object.entries(HOSTS));
const tool = createSshListServersTool(() => Promise.resolve(hosts));

function list(callerGroups: readonly string[] | null = null) {
  return tool.call(undefined, {
    caller: "mcp-stdio",
    callerGroups,
    bearerToken: undefined,
    signal: new AbortController().signal,
  });
}

Deno.test("ssh_list_servers lists names and capabilities, sorted", async () => {
  const { text, structured } = await list();
  assert.equal(
    text,
    "db01 (sudo=false pty=true file_transfer=false via=bastion01)\n" +
      "web01 (sudo=true pty=false file_transfer=false)\n",
  );
  assert.deepEqual(structured, {
    servers: [
      { name: "db01", allow_sudo: false, allow_pty: true, allow_file_transfer: false, jump: "bastion01" },
      { name: "web01", allow_sudo: true, allow_pty: false, allow_file_transfer: false },
    ],
  });
});

Deno.test("ssh_list_servers shows no address, account, key or group", async () => {
  const shown = stringifyJson(await list());
  for (const secret of ["10.0.0", "deploy", "dba", "ssh-ed25519", '"web"']) {
    assert.ok(!shown.includes(secret), secret);
  }
});

Deno.test.each<{ name: string; groups: readonly string[] | null; names: readonly string[] }>([
  { name: "all without groups", groups: null, names: ["db01", "web01"] },
  { name: "those that share a group", groups: ["ops", "web"], names: ["web01"] },
  { name: "none for other groups", groups: ["ops"], names: [] },
  { name: "none for an empty group list", groups: [], names: [] },
])("ssh_list_servers lists $name (I16)", async ({ groups, names }) => {
  const { structured } = await list(groups);
  assert.deepEqual(
    structured["servers"],
    [
      { name: "db01", allow_sudo: false, allow_pty: true, allow_file_transfer: false, jump: "bastion01" },
      { name: "web01", allow_sudo: true, allow_pty: false, allow_file_transfer: false },
    ].filter(({ name }) => names.includes(name)),
  );
});

Deno.test("ssh_list_servers gives an empty text and list when there is nothing", async () => {
  const empty = createSshListServersTool(() => Promise.resolve(new Map()));
  const context = {
    caller: "mcp-stdio",
    callerGroups: null,
    bearerToken: undefined,
    signal: new AbortController().signal,
  };
  assert.deepEqual(await empty.call({}, context), { text: "", structured: { servers: [] } });
});

Deno.test("ssh_list_servers refuses arguments", async () => {
  const context = {
    caller: "mcp-stdio",
    callerGroups: null,
    bearerToken: undefined,
    signal: new AbortController().signal,
  };
  await assert.rejects(tool.call({ all: true }, context), /^AppError: validating "arguments": /);
});
