import assert from "node:assert/strict";
import { terminalTest } from "../ssh_target/terminals.ts";
import { recordsOf } from "../stage/audit.ts";
import { poll } from "../stage/poll.ts";
import { share } from "../stage/share.ts";
import { type ConfigEdit, editConfig, HOST, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { addHostsToStage } from "./hosts_behind.ts";
import { McpProcess } from "./mcp_process.ts";
import { SessionClient } from "./session_client.ts";

async function withBastions(
  test: (scene: { readonly stage: Stage; readonly mcp: McpProcess }) => Promise<void>,
  edits: readonly ConfigEdit[] = [],
): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "bastions-" });
  try {
    await withStage({}, async (stage) => {
      await addHostsToStage(stage, { dir, names: ["inner01", "db01"] });
      await editConfig(stage.init.signer_config, edits);
      await editConfig(stage.init.mcp_config, [{ path: ["revocation_poll_seconds"], value: 1 }]);
      await stage.startSigner();
      await using mcp = new McpProcess(await stage.mcpCommand());
      await mcp.initialize();
      await test({ stage, mcp });
      assert.equal(await mcp.end(), 0);
    });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const withShared = share<{ readonly stage: Stage; readonly mcp: McpProcess }>(withBastions);

Deno.test("broker serve-mcp runs a command behind two bastions that it alone may not reach", () =>
  withShared(async ({ stage, mcp }) => {
    const list = await mcp.call("ssh_list_servers", {});
    assert.equal(
      list.content[0].text,
      "db01 (sudo=false pty=true file_transfer=true via=inner01)\n" +
        "inner01 (sudo=false pty=true file_transfer=true via=web01)\n" +
        "web01 (sudo=false pty=false file_transfer=false)\n",
    );
    const result = await mcp.call("ssh_execute", { server: "db01", command: "echo through; exit 5" });
    assert.equal(result.isError, undefined, result.content[0].text);
    assert.deepEqual(
      [result.structuredContent.stdout, result.structuredContent.exit_code],
      ["through\n", 5],
    );
    const issued = await recordsOf(stage.init.signer_audit_log);
    assert.deepEqual(issued.map(({ outcome }) => outcome), ["issued", "issued", "issued"]);
    const executed = await recordsOf(stage.init.mcp_audit_log);
    assert.deepEqual(executed.map(({ outcome, serial }) => [outcome, serial]), [
      ["executed", issued[2]?.["serial"]],
    ]);
  }));

terminalTest("broker serve-mcp gives a terminal behind two bastions", () =>
  withShared(async ({ mcp }) => {
    const shown = await mcp.call("ssh_execute", {
      server: "db01",
      command: "test -t 1 && echo tty",
      pty: true,
    });
    assert.equal(shown.structuredContent.stdout.slice(0, 5), "tty\r\n");
  }));

Deno.test("a freeze of a session's id revokes its certificates for the bastions as well", () =>
  withShared(async ({ stage, mcp }) => {
    const before = (await recordsOf(stage.init.signer_audit_log)).length;
    const id = await new SessionClient(mcp).open({ server: "db01" });
    const operator = await stage.signerClient("operator");
    const body = { kind: "session_id", value: id };
    const { status, text } = await operator.request({ method: "POST", path: "/v1/freeze", body });
    assert.equal(status, 200, text);
    const serials = async (outcome: string) =>
      (await recordsOf(stage.init.signer_audit_log)).slice(before).filter((record) =>
        record["outcome"] === outcome
      )
        .map(({ serial }) => serial);
    await poll(async () => (await serials("revoked")).length > 0, { what: "the revocation" });
    assert.deepEqual((await serials("revoked")).toSorted(), (await serials("issued")).toSorted());
    assert.equal((await serials("issued")).length, 3);
  }));

Deno.test("broker serve-mcp does not go through a host that is not a bastion", () =>
  withBastions(async ({ mcp }) => {
    const result = await mcp.call("ssh_execute", { server: "db01", command: "true" });
    assert.equal(result.isError, true);
    assert.equal(
      result.content[0].text,
      'signing cert for "web01": signing rejected (403): host "web01" is not allowed as a bastion',
    );
  }, [{ path: ["hosts", HOST, "allow_as_bastion"], value: false }]));
