import assert from "node:assert/strict";
import { recordsOf } from "../stage/audit.ts";
import { editConfig, HOST } from "../stage/stage.ts";
import { share } from "../stage/share.ts";
import { withStage } from "../stage/with_stage.ts";
import { addHostsToStage } from "./hosts_behind.ts";
import { McpProcess } from "./mcp_process.ts";
import { decideAll } from "./decide_all.ts";
import { SessionClient, type ToolAnswer } from "./session_client.ts";
import { OPEN_POLICY, withSessions } from "./session_scene.ts";
import { availableKinds } from "../ssh_target/target.ts";
import { hostKeys } from "./sealed_stage.ts";
import { Thief } from "./thief.ts";
import { LocalScene } from "./local_scene.ts";
import { createFolder } from "../stage/folder.ts";

const BEHAVIOR = { path: ["behavior"], value: { mode: "enforce" } };
/** A policy of the last host: commands that begin with `mkdir` need an approval, also in a session. */
const GATED = { mode: "off", require_approval: ["^mkdir"] };

interface ApprovalScene {
  readonly dir: string;
  readonly client: SessionClient;
  /** Decides all approvals that a pending call causes. Returns their hosts and commands. */
  decide(call: Promise<ToolAnswer>, approve: boolean): Promise<readonly string[]>;
  records(path: "mcp_audit_log" | "control_plane_audit_log"): Promise<readonly Record<string, unknown>[]>;
}

async function withApprovals(test: (scene: ApprovalScene) => Promise<void>): Promise<void> {
  await using dir = await createFolder();
  await withStage(
    { controlPlane: true, signer: OPEN_POLICY, controlPlaneConfig: [BEHAVIOR] },
    async (stage) => {
      await addHostsToStage(stage, { dir: dir.path, names: ["inner01", "db01"] });
      await editConfig(stage.init.signer_config, [{
        path: ["hosts", "db01", "command_policy"],
        value: GATED,
      }]);
      await editConfig(stage.init.mcp_config, [{ path: ["signer", "approval_wait_seconds"], value: 60 }]);
      await stage.startSigner();
      await stage.startControlPlane();
      await using mcp = await McpProcess.start(await stage.mcpCommand());
      const client = new SessionClient(mcp);
      // No request counts as new until a baseline exists.
      const usual = await client.call("ssh_execute", { server: HOST, command: "uptime" });
      assert.equal(usual.isError, false, usual.text);
      await test({
        dir: dir.path,
        client,
        decide: (call, approve) => decideAll(stage, call, approve),
        records: (path) => recordsOf(stage.init[path]),
      });
      assert.equal(await mcp.end(), 0);
    },
  );
}

const withShared = share<ApprovalScene>(withApprovals);

Deno.test("a session whose opening is denied does not exist and does not count toward the limit", () =>
  withShared(async ({ client, decide, records }) => {
    // One more than the limit.
    for (let attempt = 0; attempt <= 20; attempt++) {
      const opening = client.call("ssh_session_open", { server: "inner01" });
      assert.deepEqual(await decide(opening, false), ["inner01"]);
      assert.deepEqual(
        (await opening).text,
        'signing cert for "inner01": approval not granted (403): approval denied',
      );
    }
    const errors = (await records("mcp_audit_log")).filter(({ outcome }) => outcome === "error");
    assert.equal(errors.length, 21);
  }));

