import assert from "node:assert/strict";
import { judgeHost } from "./live_checks.ts";
import { judge as judgeStatus, readStatus, type ServiceStatus, silentStatus } from "./monitor.ts";

const GOOD = [
  "ca: ssh-ed25519 AAAA",
  "sshd: forcecommand none",
  "sshd: revokedkeys /etc/ssh/gateway.krl",
  "sshd: authorizedkeysfile none",
  "sshd: authorizedkeyscommand none",
  "sshd: permituserenvironment no",
  "shell: /bin/bash",
  "login: yes",
  "time: 1000",
  "principal: yes",
];

function judge(lines: readonly string[], ca: string | undefined = "ssh-ed25519 AAAA") {
  return judgeHost({ name: "web01", ca, lines, asked: 1000, answered: 1002 })
    .filter(({ level }) => level !== "pass").map(({ level, check, fix }) => {
      assert.match(fix, /(?:broker-ctl|on the host: [a-z]|timedatectl) ?\S/);
      return `${level} ${check}`;
    });
}

Deno.test("judgeHost() reports no problem for a correctly configured sshd", () => {
  assert.deepEqual(judge(GOOD), []);
});

Deno.test.each([
  { line: "ca: ssh-ed25519 BBBB", says: /^fail .*does not trust the signer's CA/ },
  { line: "sshd: forcecommand /bin/menu", says: /^fail .*ForceCommand "\/bin\/menu"/ },
  { line: "sshd: revokedkeys none", says: /^warn .*no RevokedKeys/ },
  { line: "sshd: authorizedkeysfile .ssh/authorized_keys", says: /^warn .*\(authorizedkeysfile \.ssh/ },
  { line: "sshd: authorizedkeyscommand /bin/keys", says: /^warn .*\(authorizedkeyscommand \/bin\/keys\)/ },
  { line: "sshd: permituserenvironment yes", says: /^fail .*PermitUserEnvironment "yes"/ },
  { line: "shell: /usr/bin/fish", says: /^warn .*command rules are not proved for the login shell fish/ },
  { line: "shell:", says: /^warn .*did not report/ },
  { line: "time: 900", says: /^fail .*is off by 100 s/ },
  { line: "time: 1100", says: /^fail .*is off by 98 s/ },
  { line: "login: locked", says: /^fail .*no one can log in to the account, because it is locked/ },
  { line: "login: expired", says: /^fail .*no one can log in to the account, because it has expired/ },
  { line: "login: shell", says: /^fail .*no one can log in to the account, because it has no login shell/ },
  { line: "login: ask me", says: /^unknown .*did not report whether logins are possible/ },
  { line: "principal: no", says: /^fail .*does not accept certificates/ },
])("judgeHost() reports $line", ({ line, says }) => {
  const label = line.split(" ").slice(0, line.startsWith("sshd:") ? 2 : 1).join(" ");
  const wrong = judge(GOOD.map((each) => each.startsWith(label) ? line : each));
  assert.equal(wrong.length, 1, wrong.join());
  assert.match(wrong[0] ?? "", says);
});

Deno.test("judgeHost() reports settings as unknown if the host does not show them", () => {
  assert.deepEqual(judge([]).filter((each) => each.startsWith("unknown")).length, 8);
  assert.equal(judge([]).length, 10);
  assert.match(judge(GOOD, "none").join(), /does not trust/);
  const { level } = judgeHost({
    ...{ name: "web01", ca: undefined, lines: GOOD, asked: 1000, answered: 1000 },
  })[0]!;
  assert.equal(level, "unknown");
});

const METRICS = `# HELP gateway_build_info Always 1; what runs
# TYPE gateway_build_info gauge
gateway_build_info{service="signer",version="1.2.0",deno="2.9.6"} 1
certificate_expiry_timestamp_seconds{certificate="server_cert"} 2000
certificate_expiry_timestamp_seconds{certificate="client_ca"} 1000
krl_version 1790000000000
state_age_seconds 0.25
state_clock_offset_seconds -0.5
state_database_info{server="db1:5432",role="primary"} 1
state_instance_info{instance="signer-1"} 1
state_member_info{instance="signer-2"} 1
state_member_info{instance="signer-1"} 1
`;
const answers = (text: string, ok = true, ready = "ready\n") =>
  readStatus({ address: "h:1", ready: { ok, text: ready }, metrics: text, aheadSeconds: 3 });

Deno.test("readStatus() reads the metrics of a signer", () => {
  assert.deepEqual(answers(METRICS), {
    ...{ address: "h:1", isReady: true, problem: "", members: ["signer-1", "signer-2"] },
    ...{ service: "signer", version: "1.2.0", instance: "signer-1", stateAgeSeconds: 0.25 },
    ...{ database: "db1:5432 primary", krlVersion: 1_790_000_000_000, clockOffsetSeconds: -0.5 },
    processId: undefined,
    certificate: { name: "client_ca", endsAt: 1_000_000 },
  });
});

Deno.test("readStatus() compares with this machine's clock if the service has no database", () => {
  const { clockOffsetSeconds, members, database } = answers(
    'gateway_build_info{service="broker",version="1"} 1',
  );
  assert.deepEqual({ clockOffsetSeconds, members, database }, {
    ...{ clockOffsetSeconds: 3, members: [], database: undefined },
  });
});

Deno.test.each([
  {
    name: "a service that is not ready",
    text: METRICS,
    ok: false,
    ready: "not ready: too old\n",
    problem: "not ready: too old",
  },
  {
    name: "another program",
    text: "<html>200 OK</html>",
    ok: true,
    ready: "hello",
    problem: "the server at this address is not a service of the gateway",
  },
  {
    name: "values that are no numbers",
    text: 'gateway_build_info{service="signer"} x',
    ok: true,
    ready: "ready",
    problem: "the server at this address is not a service of the gateway",
  },
])("readStatus() reports $name as not ready", ({ text, ok, ready, problem }) => {
  const status = answers(text, ok, ready);
  assert.equal(status.isReady, false);
  assert.equal(status.problem, problem);
});

Deno.test("readStatus() reads labels with escaped quotes and line feeds", () => {
  const { instance } = answers(String.raw`state_instance_info{instance="a\"b\\c\nd"} 1`);
  assert.equal(instance, 'a"b\\c\nd');
});

const NOW = Date.UTC(2030, 0, 1);
const DAY = 86_400_000;
const one = (name: string, more: Partial<ServiceStatus> = {}): ServiceStatus => ({
  ...{ ...silentStatus(`${name}:9160`, ""), service: "signer", instance: name, version: "1", isReady: true },
  ...{ members: ["a", "b"], krlVersion: 5, ...more },
});

Deno.test.each([
  { name: "two healthy services", services: [one("a"), one("b")], problems: [], notes: [] },
  {
    name: "an instance without a response",
    services: [one("a"), silentStatus("b:9160", "no response: refused")],
    problems: ["b:9160: no response: refused"],
    notes: ['signer: also running, but not checked: "b"'],
  },
  {
    name: "a service that is not ready",
    services: [one("a"), one("b", { isReady: false, problem: "not ready: x", members: [] })],
    problems: ["b: not ready: x"],
    notes: [],
  },
  {
    name: "instances on different databases",
    services: [one("a", { members: ["a"] }), one("b", { members: ["b"] })],
    problems: [/^a: does not see "b"; it just started, or uses another database/, /^b: does not see "a"/],
    notes: [],
  },
  {
    name: "a running instance that was not checked",
    services: [one("a")],
    problems: [],
    notes: ['signer: also running, but not checked: "b"'],
  },
  {
    name: "different versions during an upgrade",
    services: [one("a"), one("b", { version: "2" })],
    problems: [],
    notes: ["signer: different versions are running: 1, 2"],
  },
  {
    name: "different versions of the revocation list",
    services: [one("a"), one("b", { krlVersion: 6 })],
    problems: [],
    notes: ["signer: the versions of the revocation list differ; check again"],
  },
  {
    name: "an expiring and an expired certificate",
    services: [
      one("a", { certificate: { name: "server_cert", endsAt: NOW + 2.5 * DAY } }),
      one("b", { certificate: { name: "client_ca", endsAt: NOW } }),
    ],
    problems: ["a: server_cert expires in 3 days", "b: client_ca has expired"],
    notes: [],
  },
  {
    name: "a wrong clock",
    services: [one("a", { clockOffsetSeconds: -2.5 }), one("b", { clockOffsetSeconds: 2 })],
    problems: ["a: its clock is off by -2.5 s; run a time service"],
    notes: [],
  },
  {
    name: "instances of different services",
    services: [
      one("a"),
      one("b"),
      one("c", { service: "control-plane", members: [], instance: undefined }),
    ],
    problems: [],
    notes: [],
  },
])("judge() evaluates $name", ({ services, problems, notes }) => {
  const verdict = judgeStatus(services, NOW);
  assert.equal(verdict.problems.length, problems.length, verdict.problems.join("\n"));
  for (const [index, expected] of problems.entries()) {
    const text = verdict.problems[index] ?? "";
    if (typeof expected === "string") assert.equal(text, expected);
    else assert.match(text, expected);
  }
  assert.deepEqual(verdict.notes, notes);
});
