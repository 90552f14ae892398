import assert from "node:assert/strict";
import { join } from "node:path";
import { SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { run, withConfig, words } from "./ctl_fixture.ts";
import { poll } from "../stage/poll.ts";
import { ROOT } from "../stage/service_command.ts";
import { createOperator } from "./ctl_signer_fixture.ts";
import { startServer } from "./mtls_fixture.ts";

const HOST = `"addr": "10.0.0.1:22", "user": "deploy", "host_key": "${SAMPLE_HOST_KEY}"`;

function configWith(web01: string, keys = `"envelope_key": "pki/envelope.seed",`): string {
  return `{
  // what the operator wrote
  "server_cert": "x", "server_key": "x", "client_ca": "x", "ca_key": "x",
  "audit_log": "x", "audit_key": "x", ${keys}
  "hosts": {
    "web01": { ${HOST}, "principal": "host:web01"${web01} }, // in the cellar
    "web02": { ${HOST}, "principal": "host:web02" }
  }
}
`;
}

Deno.test.each([
  { name: "in v3", flags: "", from: "", to: `, "sealed_exec": true, "envelope": "v3"` },
  { name: "that is sealed in v2", flags: "", from: `, "sealed_exec": true`, to: `, "sealed_exec": true` },
  {
    name: "in v3 after v2",
    flags: "--envelope v3",
    from: `, "sealed_exec": true`,
    to: `, "sealed_exec": true, "envelope": "v3"`,
  },
  {
    name: "with another build's shim",
    flags: ["--envelope", "v1", "--domain", "other v1", "--shim", "/opt/other/shim"],
    from: "",
    to:
      `, "sealed_exec": true, "envelope": "v1", "envelope_domain": "other v1", "shim_command": "/opt/other/shim"`,
  },
  { name: "again", flags: "", from: `, "sealed_exec": false`, to: `, "sealed_exec": true` },
  {
    name: "in the format that it has",
    flags: "",
    from: `, "envelope": "v1", "envelope_domain": "d"`,
    to: `, "envelope": "v1", "envelope_domain": "d", "sealed_exec": true`,
  },
  {
    name: "in v2 after v1",
    flags: "--envelope v2",
    from: `, "sealed_exec": true, "envelope": "v1", "envelope_domain": "d"`,
    to: `, "sealed_exec": true, "envelope": "v2"`,
  },
])("host seal seals a host $name and keeps the rest of the config", async ({ flags, from, to }) => {
  await using config = await withConfig(configWith(from));
  const { exit, out, err } = await config.ctl("host seal web01", ...words(flags));
  assert.deepEqual([exit, err], [0, ""], err);
  assert.match(out, /^host "web01" sealed \(envelope v[123]\)\n/);
  assert.equal(/To apply it: broker-ctl reload\n/.test(out), from !== to);
  assert.equal(await config.read(), configWith(to));
});

Deno.test.each([
  { name: "an unknown host", args: "web03", err: /Cannot find host "web03" in the config/ },
  {
    name: "a member of every object",
    args: "constructor",
    err: /Cannot find host "constructor"/,
  },
  {
    name: "without a key, and says how to make one",
    args: "web01",
    keys: "",
    err: /hosts\.web01\.sealed_exec: needs envelope_key[^]*head -c 32 \/dev\/urandom > pki\/envelope\.seed/,
  },
  {
    name: "a domain without v1",
    args: "web01 --domain d",
    err: /envelope_domain: belongs to envelope v1 alone/,
  },
  {
    name: "a shim with a blank",
    args: ["web01", "--shim", "a b"],
    err: /shim_command: must be one word/,
  },
  { name: "another format", args: "web01 --envelope v4", err: /v4/ },
])("host seal rejects $name and writes nothing", async ({ args, keys, err: expected }) => {
  const text = configWith("", keys);
  await using config = await withConfig(text);
  const { exit, err } = await config.ctl("host seal", ...words(args));
  assert.notEqual(exit, 0);
  assert.match(err, expected);
  assert.equal(await config.read(), text);
});

Deno.test("host unseal turns the seal off and keeps the envelope settings", async () => {
  await using config = await withConfig(configWith(`, "sealed_exec": true, "envelope": "v1"`));
  const { exit, out } = await config.ctl("host", "unseal", "web01");
  assert.deepEqual([exit, out], [
    0,
    'host "web01" unsealed\nNot yet active. To apply it: broker-ctl reload\n',
  ]);
  const unsealed = configWith(`, "sealed_exec": false, "envelope": "v1"`);
  assert.equal(await config.read(), unsealed);
  const again = await config.ctl("host", "unseal", "web01", "--json");
  assert.deepEqual(JSON.parse(again.out), { name: "web01", sealed: false, changed: false });
  assert.equal(await config.read(), unsealed);
});

Deno.test("host list marks sealed hosts", async () => {
  await using config = await withConfig(configWith(`, "sealed_exec": true`));
  assert.match(
    (await config.ctl("host", "list")).out,
    / {2}SEALED {2}REVOCATION\nweb01 .* {2}v2 {6}—\nweb02 .* {2}— {7}—\n$/,
  );
});

Deno.test("envelope pubkey prints the public key and the line for hosts", async () => {
  await using config = await withConfig("");
  await Deno.writeFile(join(config.folder, "seed"), new Uint8Array(32).fill(1));
  const v1 = "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=";
  const v2 = 'signer namespaces="gateway-sealed-exec-v2,gateway-sealed-exec-v3" ssh-ed25519 ' +
    "AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c";
  const pubkey = (...args: string[]) => config.ctl("envelope", "pubkey", ...args);
  assert.equal((await pubkey("--seed", "seed")).out, `${v1}\n`);
  assert.equal((await pubkey("-seed", "seed", "--signers")).out, `${v2}\n`);
  assert.deepEqual(JSON.parse((await pubkey("--seed=seed", "--json")).out), {
    public_key: v1,
    envelope_signers: v2,
  });
});

Deno.test.each([
  { name: "without --seed", args: "", exit: 2, err: /--seed/ },
  { name: "with a seed that is too short", args: "--seed short", exit: 1, err: /exactly 32/ },
  { name: "with a seed that is too long", args: "--seed long", exit: 1, err: /exactly 32/ },
  { name: "with no file", args: "--seed none", exit: 1, err: /Cannot read the seed .*no such file/ },
])("envelope pubkey fails $name and prints no part of the seed", async ({ args, exit, err: expected }) => {
  await using config = await withConfig("");
  await Deno.writeFile(join(config.folder, "short"), new Uint8Array(31).fill(65));
  await Deno.writeFile(join(config.folder, "long"), new Uint8Array(33).fill(65));
  const result = await config.ctl("envelope pubkey", ...words(args));
  assert.deepEqual([result.exit, result.out], [exit, ""]);
  assert.match(result.err, expected);
  assert.doesNotMatch(result.err, /AAAAAAAA/);
});

const ID = "0123456789abcdef0123456789abcdef";
const PENDING = {
  id: ID,
  caller: "broker-local",
  end_user: "ann\x1b[2J",
  host: "web01",
  command: "systemctl restart nginx",
  rule: "require_approval:^systemctl restart ",
  status: "pending",
  created_at: "2026-01-02T03:04:05Z",
  decided_at: "0001-01-01T00:00:00Z",
  expires_at: "2026-01-02T03:06:05Z",
};

/** A control plane with one request in its decided state. */
async function startControlPlane() {
  const decisions: unknown[] = [];
  let status = "pending";
  const server = await startServer(async (request) => {
    if (request.method === "POST") {
      const body = JSON.parse(await request.text());
      decisions.push(body);
      status = body.approve ? "approved" : "denied";
      return Response.json({ ...PENDING, status });
    }
    return Response.json([{ ...PENDING, status }]);
  });
  return { server, decisions };
}

Deno.test("approval watch shows a request, reads the decision from the keyboard and restores the terminal", async () => {
  const { server, decisions } = await startControlPlane();
  await using _server = server;
  await using operator = await createOperator(server);
  const flags = "--quiet --no-check --no-prompt --cached-only -P=broker-ctl";
  const ctl = `${Deno.execPath()} run ${flags} ${ROOT}ctl/main.ts`;
  // Prints the terminal settings before and after. They must be equal.
  const watch = `stty -g; ${ctl} approval watch --client-config client.json; echo "ended $?"; stty -g`;
  const inner = `stty cols 80 rows 24; tty; ${watch}`;
  const child = new Deno.Command("script", {
    args: ["--quiet", "--return", "--command", inner, "/dev/null"],
    cwd: operator.path,
    env: { NO_COLOR: "1", SHELL: "/bin/sh" },
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  let shown = "";
  const collected = (async () => {
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) shown += text;
  })();
  const keys = child.stdin.getWriter();
  const type = (key: string) => keys.write(new TextEncoder().encode(key));
  // Each drawing replaces the previous one.
  const screen = () => (shown.split("\x1b[J\x1b[A").at(-1) ?? "").split("\r\n");
  const sees = (text: string, what: string) => poll(() => screen().join("\n").includes(text), { what });
  const resize = (size: string) =>
    new Deno.Command("stty", { args: ["-F", /\/dev\/pts\/\d+/.exec(shown)?.[0] ?? "", ...words(size)] })
      .output();
  await sees("[q]uit\x1b[7A\r", "the request");
  assert.deepEqual(screen().slice(0, 4), [
    '\x1b[?25l\x1b[1m"systemctl restart nginx"\x1b[22m',
    "",
    "host     web01",
    'agent    "ann\\x1b[2J" through broker-local',
  ]);
  assert.equal(shown.includes("\x1b[2J"), false);
  await resize("cols 20 rows 8");
  await sees("TRUNCATED", "the small screen");
  assert.ok(screen().length < 8);
  // Early keys are ignored: send a key without a function until it is read.
  await poll(async () => {
    await type("x");
    return screen().join().includes("a approves");
  }, { what: "a key that counts" });
  await type("a");
  await sees("Press v", "the request to view all pages");
  await resize("cols 80 rows 24");
  await poll(() => !screen().join().includes("TRUNCATED"), { what: "the large screen" });
  await type("a");
  await sees('Approve "systemctl restart nginx" on web01? [y/N]', "the question");
  await type("y");
  await sees("(no pending requests; press q to quit)", "the end of the list");
  assert.match(shown, /\[J.\[A[\d:TZ-]+ approved "systemctl restart nginx" on web01\r\n/);
  assert.deepEqual(decisions, [{ approve: true, shown_ids: [ID] }]);
  await type("\x03");
  await poll(() => shown.includes("\x1b[A\x1b[?25hended 0"), { what: "the end" });
  await keys.close();
  await child.status;
  await collected;
  const settings = shown.split(/\r?\n/).filter((line) => /^[0-9a-f]+(?::[0-9a-f]+)+$/.test(line));
  assert.equal(settings.length, 2, shown);
  assert.equal(settings[0], settings[1]);
});

Deno.test("approval watch fails if standard input is not a terminal", async () => {
  const { exit, err } = await run("/tmp", "approval", "watch");
  assert.equal(exit, 2);
  assert.match(
    err,
    /standard input is not a terminal\nfix: in programs, use broker-ctl approval list --status pending --json/,
  );
});
