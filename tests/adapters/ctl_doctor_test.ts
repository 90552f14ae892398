import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { removeMember, setValue } from "@gateway/shared/config";
import { FakeClock, SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { makeBackup } from "../../ctl/backup/backup.ts";
import type { Finding } from "../../ctl/doctor/findings.ts";
import { createInstallation } from "../stage/installation.ts";
import { createFolder, run } from "./ctl_fixture.ts";
import { broker, ca, hello, type Identity, issue, startServer } from "./mtls_fixture.ts";

type Change = (at: (name: string) => string) => Promise<unknown>;

/** A changed installation by init, and the findings of doctor. */
async function diagnose(change: Change = () => Promise.resolve(), ...args: string[]) {
  await using parent = await createFolder();
  const folder = join(parent.path, "gateway");
  await createInstallation(folder, []);
  await change((name) => join(folder, name));
  const { out, exit } = await run(folder, "doctor", "--json", ...args);
  const { findings } = JSON.parse(out) as { findings: readonly Finding[] };
  return { exit, findings, wrong: findings.filter(({ level }) => level !== "pass") };
}

async function edit(path: string, key: readonly string[], value: unknown) {
  await Deno.writeTextFile(path, setValue(await Deno.readTextFile(path), key, value));
}

/** The findings of an untouched init: CA key in a file, no hosts, no separate account for the agent. */
const LAB = [
  "ca_key is a key in a file, and no host on another machine is configured yet",
  'agents in the broker\'s account can read its keys (mode 0600): "agent-local"',
  "the MCP client's account can read the broker's keys, and so can its agent",
];

Deno.test("doctor on a new installation warns only of the CA key file and keys this account reads", async () => {
  const { wrong, exit } = await diagnose();
  assert.deepEqual(wrong.map(({ check }) => check), LAB);
  assert.deepEqual([wrong.map(({ level }) => level), exit], [LAB.map(() => "warn"), 0]);
  assert.ok(wrong.every(({ fix }) => PASTED.test(fix)), JSON.stringify(wrong));
});

/** A command, or a line of a config. */
const PASTED =
  /\b(?:broker-ctl|gateway|chmod|chgrp|rm|mkdir|touch|vi|df|ssh|journalctl|systemctl|timedatectl) \S|"[a-z_]+": \S/;

Deno.test("doctor --level lab accepts a new installation, and no other finding", async () => {
  const { exit, wrong } = await diagnose(undefined, "--level", "lab");
  assert.deepEqual([exit, wrong], [0, []]);
  const open = await diagnose((at) => edit(at("signer.json"), ["monitor_listen"], ":9160"), "--level", "lab");
  assert.deepEqual([open.exit, open.wrong.map(({ level }) => level)], [1, ["fail"]]);
});

/** As a server in the fixture of mutual TLS has it. */
const LOOPBACK = { subject: "CN=signer", subjectAltNames: ["127.0.0.1"] };
const serverOf = ({ cert, key }: Identity) => ({ cert, key });
const HOST = { addr: "10.0.0.1:22", user: "a", host_key: SAMPLE_HOST_KEY };

interface Row {
  readonly name: string;
  /** A config file, a path of keys and the value to set. */
  readonly set?: readonly [string, readonly string[], unknown];
  readonly change?: Change;
  readonly level?: string;
  readonly check: RegExp;
}

Deno.test.each<Row>([
  {
    name: "an empty callers section",
    set: ["signer.json", ["callers"], {}],
    check: /callers is empty: every certificate of client_ca may use every host/,
  },
  {
    name: "a _default caller with groups",
    set: ["signer.json", ["callers", "_default"], { allowed_groups: ["local"] }],
    check: /_default grants/,
  },
  {
    name: "a CA key in a file with hosts on other machines",
    set: ["signer.json", ["hosts", "a"], { ...HOST, principal: "p" }],
    level: "fail",
    check: /^ca_key is a key in a file/,
  },
  {
    name: "a CA key in a file and a signer that listens on all addresses",
    set: ["signer.json", ["listen"], ":9443"],
    level: "fail",
    check: /^ca_key is a key in a file/,
  },
  {
    name: "a host group's CA key in a file",
    set: ["signer.json", ["ca_keys"], { web: { type: "pem", path: "x" } }],
    level: "fail",
    check: /^ca_keys\.web is a key in a file/,
  },
  {
    name: "no rate limit for signing",
    set: ["signer.json", ["sign_rate_limit_per_min"], 0],
    check: /callers have no limit/,
  },
  { name: "a state that is lost", set: ["control-plane.json", ["state_db"], ""], check: /state_db is empty/ },
  {
    name: "a redact section without rules",
    set: ["config.json", ["redact"], { disable_defaults: true }],
    check: /redact has no rule/,
  },
  ...[":9160", "gw.example.org:9160"].map((listen): Row => ({
    name: `a monitor at ${listen}`,
    set: ["signer.json", ["monitor_listen"], listen],
    level: "fail",
    check: /is public: everyone can read the metrics/,
  })),
  {
    name: "approvers without sign_callers",
    set: ["control-plane.json", ["sign_callers"], []],
    level: "fail",
    check: /sign_callers is empty/,
  },
  {
    name: "principals shared by hosts",
    set: ["signer.json", ["hosts"], {
      a: { ...HOST, principal: "p" },
      b: { ...HOST, principal: "p" },
    }],
    check: /hosts share principals.*"p" \(a, b\)/,
  },
  {
    name: "a key that the group of an agent's socket can read",
    change: async (at) => {
      const path = at("run/agent.sock");
      await edit(at("config.json"), ["sockets"], [{ path, caller: "agent-local", mode: "0660" }]);
      await Deno.mkdir(at("run"));
      await Deno.chmod(at("pki/broker.key"), 0o640);
    },
    level: "fail",
    check: /^agent "agent-local" can read signer\.client_key ".*broker\.key": its socket has the same group$/,
  },
  {
    name: "a certificate that does not match its key",
    change: (at) => Deno.copyFile(at("pki/agent.key"), at("pki/signer.key")),
    level: "fail",
    check: /^server_cert .* does not match its private key/,
  },
  {
    name: "a truncated certificate",
    change: (at) => Deno.writeTextFile(at("pki/broker.crt"), "-----BEGIN CERT"),
    level: "fail",
    check: /^signer\.client_cert .* contains no certificate/,
  },
  {
    name: "a certificate that expires within 14 days",
    change: (at) => run(dirname(at("signer.json")), "identity", "renew", "broker", "--days", "5"),
    check: /broker\.crt" expires in 4 days, at 20/,
  },
  {
    name: "a key that other users can read",
    change: (at) => Deno.chmod(at("pki/signer.key"), 0o644),
    check: /server_key/,
  },
  {
    name: "a truncated config",
    change: async (at) =>
      Deno.writeTextFile(at("mcp.json"), (await Deno.readTextFile(at("mcp.json"))).slice(0, 300)),
    level: "fail",
    check: /^the config is unusable/,
  },
  {
    name: "a file that cannot be read",
    change: async (at) => {
      await Deno.remove(at("pki/signer.key"));
      await Deno.symlink("signer.key", at("pki/signer.key"));
    },
    level: "unknown",
    check: /^server_key .* cannot be checked/,
  },
  {
    name: "files that a killed edit left",
    change: async (at) => {
      const left = at("pki/..broker.key.0123456789abcdef01234567.0123456789abcdef01234567");
      await Deno.writeTextFile(left, "", { mode: 0o600 });
      await Deno.utime(left, 1_000_000_000, 1_000_000_000);
    },
    check: /^left over from an interrupted edit/,
  },
  {
    name: "files that a killed init left",
    change: async (at) => {
      await Deno.mkdir(at(".init.0123456789abcdef"), { mode: 0o700 });
      await Deno.utime(at(".init.0123456789abcdef"), 1_000_000_000, 1_000_000_000);
    },
    check: /^left over from an interrupted init/,
  },
  {
    name: "a missing denied_callers file",
    change: (at) => Deno.remove(at("pki/denied_callers")),
    level: "fail",
    check: /^denied_callers .* cannot be used: no such file/,
  },
  {
    name: "a truncated denied_callers file",
    change: (at) => Deno.writeTextFile(at("pki/denied_callers"), "mall"),
    level: "fail",
    check:
      /^denied_callers .* cannot be used: its last line has no line break, so the file may be incomplete/,
  },
  {
    name: "an invalid rule pattern that the signer rejects",
    set: ["signer.json", ["command_policies", "web"], { mode: "allowlist", allow: ["^uptime("] }],
    level: "fail",
    check: /^the service rejects this config: command_policies\.web\.allow\[0\]: Cannot compile pattern/,
  },
  ...["signer.json", "control-plane.json", "config.json"].map((file): Row => ({
    name: `an invalid redaction pattern with which the service of ${file} would not start`,
    set: [file, ["redact"], { patterns: [{ name: "ticket", regex: "T-(" }] }],
    level: "fail",
    check: /^the service rejects this config: redact\.patterns\[0\]\.regex: /,
  })),
  {
    name: "an invalid rule pattern of a broker in local mode",
    change: async (at) => {
      const text = await Deno.readTextFile(at("mcp.json"));
      await Deno.writeTextFile(at("mcp.json"), removeMember(removeMember(text, ["signer"]), ["networks"]));
      await edit(at("mcp.json"), ["ca_key"], "pki/ssh_ca");
      await edit(at("mcp.json"), ["hosts", "web01"], HOST);
      await edit(at("mcp.json"), ["command_policies", "web"], { mode: "allowlist", allow: ["^uptime("] });
    },
    level: "fail",
    check: /^the service rejects this config: .*command_policies\.web\.allow\[0\]: Cannot compile pattern/,
  },
  {
    name: "a sealed host without envelope_key",
    change: async (at) => {
      await edit(at("signer.json"), ["envelope_key"], "");
      await edit(at("signer.json"), ["hosts", "web01"], { ...HOST, sealed_exec: true });
    },
    level: "fail",
    check: /^the service rejects this config: hosts\.web01\.sealed_exec: needs envelope_key/,
  },
  ...[undefined, true].map((unsealed_sessions): Row => ({
    name: `a host with command rules and unsealed_sessions ${unsealed_sessions}`,
    set: ["signer.json", ["hosts"], {
      web01: { ...HOST, ...(unsealed_sessions === undefined ? {} : { unsealed_sessions }) },
      web02: { ...HOST, principal: "host:web02", unsealed_sessions: false },
      web03: { ...HOST, principal: "host:web03", sealed_exec: true },
    }],
    check: /^an attacker who compromises a broker can bypass the command rules in sessions: web01$/,
  })),
  {
    name: "no denied_callers",
    set: ["signer.json", ["denied_callers"], ""],
    check: /denied_callers is empty/,
  },
])("doctor finds $name and prints the fix", async ({ set, change, level = "warn", check }) => {
  const { wrong } = await diagnose(set === undefined ? change : (at) => edit(at(set[0]), set[1], set[2]));
  const found = wrong.find((each) => check.test(each.check));
  assert.ok(found !== undefined, JSON.stringify(wrong));
  assert.equal(found.level, level);
  assert.match(found.fix, PASTED);
});

Deno.test("doctor --security checks only the configs", async () => {
  const { wrong } = await diagnose((at) => Deno.remove(at("pki/signer.key")), "--security");
  assert.deepEqual(wrong.map(({ check }) => check), LAB);
});

Deno.test("doctor --live reports services and hosts that do not respond", async () => {
  const { wrong } = await diagnose(async (at) => {
    await edit(at("signer.json"), ["hosts"], { a: { ...HOST, addr: "127.0.0.1:1", principal: "p" } });
    // Another program may listen on the default ports of this machine.
    for (const name of ["signer.json", "control-plane.json", "config.json"]) {
      await edit(at(name), ["monitor_listen"], "127.0.0.1:1");
    }
  }, "--live");
  assert.equal(wrong.filter(({ check }) => check.startsWith("the service does not respond")).length, 3);
  assert.ok(wrong.some(({ check }) => check.startsWith('host "a" at 127.0.0.1:1 does not respond')));
});

Deno.test("doctor --live connects to each service of a broker with the broker's certificate", async () => {
  await using well = await startServer(hello);
  await using denying = await startServer(hello, { denied: new Set(["broker-1"]) });
  await using foreign = await startServer(
    hello,
    serverOf(await issue({ ...LOOPBACK, usage: "server" }, "foreign")),
  );
  const gone = "https://127.0.0.1:1";
  const { findings, wrong } = await diagnose(async (at) => {
    const files = { client_cert: broker.cert, client_key: broker.key, ca };
    for (const [name, pem] of Object.entries(files)) {
      await Deno.writeTextFile(at(`pki/${name}`), pem, { mode: 0o600 });
    }
    const urls = [well.url, gone, denying.url, foreign.url];
    const paths = { client_cert: "pki/client_cert", client_key: "pki/client_key", ca: "pki/ca" };
    await edit(at("config.json"), ["signer"], { urls, ...paths });
  }, "--live");
  const of = (url: string) =>
    findings.filter(({ check }) => check.startsWith(`${url} `)).map(({ level }) => level);
  assert.deepEqual([well.url, gone, denying.url, foreign.url].map(of), [["pass"], ["fail"], ["fail"], [
    "fail",
  ]]);
  const said = (url: string) =>
    wrong.filter(({ check }) => check.startsWith(`${url} `)).map(({ check, fix }) => check + fix);
  assert.match(`${said(gone)}`, /does not respond: .*REFUSED.*nothing listens at this address/);
  assert.match(`${said(denying.url)}`, /rejects the certificate of signer.client_cert.*identity list/);
  assert.match(`${said(foreign.url)}`, /was not signed by the CA in pki\/ca/);
});

Deno.test("doctor --live reports unknown if it cannot read the client key", async () => {
  const { wrong } = await diagnose((at) => Deno.remove(at("pki/broker.key")), "--live");
  assert.ok(
    wrong.some(({ level, check }) =>
      level === "unknown" && /the connection to the signer cannot be checked.*client_key/.test(check)
    ),
  );
});

Deno.test("doctor fails if there is no config", async () => {
  await using folder = await createFolder();
  const { err, exit } = await run(folder.path, "doctor");
  assert.match(err, /Cannot find a config: pass --config/);
  assert.equal(exit, 1);
});

Deno.test("doctor runs with the permissions of broker-ctl", async () => {
  await using folder = await createFolder();
  await run(folder.path, "init", "--dir=.");
  const main = new URL("../../ctl/main.ts", import.meta.url).pathname;
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: `run --quiet --no-prompt --cached-only -P=broker-ctl ${main} doctor --json --live`.split(" "),
    cwd: folder.path,
    env: { NO_COLOR: "1" },
  }).output();
  const { findings } = JSON.parse(new TextDecoder().decode(stdout)) as { findings: readonly Finding[] };
  assert.ok(findings.some(({ check }) => check === "enough disk space for audit records"));
  assert.ok(!findings.some(({ check }) => /Requires|NotCapable/.test(check)), JSON.stringify(findings));
});

