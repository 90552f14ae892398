import assert from "node:assert/strict";
import { formatGuide, type GuideFacts, mcpClientEntry, startCommands } from "./guide.ts";
import { createLayout, DEFAULT_LISTENERS } from "./layout.ts";
import { clientConfigPlaces } from "../kit/client_config.ts";
import manifest from "../deno.json" with { type: "json" };
import { isSignerOf } from "./reload.ts";
import { AppError } from "@gateway/shared/errors";
import { parseStart, type StartRequest } from "./service_permissions.ts";
import { whyUnsafe, whyUnsafeFolder } from "./write.ts";

const FACTS: GuideFacts = {
  layout: createLayout("/srv/gate way"),
  route: "control_plane",
  listeners: DEFAULT_LISTENERS,
  hosts: [{ name: "web01", addr: "10.0.0.5:22", user: "deploy", hostKey: "ssh-ed25519 HOST" }],
  runtime: { deno: "/usr/bin/deno", sources: "/src/gateway" },
  approverPassword: "pass-of-bundle",
};

Deno.test.each<{ route: GuideFacts["route"]; args: string[] }>([
  { route: "control_plane", args: ["connect", "/srv/gate way/run/agent.sock"] },
  { route: "local", args: ["serve-mcp", "--config", "/srv/gate way/mcp.json"] },
])("mcpClientEntry() with $route contains no path of Deno and no permission", ({ route, args }) => {
  assert.deepEqual(mcpClientEntry({ ...FACTS, route }), { command: "/src/gateway/bin/gateway", args });
  const installed = mcpClientEntry({ ...FACTS, runtime: { deno: undefined, sources: "" }, route });
  assert.deepEqual(installed, { command: "gateway", args });
});

Deno.test.each([
  {
    name: "in the set-up's folder",
    socket: undefined,
    says: /An agent in this account can read all keys in pki/,
  },
  {
    name: "elsewhere",
    socket: "/run/gw/a.sock",
    says: /install -d -o "\$USER" -g GROUP -m 2750 \/run\/gw\n/,
  },
])("formatGuide() lists what an agent's account can read, with the socket $name", ({ socket, says }) => {
  const layout = createLayout("/srv/gate way", socket);
  assert.match(formatGuide({ ...FACTS, layout, backup: undefined }).join("\n"), says);
});

Deno.test("formatGuide() shows the next steps after --from-local in 11 lines", () => {
  const kept = { files: [], logs: [], withPolicy: (text: string) => text };
  const lines = formatGuide({ ...FACTS, backup: "/srv/gate way/backup-1", kept });
  assert.equal(lines.length, 11, lines.join("\n"));
  assert.match(lines.join("\n"), /stay enrolled.*backup-1[^]*signer --config[^]*pass-of-bundle/);
  assert.ok(lines.includes(`   "gateway": ${JSON.stringify(mcpClientEntry(FACTS))}`));
});

Deno.test("formatGuide() contains an MCP entry that is valid JSON, and quotes paths for the shell", () => {
  const text = formatGuide({ ...FACTS, backup: undefined }).join("\n");
  const json = /^ {3}\{[\s\S]*?^ {3}\}$/m.exec(text)?.[0] ?? "";
  assert.deepEqual(JSON.parse(json), { mcpServers: { gateway: mcpClientEntry(FACTS) } });
  assert.match(text, /start\.sh signer --config '\/srv\/gate way\/signer\.json'/);
});

Deno.test.each([
  { name: "from source", runtime: FACTS.runtime, tool: "/src/gateway/bin/broker-ctl" },
  { name: "as a program", runtime: { deno: undefined, sources: "" }, tool: "broker-ctl" },
])("formatGuide() shows the command for broker-ctl as it is started $name", ({ runtime, tool }) => {
  const lines = formatGuide({ ...FACTS, runtime, backup: undefined });
  const starts = lines.filter((line) => /broker-ctl (?:approval|identity renew) /.test(line));
  assert.equal(starts.length, 2);
  for (const line of starts) assert.ok(line.startsWith(`   ${tool} `), line);
});

