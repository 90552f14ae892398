import assert from "node:assert/strict";
import { join } from "node:path";
import { createFolder, run } from "./ctl_fixture.ts";
import { runUntilKilled } from "./killed_writer.ts";

const MODULE = new URL("./host_adder.ts", import.meta.url).href;
const EMPTY = `{
  // what the operator wrote
  "server_cert": "x", "server_key": "x", "client_ca": "x", "ca_key": "x", "audit_log": "x", "audit_key": "x",
  "hosts": {}
}
`;

Deno.test("two who add hosts at once and are killed leave a config that is whole and has every host they were told of", async () => {
  await using folder = await createFolder();
  const path = join(folder.path, "signer.json");
  await Deno.writeTextFile(path, EMPTY);
  const told: string[] = [];
  for (const count of [3, 12]) {
    const adders = ["a", "b"].map((name) =>
      runUntilKilled({ module: MODULE, path: folder.path, args: [folder.path, `${name}${count}-`] }, count)
    );
    told.push(...(await Promise.all(adders)).flat());
    const listed = await run(folder.path, "host", "list", "--json");
    assert.equal(listed.exit, 0, listed.err);
    const hosts = Object.keys(JSON.parse(listed.out));
    assert.deepEqual(told.filter((name) => !hosts.includes(name)), []);
    assert.ok(
      hosts.length <= told.length + 2 * 2,
      "one that was not told is the last of one that was killed",
    );
  }
  assert.match(await Deno.readTextFile(path), /\/\/ what the operator wrote/);
});
