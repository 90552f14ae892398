import assert from "node:assert/strict";
import type { Settings } from "../settings/config.ts";
import { createTools } from "./catalogue.ts";
import { BARE_SETTINGS, call, FakePorts } from "./testing/tool_bench.ts";

function setUp(name: string, settings: Partial<Settings> = {}) {
  const ports = new FakePorts();
  return {
    ports,
    tool: createTools({ ...BARE_SETTINGS, ...settings }, ports).find((tool) => tool.name === name),
  };
}

Deno.test("run_local_command runs in the first root with real paths and an empty environment", async () => {
  const { ports, tool } = setUp("run_local_command");
  ports.files = { "/srv/app/logs/a.log": "/srv/app/real/a.log", "/srv/app/b": "/srv/app/b" };
  const { ok, text } = await call(tool, { command: "tail -5 logs/a.log /srv/app/b" });
  assert.equal(ok, true);
  assert.match(text, /^tail -5 logs\/a\.log \/srv\/app\/b: exit code 0 \[0 ms\]\nout$/);
  const [{ signal: _, ...run }] = ports.runs as [typeof ports.runs[number]];
  assert.deepEqual(run, {
    program: "tail",
    args: ["-n", "5", "/srv/app/real/a.log", "/srv/app/b"],
    cwd: "/srv/app",
    needs: [],
  });
  await call(tool, { command: "ss -tlp" });
  assert.deepEqual(ports.runs[1]?.needs, ["network", "processes"]);
});

Deno.test.each([
  {
    name: "a file outside of the roots",
    command: "cat /etc/passwd",
    why: /not in a directory of ALLOWED_PROJECT_ROOTS/,
  },
  {
    name: "a path that climbs out",
    command: "cat ../../etc/passwd",
    why: /not in a directory of ALLOWED_PROJECT_ROOTS/,
  },
  { name: "a link to a file of secrets", command: "cat settings", why: /may contain secrets/ },
  { name: "a file of secrets", command: "cat .env", why: /may contain secrets/ },
  { name: "a program that is not allowed", command: "rm -rf .", why: /program "rm" is not allowed/ },
  { name: "a pipe", command: "ps aux | sh", why: /there is no shell/ },
])("run_local_command rejects $name", async ({ command, why }) => {
  const { ports, tool } = setUp("run_local_command");
  ports.files = { "/srv/app/settings": "/srv/app/.env", "/srv/app/.env": "/srv/app/.env" };
  const { ok, text } = await call(tool, { command });
  assert.equal(ok, false);
  assert.match(text, why);
  assert.deepEqual(ports.runs, []);
});

Deno.test.each([
  {
    name: "an exit code",
    result: { stopped: undefined, code: 1, stdout: "a hunter2\n", stderr: "b\n" } as const,
    why: /exit code 1 \[0 ms\]\na \[REDACTED\]\nstderr:\nb$/,
  },
  {
    name: "running out of time",
    result: { stopped: "signal", code: 137, stdout: "part", stderr: "" } as const,
    why: /stopped after 15 s \[0 ms\]\npart$/,
  },
])("run_local_command reports $name as a failure", async ({ result, why }) => {
  const { ports, tool } = setUp("run_local_command");
  ports.result = result;
  const { ok, text } = await call(tool, { command: "uptime" });
  assert.equal(ok, false);
  assert.match(text, why);
});

Deno.test("run_ssh_command enforces known_hosts and quotes every word", async () => {
  const { ports, tool } = setUp("run_ssh_command", {
    SSH_DEFAULT_USER: "diag",
    SSH_KEY_PATH: "/keys/id",
    SSH_KNOWN_HOSTS: "/keys/known hosts",
    SSH_CONNECT_TIMEOUT: 4,
  });
  const { ok, text } = await call(tool, {
    host: "web1.test",
    command: "grep 'a b|c' /var/log/syslog",
    port: 2222,
  });
  assert.equal(ok, true, text);
  const [run] = ports.runs;
  assert.equal(run?.program, "ssh");
  const args = run.args;
  for (
    const option of [
      "BatchMode=yes",
      "StrictHostKeyChecking=yes",
      "UpdateHostKeys=no",
      'UserKnownHostsFile="/keys/known hosts"',
      "GlobalKnownHostsFile=none",
      "ForwardAgent=no",
      "PermitLocalCommand=no",
      "ProxyCommand=none",
      "IdentitiesOnly=yes",
      "ConnectTimeout=4",
    ]
  ) assert.ok(args.includes(option), option);
  assert.deepEqual(args.slice(0, 2), ["-F", "none"]);
  assert.deepEqual(args.slice(-8), [
    "/keys/id",
    "-l",
    "diag",
    "-p",
    "2222",
    "--",
    "web1.test",
    "grep -D skip 'a b|c' /var/log/syslog",
  ]);
  assert.deepEqual(run.env, { HOME: "/home/op", SSH_AUTH_SOCK: "/agent" });
  assert.match(text, /^grep .* on diag@web1\.test:2222: exit code 0/);
});