/** A server with an arbitrary response. */
function startPretender(headers: Record<string, string>) {
  const server = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const text = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const running = (async () => {
    for await (const connection of server) {
      await connection.read(new Uint8Array(4096)).catch(() => null);
      await connection.write(
        new TextEncoder().encode(
          `HTTP/1.1 200 OK\r\n${text}content-length: 2\r\nconnection: close\r\n\r\nok`,
        ),
      ).catch(() => 0);
      connection.close();
    }
  })();
  return {
    port: (server.addr as Deno.NetAddr).port,
    async [Symbol.asyncDispose]() {
      server.close();
      await running;
    },
  };
}

Deno.test("doctor --live reports unknown if a monitor reports neither version nor time", async () => {
  await using pretender = startPretender({});
  const { wrong } = await diagnose(
    (at) => edit(at("signer.json"), ["monitor_listen"], `127.0.0.1:${pretender.port}`),
    "--live",
  );
  const unknown = wrong
    .filter(({ level, check }) => level === "unknown" && / did not report its /.test(check))
    .map(({ check }) => check);
  assert.equal(unknown.length, 2, JSON.stringify(wrong));
  assert.match(unknown.join(), /did not report its version[^]*did not report its time/);
});

Deno.test("doctor --live reports that it does not check hosts behind a bastion", async () => {
  const jump = { ...HOST, addr: "127.0.0.1:1", allow_as_bastion: true, principal: "j" };
  const { wrong } = await diagnose(
    (at) => edit(at("signer.json"), ["hosts"], { j: jump, b: { ...HOST, principal: "b", jump: "j" } }),
    "--live",
  );
  assert.ok(wrong.some(({ check }) => check === "1 host is behind a bastion and not checked"));
});

Deno.test.each([
  { name: "is whole and of today", days: 0, level: "pass", check: /at most a week old, signed by \S{44}$/ },
  { name: "is 8 days old", days: -8, level: "warn", check: /8 days old/ },
  { name: "is of a time to come", days: 2, level: "fail", check: /is in the future/ },
])("doctor --backup checks a backup that $name", async (row) => {
  await using folder = await createFolder();
  await run(folder.path, "init", "--dir=.");
  const clock = new FakeClock(Date.now() + row.days * 86_400_000);
  await makeBackup({ setUp: folder.path, target: join(folder.path, "saved"), recipients: [], clock });
  const { out } = await run(folder.path, "doctor", "--json", "--backup", "saved");
  const { findings } = JSON.parse(out) as { findings: readonly Finding[] };
  const finding = findings.find(({ file }) => file.endsWith("/saved"));
  assert.equal(finding?.level, row.level);
  assert.match(finding?.check ?? "", row.check);
});
