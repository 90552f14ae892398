import assert from "node:assert/strict";
import { formatGuide, type GuideFacts, mcpClientEntry, startCommands } from "./config_text.ts";
import { createLayout, DEFAULT_LISTENERS } from "./layout.ts";

const FACTS: GuideFacts = {
  layout: createLayout("/srv/gate way"),
  route: "control_plane",
  listeners: DEFAULT_LISTENERS,
  hosts: [{ name: "web01", addr: "10.0.0.5:22", user: "deploy", hostKey: "ssh-ed25519 HOST" }],
  runtime: { deno: "/usr/bin/deno", sources: "/src/gateway" },
  approverPassword: "pass-of-bundle",
};

Deno.test("mcpClientEntry() connects to the socket, with permissions for that alone", () => {
  const socket = "/srv/gate way/run/agent.sock";
  assert.deepEqual(mcpClientEntry(FACTS), {
    command: "/usr/bin/deno",
    args: [
      ...["run", "--no-prompt", "--cached-only"],
      ...[`--allow-read=${socket}`, `--allow-write=${socket}`, `--allow-net=unix:${socket}`],
      ...["/src/gateway/broker/connect.ts", socket],
    ],
  });
});

Deno.test("mcpClientEntry() names the program when this one is compiled", () => {
  const entry = mcpClientEntry({ ...FACTS, runtime: { deno: undefined, sources: "" } });
  assert.deepEqual(entry, { command: "gateway", args: ["connect", "/srv/gate way/run/agent.sock"] });
});

Deno.test.each([
  {
    name: "in the set-up's folder",
    socket: undefined,
    says: /runs as this account can read every key in pki/,
  },
  {
    name: "elsewhere",
    socket: "/run/gw/a.sock",
    says: /install -d -o "\$USER" -g GROUP -m 2750 \/run\/gw\n/,
  },
])("formatGuide() says what an agent's account can read, with the socket $name", ({ socket, says }) => {
  const layout = createLayout("/srv/gate way", socket);
  assert.match(formatGuide({ ...FACTS, layout, backup: undefined }).join("\n"), says);
});

Deno.test("formatGuide() holds an MCP entry that is JSON, and quotes paths for the shell", () => {
  const text = formatGuide({ ...FACTS, backup: undefined }).join("\n");
  const json = /^ {3}\{[\s\S]*?^ {3}\}$/m.exec(text)?.[0] ?? "";
  assert.deepEqual(JSON.parse(json), { mcpServers: { gateway: mcpClientEntry(FACTS) } });
  assert.match(text, /start\.sh signer --config '\/srv\/gate way\/signer\.json'/);
});

Deno.test.each([
  { name: "from source", runtime: FACTS.runtime, tool: "deno task broker-ctl" },
  { name: "as a program", runtime: { deno: undefined, sources: "" }, tool: "broker-ctl" },
])("formatGuide() names broker-ctl as it is started $name", ({ runtime, tool }) => {
  const lines = formatGuide({ ...FACTS, runtime, backup: undefined });
  const starts = lines.filter((line) => /broker-ctl (?:approval|identity renew) /.test(line));
  assert.equal(starts.length, 2);
  for (const line of starts) assert.ok(line.startsWith(`   ${tool} `), line);
});

Deno.test("formatGuide() says where the former set-up is, and what it means", () => {
  const text = formatGuide({ ...FACTS, backup: "/srv/gate way/backup-1" }).join("\n");
  assert.match(text, /backup-1[\s\S]*trust the former CA/);
});

Deno.test("formatGuide() says what to fill in when there is no host yet", () => {
  const text = formatGuide({ ...FACTS, hosts: [], backup: undefined }).join("\n");
  assert.match(text, /host enrol NAME[\s\S]*NAME is the host's name in "hosts"/);
});

Deno.test.each<{ name: string; facts: Partial<GuideFacts>; commands: readonly string[] }>([
  {
    name: "from source, each before those that ask it",
    facts: {},
    commands: [
      "DENO=/usr/bin/deno /src/gateway/ctl/start.sh signer --config '/srv/gate way/signer.json'",
      "DENO=/usr/bin/deno /src/gateway/ctl/start.sh control-plane --config '/srv/gate way/control-plane.json'",
      "DENO=/usr/bin/deno /src/gateway/ctl/start.sh broker --config '/srv/gate way/config.json'",
    ],
  },
  {
    name: "from a folder with a blank in its name",
    facts: { route: "signer", runtime: { deno: "/my programs/deno", sources: "/my gateway" } },
    commands: [
      "DENO='/my programs/deno' '/my gateway/ctl/start.sh' signer --config '/srv/gate way/signer.json'",
      "DENO='/my programs/deno' '/my gateway/ctl/start.sh' broker --config '/srv/gate way/config.json'",
    ],
  },
  {
    name: "as programs",
    facts: { runtime: { deno: undefined, sources: "" } },
    commands: [
      "signer --config '/srv/gate way/signer.json'",
      "control-plane --config '/srv/gate way/control-plane.json'",
      "gateway serve-http --config '/srv/gate way/config.json'",
    ],
  },
  {
    name: "without a control plane that nobody asks",
    facts: { route: "signer", runtime: { deno: undefined, sources: "" } },
    commands: [
      "signer --config '/srv/gate way/signer.json'",
      "gateway serve-http --config '/srv/gate way/config.json'",
    ],
  },
])("startCommands() starts the services $name", ({ facts, commands }) => {
  assert.deepEqual(startCommands({ ...FACTS, ...facts }), commands);
  const text = formatGuide({ ...FACTS, ...facts, backup: undefined }).join("\n");
  for (const command of commands) assert.ok(text.includes(`\n   ${command}\n`), command);
});

Deno.test("formatGuide() tells an approver of the terminal and the browser, unless nobody would ask", () => {
  const text = formatGuide({ ...FACTS, backup: undefined }).join("\n");
  assert.match(text, /approval list --client-config '\/srv\/gate way\/broker-ctl\.json'/);
  assert.match(
    text,
    /pki\/approver\.p12 as your own certificate[\s\S]*https:\/\/127\.0\.0\.1:7443\/ui\/approvals/,
  );
  assert.doesNotMatch(formatGuide({ ...FACTS, route: "signer", backup: undefined }).join("\n"), /approval/);
});