Deno.test.each([
  { name: "a host that is an option", args: { host: "-oProxyCommand=id", command: "uptime" }, why: /host/ },
  { name: "a host with an account", args: { host: "root@h", command: "uptime" }, why: /host/ },
  { name: "a host with spaces", args: { host: "h uptime", command: "uptime" }, why: /host/ },
  { name: "a host with a line break", args: { host: "h\nx", command: "uptime" }, why: /host/ },
  { name: "a host that is a URL", args: { host: "ssh://h", command: "uptime" }, why: /host/ },
  { name: "a host with a token", args: { host: "%h", command: "uptime" }, why: /host/ },
  { name: "no host", args: { host: "", command: "uptime" }, why: /host/ },
  { name: "an account from the model", args: { host: "h", user: "root", command: "uptime" }, why: /"user"/ },
  { name: "an invalid port", args: { host: "h", port: 70_000, command: "uptime" }, why: /port/ },
  {
    name: "a key path from the model",
    args: { host: "h", key_path: "/root/.ssh/id_rsa", command: "uptime" },
    why: /key_path/,
  },
  {
    name: "a program that is not allowed",
    args: { host: "h", command: "rm -rf /" },
    why: /program "rm" is not allowed/,
  },
  { name: "a second command", args: { host: "h", command: "uptime; id" }, why: /no shell/ },
  {
    name: "a substitution in double quotes",
    args: { host: "h", command: 'grep "$(id)" /var/log/x' },
    why: /no shell/,
  },
  { name: "a single quote", args: { host: "h", command: `grep "it's" /var/log/x` }, why: /quotes/ },
  {
    name: "a backslash at the end of a word",
    args: { host: "h", command: "grep 'a\\' /var/log/x" },
    why: /quotes/,
  },
  { name: "csh history", args: { host: "h", command: "grep '!x' /var/log/x" }, why: /quotes/ },
  { name: "a relative path", args: { host: "h", command: "cat x" }, why: /absolute/ },
  { name: "a path with ..", args: { host: "h", command: "cat /var/log/../../etc/x" }, why: /absolute/ },
  { name: "a file of secrets", args: { host: "h", command: "cat /etc/shadow" }, why: /may contain secrets/ },
  {
    name: "a directory with secrets",
    args: { host: "h", command: "ls /root/.ssh" },
    why: /may contain secrets/,
  },
])("run_ssh_command rejects $name", async ({ args, why }) => {
  const { ports, tool } = setUp("run_ssh_command");
  const { ok, text } = await call(tool, args);
  assert.equal(ok, false);
  assert.match(text, why);
  assert.deepEqual(ports.runs, []);
});

Deno.test.each([
  {
    stderr:
      "No ED25519 host key is known for h and you have requested strict checking.\nHost key verification failed.",
    why: /known_hosts/,
  },
  { stderr: "op@h: Permission denied (publickey).", why: /rejected the key/ },
  { stderr: "ssh: connect to host h port 22: Connection refused", why: /is not reachable: .*refused/ },
  { stderr: "ssh: Could not resolve hostname h: Name or service not known", why: /is not reachable/ },
].map((row) => ({ ...row, name: row.stderr.slice(0, 40) })))(
  "run_ssh_command distinguishes $name",
  async ({ stderr, why }) => {
    const { ports, tool } = setUp("run_ssh_command");
    ports.result = { stopped: undefined, code: 255, stdout: "", stderr };
    const { ok, text } = await call(tool, { host: "h", command: "uptime" });
    assert.equal(ok, false);
    assert.match(text, why);
  },
);

Deno.test("run_kubectl passes the kubeconfig, no kuberc, and checked arguments", async () => {
  const { ports, tool } = setUp("run_kubectl");
  assert.equal((await call(tool, { kubectl_args: "-n prod get pods" })).ok, true);
  const [run] = ports.runs;
  assert.equal(run?.program, "kubectl");
  assert.deepEqual(run.args, ["get", "--request-timeout=20s", "-n", "prod", "pods"]);
  assert.deepEqual(run.env, {
    HOME: "/home/op",
    KUBECONFIG: "/kube",
    KUBERC: "off",
    KUBECTL_KUBERC: "false",
  });
  assert.match((await call(tool, { kubectl_args: "get secrets" })).text, /secrets are not readable/);
  assert.match((await call(tool, { kubectl_args: "delete pod x" })).text, /verb "delete" is not allowed/);
  assert.equal(ports.runs.length, 1);
});

