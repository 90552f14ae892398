import assert from "node:assert/strict";
import { HOST } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { LocalScene } from "./local_scene.ts";
import { McpProcess } from "./mcp_process.ts";

const RULES = {
  mode: "allowlist",
  allow: ["^uptime$", "^systemctl status "],
  deny: ["^systemctl status secret"],
  require_approval: ["^systemctl status nginx$"],
};
const HIDDEN = /secret|deny/;
const WORDS = [
  "only these commands:",
  '- exactly "uptime"',
  '- what begins with "systemctl status "',
  "some of them are denied nevertheless, which is not shown",
  "each command of a line is judged for itself; redirections, substitutions, assignments and the like are refused",
  "a human has to approve:",
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
  assert.deepEqual(server.policy.allow, RULES.allow);
  assert.deepEqual(server.policy.require_approval, RULES.require_approval);
  for (const line of server.policy.in_words) assert.ok(content[0].text.includes(`  ${line}\n`), line);
  const plain = await mcp.call("ssh_list_servers", {});
  assert.equal(JSON.stringify(plain).includes("uptime"), false, "nobody has asked");
}

Deno.test(
  "an agent can ask what it may run: told by the signer behind the control plane",
  async () => {
    const signer = [
      { path: ["command_policies", "starter"], value: RULES },
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

Deno.test("an agent can ask what it may run: told by a broker in local mode", async () => {
  await using scene = await LocalScene.create({ command_policy: RULES });
  await using mcp = new McpProcess(await scene.command("serve-mcp"));
  await showsRules(mcp, "web01", [
    "no sudo",
    "sessions: exec",
    "no file transfer",
    "certificates of at most 300 s",
  ]);
});