Deno.test("a session behind two bastions opens after an approver has approved each new hop", () =>
  withShared(async ({ client, decide, records, dir }) => {
    const opening = client.call("ssh_session_open", { server: "db01" });
    assert.deepEqual(await decide(opening, true), ["inner01", "db01"]);
    const { isError, text, structured } = await opening;
    assert.equal(isError, false, text);
    const id = String(structured["session_id"]);

    const usual = client.exec(id, "uptime");
    assert.deepEqual(await decide(usual, true), []);
    assert.equal((await usual).isError, false);
    const unusual = client.exec(id, `touch ${dir}/approved`);
    assert.deepEqual(await decide(unusual, true), [`db01 touch ${dir}/approved`]);
    assert.equal((await unusual).isError, false);
    await Deno.stat(`${dir}/approved`);

    assert.equal((await client.call("ssh_session_close", { session_id: id })).text, "closed");
    assert.deepEqual((await records("mcp_audit_log")).slice(-4).map(({ outcome }) => outcome), [
      "session_open",
      "session_exec",
      "session_exec",
      "session_close",
    ]);
    const granted = (await records("control_plane_audit_log"))
      .filter(({ outcome }) => outcome === "approval-granted");
    assert.deepEqual(granted.map(({ host, anomaly, approved_by }) => [host, anomaly, approved_by]), [
      ["inner01", "new-host:inner01", "approver-local"],
      ["db01", "new-host:db01", "approver-local"],
      ["db01", "new-command:touch", "approver-local"],
    ]);
  }));

Deno.test("a session command that an approver denies, or a rule gates, does not run, and the session stays open", () =>
  withShared(async ({ client, decide, records, dir }) => {
    const opening = client.call("ssh_session_open", { server: "db01" });
    await decide(opening, true);
    const id = String((await opening).structured["session_id"]);
    const denied = client.exec(id, `cp /dev/null ${dir}/denied`);
    assert.deepEqual(await decide(denied, false), [`db01 cp /dev/null ${dir}/denied`]);
    assert.equal(
      (await denied).text,
      "session command policy preflight: signing rejected (403): approval denied",
    );
    const gated = client.exec(id, `mkdir ${dir}/gated`);
    await decide(gated, true);
    assert.match((await gated).text, /^session command requires human approval \(require_approval:\^mkdir\)/);
    for (const name of ["denied", "gated"]) {
      await assert.rejects(Deno.stat(`${dir}/${name}`), Deno.errors.NotFound);
    }
    assert.equal((await client.exec(id, "uptime")).isError, false);
    assert.deepEqual((await records("mcp_audit_log")).map(({ outcome }) => outcome).slice(-3), [
      "session_exec_denied",
      "session_exec_denied",
      "session_exec",
    ]);
  }));

const ignore = !availableKinds().includes("openssh");
const RULES = {
  mode: "allowlist",
  allow: ["^echo ", "^id$", "^pwd$", "^cd /tmp$"],
  require_approval: ["^id$"],
};
const RULED = hostKeys({ command_policy: RULES, allow_pty: true });
const STEPWISE = [...RULED, ...hostKeys({ unsealed_sessions: false })];

Deno.test(
  "with a stolen broker key a shell bypasses the rules only if unsealed_sessions is absent",
  { ignore },
  async () => {
    await withSessions({ targetKind: "openssh", signer: RULED }, async ({ stage }) => {
      const thief = await Thief.create(stage);
      assert.equal(thief.forceCommand, "");
      const { stdout } = await thief.ssh("cat /etc/passwd");
      assert.match(stdout, /^root:/);
    });
    await withSessions({ targetKind: "openssh", signer: STEPWISE }, async ({ stage }) => {
      await assert.rejects(
        Thief.create(stage),
        /unsealed_sessions=false: no certificate for a session; use one-shot/,
      );
      for (const mode of ["shell", "pty"]) {
        await assert.rejects(Thief.create(stage, { mode }), /has command_policy: sessions require mode=/);
      }
    });
  },
);

