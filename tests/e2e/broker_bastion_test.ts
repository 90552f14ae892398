import assert from "node:assert/strict";
import { parseJson } from "@gateway/shared/json";
import { terminalTest } from "../ssh_target/terminals.ts";
import { poll } from "../stage/poll.ts";
import { type ConfigEdit, editConfig, HOST, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { addHostsToStage } from "./hosts_behind.ts";
import { McpProcess } from "./mcp_process.ts";
import { SessionClient } from "./session_client.ts";

async function withBastions(
  test: (scene: { readonly stage: Stage; readonly mcp: McpProcess; readonly dir: string }) => Promise<void>,
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
      await test({ stage, mcp, dir });
      assert.equal(await mcp.end(), 0);
    });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function recordsOf(path: string): Promise<readonly Record<string, unknown>[]> {
  const lines = (await Deno.readTextFile(path)).trimEnd().split("\n");
  return lines.map((line) => parseJson(line) as Record<string, unknown>);
}

Deno.test("broker serve-mcp runs a command behind two bastions that it alone may not reach", () =>
  withBastions(async ({ stage, mcp }) => {
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

Deno.test("a freeze of a session's id revokes its certificates for the bastions as well", () =>
  withBastions(async ({ stage, mcp }) => {
    const id = await new SessionClient(mcp).open({ server: "db01" });
    const operator = await stage.signerClient("operator");
    const body = { kind: "session_id", value: id };
    const { status, text } = await operator.request({ method: "POST", path: "/v1/freeze", body });
    assert.equal(status, 200, text);
    const serials = async (outcome: string) =>
      (await recordsOf(stage.init.signer_audit_log)).filter((record) => record["outcome"] === outcome)
        .map(({ serial }) => serial);
    await poll(async () => (await serials("revoked")).length > 0, { what: "the revocation" });
    assert.deepEqual((await serials("revoked")).toSorted(), (await serials("issued")).toSorted());
    assert.equal((await serials("issued")).length, 3);
  }));

terminalTest("broker serve-mcp gives a terminal behind two bastions", () =>
  withBastions(async ({ mcp }) => {
    const shown = await mcp.call("ssh_execute", {
      server: "db01",
      command: "test -t 1 && echo tty",
      pty: true,
    });
    assert.equal(shown.structuredContent.stdout.slice(0, 5), "tty\r\n");
  }));

Deno.test("broker serve-mcp moves files behind two bastions", () =>
  withBastions(async ({ mcp, dir }) => {
    const path = `${dir}/file`;
    const put = await mcp.call("ssh_put_file", {
      server: "db01",
      path,
      content: "AP8=",
      content_base64: true,
    });
    assert.equal(put.isError, undefined, put.content[0].text);
    assert.deepEqual(await Deno.readFile(path), Uint8Array.of(0, 255));
    const got = await mcp.call("ssh_get_file", { server: "db01", path });
    assert.equal(got.structuredContent.content, "AP8=");
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
