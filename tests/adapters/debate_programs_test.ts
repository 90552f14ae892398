import assert from "node:assert/strict";
import { type CallTool, realTools, temporaryFolder } from "./debate_tools_fixture.ts";
import { isMissing } from "../stage/is_missing.ts";
import { availableKinds, currentUser, startSshTarget } from "../ssh_target/target.ts";
import { run } from "../stage/run.ts";
import { share } from "../stage/share.ts";

const ignore = isMissing("kubectl", ["/usr/bin/kubectl", "/usr/local/bin/kubectl"]);

const resource = (name: string, singularName: string, kind: string, shortNames: readonly string[]) => ({
  name,
  singularName,
  namespaced: true,
  kind,
  verbs: ["get", "list"],
  shortNames,
});

const POD = {
  kind: "Pod",
  apiVersion: "v1",
  metadata: { name: "web-1", namespace: "prod", creationTimestamp: "2026-01-01T00:00:00Z" },
  spec: { containers: [{ name: "app", image: "web:1", env: [{ name: "DB_PASSWORD", value: "hunter2" }] }] },
  status: { phase: "Running" },
};

/** The part of the Kubernetes API that kubectl requests. All requests are recorded. */
function serveKubernetes() {
  const seen: string[] = [];
  const answers: Readonly<Record<string, unknown>> = {
    "/version": { major: "1", minor: "30", gitVersion: "v1.30.0" },
    "/api": { kind: "APIVersions", versions: ["v1"] },
    "/apis": { kind: "APIGroupList", apiVersion: "v1", groups: [] },
    "/api/v1": {
      kind: "APIResourceList",
      groupVersion: "v1",
      resources: [resource("pods", "pod", "Pod", ["po"]), resource("secrets", "secret", "Secret", [])],
    },
    "/api/v1/namespaces/prod/pods": { kind: "PodList", apiVersion: "v1", metadata: {}, items: [POD] },
    "/api/v1/namespaces/prod/pods/web-1": POD,
  };
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
    const { pathname, search } = new URL(request.url);
    seen.push(`${request.method} ${pathname}${search}`);
    if (pathname.endsWith("/log")) {
      return new Response("line 1\nline 2 hunter2\n", { headers: { "content-type": "text/plain" } });
    }
    const answer = answers[pathname];
    if (answer !== undefined) return Response.json(answer);
    return Response.json({
      kind: "Status",
      status: "Failure",
      reason: "NotFound",
      code: 404,
      message: "not found",
    }, { status: 404 });
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    seen,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

Deno.test("run_kubectl reads from a cluster and sends only GET requests", { ignore }, async () => {
  await using folder = await temporaryFolder();
  await using server = serveKubernetes();
  await Deno.writeTextFile(
    `${folder.path}/config`,
    JSON.stringify({
      apiVersion: "v1",
      kind: "Config",
      clusters: [{ name: "c", cluster: { server: server.url } }],
      users: [{ name: "u", user: {} }],
      contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
      "current-context": "c",
    }),
  );
  const call = await realTools({ env: { HOME: folder.path, KUBECONFIG: `${folder.path}/config` } });
  const kubectl = (args: string) => call("run_kubectl", { kubectl_args: args });

  const pods = await kubectl("-n prod get pods -o name");
  assert.equal(pods.ok, true, pods.text);
  assert.match(pods.text, /\npod\/web-1$/);
  assert.match(
    (await kubectl("get pod web-1 -n prod -o json")).text,
    /"name": "DB_PASSWORD",\s+"value": "\[REDACTED\]"/,
  );
  assert.match((await kubectl("get po -n prod -o=jsonpath='{.items[0].status.phase}'")).text, /\nRunning$/);
  assert.match((await kubectl("logs web-1 -n prod --tail=2")).text, /line 1\nline 2 \[REDACTED\]$/);
  assert.ok(
    server.seen.some((line) =>
      line.includes("/log?") && line.includes("tailLines=2") && line.includes("limitBytes=")
    ),
  );
  const missing = await kubectl("get pod nope -n prod");
  assert.equal(missing.ok, false);
  assert.match(missing.text, /exit code 1/);

  const before = server.seen.length;
  assert.equal((await kubectl("delete pod web-1 -n prod")).ok, false);
  assert.equal(server.seen.length, before);
  assert.ok(server.seen.every((line) => line.startsWith("GET ")));
});

async function withProject(
  test: (call: CallTool, root: string, outside: string) => Promise<void>,
): Promise<void> {
  await using folder = await temporaryFolder();
  const root = `${folder.path}/project`;
  const outside = `${folder.path}/outside`;
  await Deno.mkdir(`${root}/logs`, { recursive: true });
  await Deno.mkdir(outside);
  await Deno.writeTextFile(`${root}/logs/app.log`, "one\ntwo hunter2\nthree\n");
  await Deno.writeTextFile(`${root}/.env`, "KEY=in-dotenv\n");
  await Deno.writeTextFile(`${outside}/passwd`, "outside-content\n");
  await Deno.symlink(`${outside}/passwd`, `${root}/leak`);
  await Deno.symlink(outside, `${root}/leaks`);
  await Deno.symlink("logs/app.log", `${root}/inner`);
  await test(await realTools({ roots: [root] }), root, outside);
}

Deno.test("run_local_command runs programs of this machine", async () => {
  await withProject(async (call, root) => {
    for (
      const [command, output] of [
        ["uname -s", /Linux/],
        ["tail -2 logs/app.log", /two \[REDACTED\]\nthree$/],
        ["cat inner", /three$/],
        [`cat ${root}/logs/app.log`, /three$/],
        ["grep -n -i TWO logs/app.log", /2:two/],
        ["find . -name '*.log' -type f", /logs\/app\.log$/],
        ["wc -l logs/app.log", /3 .*app\.log/],
        ["ls -l logs", /app\.log/],
        ["df -h /", /Filesystem/],
        ["ps aux --sort=-rss", /PID/],
        ["id -u", /\d+$/],
        ["date -u +%Y", /20\d\d$/],
      ] as const
    ) {
      const { ok, text } = await call("run_local_command", { command });
      assert.equal(ok, true, text);
      assert.match(text, output);
    }
  });
});

Deno.test("run_local_command never reads files outside the roots or with secrets", async () => {
  await withProject(async (call, _root, outside) => {
    for (
      const command of [
        `cat ${outside}/passwd`,
        "cat ../outside/passwd",
        "cat logs/../../outside/passwd",
        "cat leak",
        "cat leaks/passwd",
        "grep -r outside leaks",
        "grep outside leak",
        "grep -rh outside .",
        "head -c 100 leak",
        "find leaks",
        "ls leaks",
        "cat .env",
        "grep KEY .env",
        "cat 'logs/app.log\0'",
      ]
    ) {
      const { text } = await call("run_local_command", { command });
      assert.doesNotMatch(text, /outside-content|passwd$|in-dotenv/, command);
    }
  });
});

/** Files with secret names and their contents. */
const SECRET_PATHS =
  (".env .env.local .ENV config/secrets/db.txt tls/server.key tls/server.PEM home/.ssh/config " +
    "home/.aws/notes.txt home/.kube/cache/a.json id_ed25519 etc/shadow infra/terraform.tfstate " +
    "Credentials.json").split(" ");

Deno.test("run_local_command excludes secret files from searches", async () => {
  await withProject(async (call, root) => {
    for (const path of SECRET_PATHS) {
      await Deno.mkdir(`${root}/${path}`.replace(/\/[^/]*$/, ""), { recursive: true });
      await Deno.writeTextFile(`${root}/${path}`, `KEY is in ${path}\n`);
    }
    await Deno.writeTextFile(`${root}/logs/app.log`, "KEY is in the log\n");
    for (
      const command of [
        "grep -r KEY",
        "grep -r KEY .",
        "grep -rn KEY . logs",
        "grep --recursive KEY .",
        "grep -rh --include='*' KEY .",
        "grep -r --include=.env KEY .",
        "grep -r --include='*.key' --include='*.PEM' KEY .",
        "grep -r KEY home config etc tls infra",
        "grep -rv nothing .",
        "grep -rc KEY .",
        "grep -rL nothing .",
      ]
    ) {
      const { text } = await call("run_local_command", { command });
      for (const path of SECRET_PATHS) {
        assert.doesNotMatch(text, new RegExp(`(?:in |/|^)${path}`, "m"), command);
      }
    }
    const { text } = await call("run_local_command", { command: "grep -rh KEY ." });
    assert.match(text, /\nKEY is in the log$/);
  });
});

Deno.test("run_local_command stops at its time limit and returns the output", async () => {
  await withProject(async (call) => {
    const { ok, text } = await call("run_local_command", { command: "vmstat 10 10", timeout: 0.3 });
    assert.equal(ok, false);
    assert.match(text, /stopped after 0\.3 s|not installed/);
  });
});

const ignoreSsh = isMissing("ssh", ["/usr/bin/ssh"]) || !availableKinds().includes("openssh");

interface Scene {
  readonly call: CallTool;
  readonly callAs: (user: string) => Promise<CallTool>;
  readonly port: number;
  readonly folder: string;
  readonly hostKeyLine: string;
  setKnownHosts(text: string): Promise<void>;
}

const withHost = share<Scene>(async (use) => {
  await using folder = await temporaryFolder();
  const dir = folder.path;
  for (const name of ["ca", "id"]) {
    await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", `${dir}/${name}`]);
  }
  await run("ssh-keygen", ["-q", "-s", `${dir}/ca`, "-I", "test", "-n", "diag", `${dir}/id.pub`]);
  await Deno.mkdir(`${dir}/host`);
  const target = await startSshTarget({
    caPublicKeyLine: await Deno.readTextFile(`${dir}/ca.pub`),
    principals: { [currentUser()]: ["diag"] },
    dir: `${dir}/host`,
    forceKind: "openssh",
  });
  const callAs = (user: string) =>
    realTools({
      settings: {
        SSH_DEFAULT_USER: user,
        SSH_KEY_PATH: `${dir}/id`,
        SSH_KNOWN_HOSTS: `${dir}/known hosts`,
      },
    });
  try {
    await use({
      call: await callAs(currentUser()),
      callAs,
      port: target.port,
      folder: dir,
      hostKeyLine: target.hostKeyLine,
      setKnownHosts: (text) => Deno.writeTextFile(`${dir}/known hosts`, text),
    });
  } finally {
    await target.close();
  }
});

Deno.test("run_ssh_command rejects a host that is unknown or has another key, and adds no key", {
  ignore: ignoreSsh,
}, () =>
  withHost(async ({ call, port, folder, setKnownHosts }) => {
    const ask = () => call("run_ssh_command", { host: "127.0.0.1", port, command: "uptime" });
    const unknown = await ask();
    assert.equal(unknown.ok, false);
    assert.match(unknown.text, /known_hosts/);
    await assert.rejects(Deno.stat(`${folder}/known hosts`), Deno.errors.NotFound);
    const other = (await Deno.readTextFile(`${folder}/ca.pub`)).trim();
    await setKnownHosts(`[127.0.0.1]:${port} ${other}\n`);
    const changed = await ask();
    assert.equal(changed.ok, false);
    assert.match(changed.text, /known_hosts/);
    assert.equal(await Deno.readTextFile(`${folder}/known hosts`), `[127.0.0.1]:${port} ${other}\n`);
  }));

Deno.test("run_ssh_command runs a program on a known host, where no shell interprets its words", {
  ignore: ignoreSsh,
}, () =>
  withHost(async ({ call, port, folder, hostKeyLine, setKnownHosts }) => {
    await setKnownHosts(`[127.0.0.1]:${port} ${hostKeyLine}\n`);
    const ask = (command: string) => call("run_ssh_command", { host: "127.0.0.1", port, command });
    const { ok, text } = await ask("uname -s");
    assert.equal(ok, true, text);
    assert.match(text, /Linux$/);
    await Deno.writeTextFile(`${folder}/log`, "a | touch x\n$HOME hunter2\n");
    assert.match((await ask(`grep 'a | touch' ${folder}/log`)).text, /\na \| touch x$/);
    assert.match((await ask(`grep '\$HOME' ${folder}/log`)).text, /\n\$HOME \[REDACTED\]$/);
    assert.match((await ask(`grep '; touch ${folder}/owned;' ${folder}/log`)).text, /exit code 1/);
    assert.match((await ask("cat /no/such/file")).text, /exit code 1.*\nstderr:\n.*No such file/s);
    await assert.rejects(Deno.stat(`${folder}/owned`), Deno.errors.NotFound);
    await Deno.mkdir(`${folder}/app/.ssh`, { recursive: true });
    for (const name of ["app.log", ".env", "server.KEY", ".ssh/config"]) {
      await Deno.writeTextFile(`${folder}/app/${name}`, `found in ${name}\n`);
    }
    for (
      const options of ["-rh", "-rh --include=.env", "-h --recursive --include='*.KEY' --include='*.log'"]
    ) {
      const { text } = await ask(`grep ${options} found ${folder}/app`);
      assert.doesNotMatch(text, /found in (?!app)/, options);
    }
    assert.match((await ask(`grep -rh found ${folder}/app`)).text, /\nfound in app\.log$/);
  }));

Deno.test(
  "run_ssh_command distinguishes a rejected key from an unreachable host",
  { ignore: ignoreSsh },
  () =>
    withHost(async ({ call, callAs, port, hostKeyLine, setKnownHosts }) => {
      await setKnownHosts(`[127.0.0.1]:${port} ${hostKeyLine}\n`);
      const callOther = await callAs("nobody-here");
      const denied = await callOther("run_ssh_command", { host: "127.0.0.1", port, command: "uptime" });
      assert.match(denied.text, /rejected the key/);
      const away = await call("run_ssh_command", { host: "127.0.0.1", port: 1, command: "uptime" });
      assert.match(away.text, /is not reachable.*refused/s);
    }),
);
