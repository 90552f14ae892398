import assert from "node:assert/strict";
import { enrolmentLines, formatGuide, type GuideFacts, mcpClientEntry } from "./guide.ts";
import { createLayout } from "./layout.ts";

const FACTS: GuideFacts = {
  layout: createLayout("/srv/gate way"),
  hosts: [{ name: "web01", addr: "10.0.0.5:22", user: "deploy", hostKey: "ssh-ed25519 HOST" }],
  runtime: { deno: "/usr/bin/deno", sources: "/src/gateway" },
  sshCaPublic: "ssh-ed25519 CA",
  mcpFlags: ["--no-prompt", "--allow-read=/srv/gate way/mcp.json"],
};

Deno.test("enrolmentLines() appends the principal, and only once", () => {
  const lines = enrolmentLines("ssh-ed25519 CA", { name: "web01", user: "deploy" });
  const file = "/etc/ssh/auth_principals/deploy";
  assert.ok(lines.includes(`grep -qxF 'host:web01' ${file} 2>/dev/null || echo 'host:web01' >> ${file}`));
  assert.ok(lines.every((line) => !new RegExp(`[^>]> ${file}`).test(line)));
  assert.match(lines.join("\n"), /TrustedUserCAKeys \/etc\/ssh\/gateway_ca\.pub/);
});

Deno.test("enrolmentLines() can be pasted with the indentation that the guide gives them", () => {
  assert.ok(enrolmentLines("k", { name: "a", user: "b" }).every((line) => !/<<|\n/.test(line)));
});

Deno.test("mcpClientEntry() starts the broker under its exact permissions, by absolute paths", () => {
  assert.deepEqual(mcpClientEntry(FACTS), {
    command: "/usr/bin/deno",
    args: [
      "run",
      "--no-prompt",
      "--allow-read=/srv/gate way/mcp.json",
      "/src/gateway/broker/main.ts",
      "serve-mcp",
      "--config",
      "/srv/gate way/mcp.json",
    ],
  });
});

Deno.test("mcpClientEntry() names the program when this one is compiled", () => {
  const entry = mcpClientEntry({ ...FACTS, runtime: { deno: undefined, sources: "" } });
  assert.deepEqual(entry, {
    command: "gateway",
    args: ["serve-mcp", "--config", "/srv/gate way/mcp.json"],
  });
});

Deno.test("formatGuide() holds an MCP entry that is JSON, and quotes paths for the shell", () => {
  const text = formatGuide({ ...FACTS, backup: undefined }).join("\n");
  const json = /^ {3}\{[\s\S]*?^ {3}\}$/m.exec(text)?.[0] ?? "";
  assert.deepEqual(JSON.parse(json), { mcpServers: { gateway: mcpClientEntry(FACTS) } });
  assert.match(text, /deno task start:signer --config '\/srv\/gate way\/signer\.json'/);
});

Deno.test("formatGuide() says where the former set-up is, and what it means", () => {
  const text = formatGuide({ ...FACTS, backup: "/srv/gate way/backup-1" }).join("\n");
  assert.match(text, /backup-1[\s\S]*trust the former CA/);
});

Deno.test("formatGuide() says what to fill in when there is no host yet", () => {
  const text = formatGuide({ ...FACTS, hosts: [], backup: undefined }).join("\n");
  assert.match(text, /'host:NAME'[\s\S]*NAME is the host's name in "hosts"/);
});