Deno.test("formatGuide() shows the path of the previous installation and warns about its CA", () => {
  const text = formatGuide({ ...FACTS, backup: "/srv/gate way/backup-1" }).join("\n");
  assert.match(text, /previous CA is in .*backup-1: enroll its hosts again/);
});

Deno.test("formatGuide() asks to enroll only hosts that are not enrolled, and shows which values to fill in", () => {
  const text = formatGuide({ ...FACTS, hosts: [], backup: undefined }).join("\n");
  assert.match(text, /host enroll NAME[\s\S]*NAME is the name of a host in "hosts"/);
  const done = formatGuide({ ...FACTS, enrolled: ["web01"], backup: undefined }).join("\n");
  assert.match(done, /\n1\. Enrolled: web01\n\n2\./);
});

Deno.test.each<{ name: string; facts: Partial<GuideFacts>; commands: readonly string[] }>([
  {
    name: "from source, each before its clients",
    facts: {},
    commands: [
      "DENO=/usr/bin/deno /src/gateway/ctl/start.sh signer --config '/srv/gate way/signer.json'",
      "DENO=/usr/bin/deno /src/gateway/ctl/start.sh control-plane --config '/srv/gate way/control-plane.json'",
      "DENO=/usr/bin/deno /src/gateway/ctl/start.sh broker --config '/srv/gate way/config.json'",
    ],
  },
  {
    name: "from a directory with a space in its name",
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
    name: "without a control plane if the brokers do not use one",
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

Deno.test("formatGuide() shows approvers the command and the page, if approvals are possible", () => {
  const text = formatGuide({ ...FACTS, backup: undefined }).join("\n");
  assert.match(text, /approval list --client-config '\/srv\/gate way\/broker-ctl\.json'/);
  assert.match(
    text,
    /pki\/approver\.p12 as your certificate[\s\S]*https:\/\/127\.0\.0\.1:7443\/ui\/approvals/,
  );
  assert.doesNotMatch(formatGuide({ ...FACTS, route: "signer", backup: undefined }).join("\n"), /approval/);
});

Deno.test("the client config is loaded from the working directory only if requested (C6)", () => {
  for (const variables of [{}, { HOME: "/home/ann" }, { HOME: "", XDG_CONFIG_HOME: "" }]) {
    const places = clientConfigPlaces(undefined, { workingFolder: "/tmp/planted", variables });
    assert.deepEqual(places.filter(({ path }) => path.startsWith("/tmp/planted")), []);
  }
});

Deno.test("a signal is never sent to another process that reuses a recorded PID (C8)", () => {
  // Deno.kill() requires the permission to run all programs.
  const editors = "code ed editor emacs emacsclient hx micro nano nvim sensible-editor vi vim";
  const run = [..."claude kill ps ssh ssh-keygen ssh-keyscan".split(" "), ...editors.split(" ")];
  assert.deepEqual(manifest.permissions["broker-ctl"].run, run.sort());
  assert.ok(!("run" in manifest.permissions["approval-bridge"]));
  const own = "/srv/gw/signer.json";
  for (
    const args of [
      `/usr/bin/signer --config ${own}`,
      `deno run --no-prompt --config=/x/deno.json /srv/signer/main.ts --config ${own}`,
      `/usr/lib/gateway/deno run /usr/lib/gateway/signer/main.js --config=${own} --log-level debug`,
    ]
  ) assert.ok(isSignerOf(args, own), args);
  for (
    const args of [
      `/usr/bin/signer --config ${own}.old`,
      `/usr/bin/signer --config /srv/other.json`,
      `/usr/bin/my-signer --config ${own}`,
      `/usr/bin/signer-proxy --config ${own}`,
      `deno run /srv/control_plane/main.ts --config ${own}`,
      `/usr/bin/signer --config ${own} x`,
      `deno run -A broker/main.ts serve-mcp-http --config ${own}`,
      `deno run -P=broker-ctl ctl/main.ts permissions signer --config ${own}`,
      `/bin/sh /usr/lib/gateway/ctl/start.sh signer --config ${own}`,
      `deno run ctl/main.ts doctor --config ${own}`,
      `deno run --x=/a/signer/main.ts --config ${own} -A /b/signer/main.ts --config ${own}`,
      `vim ${own}`,
      `signer`,
      "",
    ]
  ) assert.ok(!isSignerOf(args, own), args);
});

Deno.test.each<{ name: string; args: string[]; expected: StartRequest }>([
  { name: "the signer", args: ["signer"], expected: { service: "signer", config: "signer.json", rest: [] } },
  {
    name: "the control plane",
    args: ["control-plane"],
    expected: { service: "control-plane", config: "control-plane.json", rest: [] },
  },
  {
    name: "the broker with its config",
    args: ["broker", "--config", "c.json"],
    expected: { service: "broker", frontend: "serve-http", config: "c.json", rest: [] },
  },
  {
    name: "the broker over stdio, with a single dash and further arguments",
    args: ["mcp", "--verbose", "-config=c=d.json", "x"],
    expected: { service: "broker", frontend: "serve-mcp", config: "c=d.json", rest: ["--verbose", "x"] },
  },
  {
    name: "the broker for end users with tokens",
    args: ["mcp-http"],
    expected: { service: "broker", frontend: "serve-mcp-http", config: "config.json", rest: [] },
  },
])("parseStart() reads $name", ({ args, expected }) => {
  assert.deepEqual(parseStart(args), expected);
});

Deno.test.each([
  { name: "nothing", args: [] },
  { name: "an unknown service", args: ["toString"] },
  { name: "a config without file", args: ["signer", "--config"] },
  { name: "two configs", args: ["signer", "--config", "a", "--config=b"] },
])("parseStart() rejects $name", ({ args }) => {
  assert.throws(
    () => parseStart(args),
    (error) => error instanceof AppError && error.code === "invalid_request",
  );
});

const SELF = 1000;
const OTHER = 1001;
const NOBODY = 65_534;

const part = (facts: { uid?: number; mode?: number; isLink?: boolean }) => ({
  path: "/srv/x",
  uid: SELF,
  mode: 0o40755,
  isLink: false,
  ...facts,
});

Deno.test.each<
  { name: string; uid?: number; mode?: number; isLink?: boolean; below?: RegExp; self?: RegExp }
>([
  { name: "the user's own directory" },
  { name: "a private directory of the user", mode: 0o40700 },
  { name: "a directory of root", uid: 0 },
  { name: "another user's directory", uid: OTHER, below: /another user \(uid 1001\)/, self: /another user/ },
  {
    name: "a sticky directory of another user",
    uid: OTHER,
    mode: 0o41777,
    below: /another user/,
    self: /another user/,
  },
  { name: "a directory that the group can write to", mode: 0o40775, below: /mode 0775/, self: /mode 0775/ },
  { name: "a directory that all users can write to", mode: 0o40777, below: /mode 0777/, self: /mode 0777/ },
  {
    name: "a directory of root that the group can write to",
    uid: 0,
    mode: 0o42775,
    below: /2775/,
    self: /2775/,
  },
  {
    name: "a sticky directory such as /tmp",
    uid: 0,
    mode: 0o41777,
    self: /other users may write .* \(mode 1777\)/,
  },
  { name: "a symbolic link of root", uid: 0, mode: 0o120777, isLink: true, self: /is a symbolic link/ },
  { name: "a symbolic link of the user", mode: 0o120777, isLink: true, self: /is a symbolic link/ },
  {
    name: "a symbolic link of another user",
    uid: OTHER,
    mode: 0o120777,
    isLink: true,
    below: /another user/,
    self: /is a symbolic link/,
  },
])("an installation in or below $name", (row) => {
  const trusted = { self: SELF, root: 0 };
  const check = (why: string | undefined, expected: RegExp | undefined) =>
    expected === undefined ? assert.equal(why, undefined) : assert.match(why ?? "", expected);
  check(whyUnsafe(part(row), trusted), row.below);
  check(whyUnsafeFolder(part(row), trusted), row.self);
});

Deno.test("whyUnsafe() trusts the owner of the root directory, as in a container", () => {
  const facts = part({ uid: NOBODY });
  assert.equal(whyUnsafe(facts, { self: SELF, root: NOBODY }), undefined);
  assert.match(whyUnsafe(facts, { self: SELF, root: 0 }) ?? "", /another user/);
});