Deno.test("git_recent_changes checks the real repository and runs none of its programs", async () => {
  const { ports, tool } = setUp("git_recent_changes");
  ports.files = { "/srv/app/.": "/srv/app", "/srv/app/.git": "/srv/app/.git" };
  ports.result = {
    stopped: undefined,
    code: 0,
    stdout: "/srv/app/.git\n/srv/app/.git\n",
    stderr: "",
  };
  assert.equal((await call(tool, { count: 3 })).ok, true);
  const [where, log] = ports.runs;
  assert.ok(where?.args.includes("rev-parse"));
  assert.equal(log?.cwd, "/srv/app");
  for (
    const option of ["--no-pager", "--no-ext-diff", "--no-textconv", "--no-show-signature", "--max-count=3"]
  ) {
    assert.ok(log.args.includes(option), option);
  }
  assert.equal(log.env?.["GIT_ALLOW_PROTOCOL"], "none");
  assert.equal(log.env?.["HOME"], undefined);
});

Deno.test.each([
  { count: 0, shown: 1 },
  { count: -3, shown: 1 },
  { count: 500, shown: 50 },
])(
  "git_recent_changes shows $shown commits for a count of $count",
  async ({ count, shown }) => {
    const { ports, tool } = setUp("git_recent_changes");
    ports.files = { "/srv/app/.": "/srv/app", "/srv/app/.git": "/srv/app/.git" };
    const stdout = "/srv/app/.git\n/srv/app/.git\n";
    ports.result = { stopped: undefined, code: 0, stdout, stderr: "" };
    const { ok, text } = await call(tool, { count });
    assert.equal(ok, true, text);
    assert.match(text, new RegExp(`^git log of \\., ${shown} at most: `));
    assert.ok(ports.runs[1]?.args.includes(`--max-count=${shown}`));
  },
);

Deno.test.each([
  { name: "a directory outside the roots", repo_path: "/etc" },
  { name: "a directory that is an option", repo_path: "--upload-pack=id" },
  { name: "a repository around the directory", repo_path: "sub" },
])("git_recent_changes rejects $name", async ({ repo_path }) => {
  const { ports, tool } = setUp("git_recent_changes");
  ports.files = { "/srv/app/sub": "/srv/app/sub" };
  ports.result = { stopped: undefined, code: 0, stdout: "/srv/.git\n/srv/.git\n", stderr: "" };
  const { ok, text } = await call(tool, { repo_path });
  assert.equal(ok, false);
  assert.match(text, /not in a directory of ALLOWED_PROJECT_ROOTS/);
  assert.ok(ports.runs.every(({ args }) => !args.includes("log")));
});

const DATABASE_URL = "postgres://app:s3cret@db.test/shop";

Deno.test("run_db_explain uses the configured database and never shows its URL", async () => {
  const { ports, tool } = setUp("run_db_explain", { DATABASE_URL });
  const asked: unknown[] = [];
  ports.explain = ({ signal: _, ...request }) => {
    asked.push(request);
    return Promise.resolve(["Seq Scan", "  Filter"]);
  };
  // The tools read the ports when they are created.
  const explaining = createTools({ ...BARE_SETTINGS, DATABASE_URL }, ports).find(({ name }) =>
    name === tool?.name
  );
  const { ok, text } = await call(explaining, { query: "select 1; -- x" });
  assert.equal(ok, true);
  assert.equal(text, "EXPLAIN select 1 [0 ms]\nSeq Scan\n  Filter");
  assert.deepEqual(asked, [{ url: DATABASE_URL, query: "select 1", seconds: 20 }]);
});

Deno.test.each([
  {
    name: "a database from the model",
    args: { query: "select 1", database_url: "postgres://evil/" },
    why: /"database_url"/,
  },
  { name: "a statement that writes", args: { query: "delete from t" }, why: /only SELECT and WITH/ },
  { name: "two statements", args: { query: "select 1; select 2" }, why: /one statement/ },
])("run_db_explain rejects $name", async ({ args, why }) => {
  const ports = new FakePorts();
  ports.explain = () => assert.fail("must not connect");
  const tool = createTools({ ...BARE_SETTINGS, DATABASE_URL }, ports).find(({ name }) =>
    name === "run_db_explain"
  );
  const { ok, text } = await call(tool, args);
  assert.equal(ok, false);
  assert.match(text, why);
  assert.doesNotMatch(text, /s3cret|db\.test/);
});

Deno.test("run_db_explain fails without a configured database", async () => {
  const { tool } = setUp("run_db_explain");
  assert.match((await call(tool, { query: "select 1" })).text, /has to set DATABASE_URL/);
});