Deno.test(
  "with unsealed_sessions: false, an exec session runs each command with its own certificate",
  { ignore },
  () =>
    withStage(
      { controlPlane: true, targetKind: "openssh", signer: [...OPEN_POLICY, ...STEPWISE] },
      async (stage) => {
        await stage.startSigner();
        await stage.startControlPlane();
        await using mcp = await McpProcess.start(await stage.mcpCommand());
        const client = new SessionClient(mcp);
        const id = await client.open();
        const home = await client.exec(id, "pwd");
        assert.equal((await client.exec(id, "cd /tmp")).isError, false);
        assert.equal((await client.exec(id, "pwd")).structured["stdout"], home.structured["stdout"]);
        const together = await Promise.all([1, 2, 3].map((n) => client.exec(id, `echo ${n}`)));
        assert.deepEqual(together.map(({ structured }) => structured["stdout"]), ["1\n", "2\n", "3\n"]);
        const denied = await client.exec(id, "cat /etc/shadow");
        assert.equal(denied.isError, true);
        assert.match(denied.text, /session command: .*command not allowed .*allowlist:no-match/);
        const gated = client.exec(id, "id");
        await decideAll(stage, gated, true);
        assert.match(String((await gated).structured["stdout"]), /^uid=/);
        assert.equal((await client.call("ssh_session_close", { session_id: id })).isError, false);
        assert.equal((await client.exec(id, "echo late")).isError, true);
        assert.equal(await mcp.end(), 0);
        const records = (await recordsOf(stage.init.mcp_audit_log))
          .filter(({ session_id }) => session_id === id);
        assert.deepEqual(records.map(({ outcome }) => outcome), [
          "session_open",
          ...Array.from({ length: 6 }, () => "session_exec"),
          "session_exec_denied",
          "session_exec",
          "session_close",
        ]);
        const ran = records.filter(({ outcome }) => outcome === "session_exec");
        assert.equal(new Set(ran.map(({ serial }) => serial)).size, 7);
      },
    ),
);

const SERVER_RULES = {
  mode: "allowlist",
  allow: ["^uptime$", "^systemctl status "],
  deny: ["^systemctl status secret"],
  require_approval: ["^systemctl status nginx$"],
};
const HIDDEN = /secret|deny/;
const WORDS = [
  "only these commands:",
  '- exactly "uptime"',
  '- commands that begin with "systemctl status "',
  "some of them are denied and not shown",
  "each command of a line is checked separately; redirections, substitutions and assignments are denied",
  "commands that need approval:",
  '- exactly "systemctl status nginx"',
];

async function showsRules(mcp: McpProcess, host: string, rest: readonly string[]): Promise<void> {
  await mcp.initialize();
  const { content, structuredContent, isError } = await mcp.call("ssh_list_servers", { policy: true });
  assert.notEqual(isError, true, content[0].text);
  assert.doesNotMatch(JSON.stringify(structuredContent) + content[0].text, HIDDEN);
  const [server, ...others] = structuredContent.servers;
  assert.deepEqual([server.name, others.length], [host, 0]);
  assert.deepEqual(server.policy.in_words, [...WORDS, ...rest]);
  assert.deepEqual(server.policy.allow, SERVER_RULES.allow);
  assert.deepEqual(server.policy.require_approval, SERVER_RULES.require_approval);
  for (const line of server.policy.in_words) assert.ok(content[0].text.includes(`  ${line}\n`), line);
  const plain = await mcp.call("ssh_list_servers", {});
  assert.equal(JSON.stringify(plain).includes("uptime"), false, "nobody has asked");
}

Deno.test(
  "an agent can read its policy from the signer behind the control plane",
  async () => {
    const signer = [
      { path: ["command_policies", "starter"], value: SERVER_RULES },
      { path: ["hosts", HOST, "allow_sudo"], value: true },
      { path: ["hosts", HOST, "allowed_sudo_users"], value: ["postgres"] },
    ];
    await withStage({ controlPlane: true, signer }, async (stage) => {
      await stage.startSigner();
      await stage.startControlPlane();
      await using mcp = new McpProcess(await stage.mcpCommand());
      await showsRules(mcp, HOST, [
        "sudo to root, postgres",
        "sessions: exec",
        "no file transfer",
        "certificates of at most 300 s",
      ]);
      assert.equal(await mcp.end(), 0);
    });
  },
);

Deno.test("an agent can query its policy at a broker in local mode", async () => {
  await using scene = await LocalScene.create({ command_policy: SERVER_RULES });
  await using mcp = new McpProcess(await scene.command("serve-mcp"));
  await showsRules(mcp, "web01", [
    "no sudo",
    "sessions: exec",
    "no file transfer",
    "certificates of at most 300 s",
  ]);
});
