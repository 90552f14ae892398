import assert from "node:assert/strict";
import { realTools, temporaryFolder } from "./debate_tools_fixture.ts";
import { isMissing } from "../stage/is_missing.ts";
import { systemClock } from "@gateway/shared/clock";
import { createProgramRunner, type ProgramRequest } from "../../debate/tools/run_program.ts";
import { poll } from "../stage/poll.ts";
import { freePort } from "../stage/free_port.ts";

/** A server that checks requests as strictly as the real one. */
function serve(handler: (request: Request, url: URL) => Response | Promise<Response>) {
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    (request) => handler(request, new URL(request.url)),
  );
  return { url: `http://127.0.0.1:${server.addr.port}`, [Symbol.asyncDispose]: () => server.shutdown() };
}

Deno.test("query_loki works with the API of Loki", async () => {
  await using server = serve((request, url) => {
    if (request.method !== "GET" || url.pathname !== "/loki/api/v1/query_range") {
      return new Response("404 page not found", { status: 404 });
    }
    const { query = "", start = "", end = "", limit = "" } = Object.fromEntries(url.searchParams);
    if (
      !/^\d{19}$/.test(start) || !/^\d{19}$/.test(end) || BigInt(start) >= BigInt(end) || !/^\d+$/.test(limit)
    ) {
      return new Response("end timestamp must not be before or equal to start time", { status: 400 });
    }
    if (!query.startsWith("{")) {
      return new Response("parse error at line 1, col 1: syntax error", { status: 400 });
    }
    const values = Array.from(
      { length: Number(limit) },
      (_, at) => [String(BigInt(end) - BigInt(at)), `line ${at}`],
    );
    return Response.json({
      status: "success",
      data: { resultType: "streams", result: [{ stream: { app: "web" }, values }], stats: {} },
    });
  });
  const call = await realTools({ settings: { LOKI_URL: server.url } });
  const { ok, text } = await call("query_loki", { query: '{app="web"} |= "a b&c"', limit: 2 });
  assert.equal(ok, true, text);
  assert.match(text, /\n\{app="web"\}\n {2}\d{4}-.*Z line 0\n {2}\d{4}-.*Z line 1$/);
  const wrong = await call("query_loki", { query: "app" });
  assert.equal(wrong.ok, false);
  assert.match(wrong.text, /responded 400: parse error/);
});

Deno.test("query_elasticsearch works with the API of Elasticsearch", async () => {
  await using server = serve(async (request, url) => {
    if (request.headers.get("authorization") !== `Basic ${btoa("elastic:pw")}`) {
      return Response.json({ error: "missing" }, { status: 401 });
    }
    const [, index, action] = url.pathname.split("/");
    if (request.method !== "POST" || action !== "_search") {
      return Response.json({ error: "no handler" }, { status: 405 });
    }
    if (request.headers.get("content-type") !== "application/json") {
      return Response.json({ error: "406" }, { status: 406 });
    }
    if (index !== "logs-*") {
      return Response.json({ error: { type: "index_not_found_exception" }, status: 404 }, { status: 404 });
    }
    const { size } = await request.json() as { size: number };
    const hits = Array.from(
      { length: Math.min(size, 3) },
      (_, at) => ({ _index: "logs-1", _id: String(at), _score: 1, _source: { at } }),
    );
    return Response.json({
      took: 1,
      timed_out: false,
      _shards: {},
      hits: { total: { value: 3, relation: "eq" }, max_score: 1, hits },
    });
  });
  const call = await realTools({
    settings: { ELASTICSEARCH_URL: server.url.replace("//", "//elastic:pw@") },
  });
  const { ok, text } = await call("query_elasticsearch", { index: "logs-*", query_json: "{}", size: 2 });
  assert.equal(ok, true, text);
  assert.match(text, /: 3 hits, 2 shown .*\nlogs-1 \{"at":0\}\nlogs-1 \{"at":1\}$/);
  assert.match(
    (await call("query_elasticsearch", { index: "other", query_json: "{}" })).text,
    /responded 404: .*index_not_found/,
  );
});

Deno.test("an endless response of a backend is a failure with bounded memory", async () => {
  await using server = serve(() =>
    new Response(
      new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(65_536).fill(0x20)) }),
    )
  );
  const call = await realTools({ settings: { PROMETHEUS_URL: server.url } });
  const { ok, text } = await call("query_prometheus", { query: "up" });
  assert.equal(ok, false);
  assert.match(text, /larger than 4194304 bytes/);
});

const ignore = isMissing("git", ["/usr/bin/git", "/usr/local/bin/git"]);

async function git(cwd: string, ...args: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command("git", {
    args: [
      "-c",
      "user.name=Ada",
      "-c",
      "user.email=ada@example.com",
      "-c",
      "init.defaultBranch=main",
      ...args,
    ],
    cwd,
    clearEnv: true,
    env: { PATH: "/usr/local/bin:/usr/bin:/bin", GIT_CONFIG_GLOBAL: "/dev/null" },
  }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
}

async function createRepository(path: string): Promise<void> {
  await Deno.mkdir(path, { recursive: true });
  await git(path, "init", "-q");
  await Deno.writeTextFile(`${path}/a.txt`, "1\n2\n");
  await git(path, "add", ".");
  await git(path, "commit", "-q", "-m", "first");
  await Deno.writeTextFile(`${path}/a.txt`, "1\n3\n");
  await git(path, "commit", "-q", "-am", "set the pool to hunter2");
}

Deno.test({
  name: "git_recent_changes shows commits with dates and changed files",
  ignore,
  fn: async () => {
    await using folder = await temporaryFolder();
    await createRepository(`${folder.path}/app`);
    const call = await realTools({ roots: [`${folder.path}/app`] });
    const { ok, text } = await call("git_recent_changes", { count: 5 });
    assert.equal(ok, true, text);
    assert.match(text, /^git log of \., 5 at most: exit code 0 \[\d+ ms\]/);
    assert.match(
      text,
      /[0-9a-f]{7} \d{4}-\d\d-\d\dT\S+ Ada: set the pool to \[REDACTED\]\n+ a\.txt \| 2 \+-/,
    );
    assert.match(text, /Ada: first/);
    assert.doesNotMatch((await call("git_recent_changes", { count: 1 })).text, /Ada: first/);
    assert.equal((await call("git_recent_changes", { repo_path: `${folder.path}/app` })).ok, true);
  },
});

Deno.test({
  name: "git_recent_changes runs no program from the configuration of a repository",
  ignore,
  fn: async () => {
    await using folder = await temporaryFolder();
    const repository = `${folder.path}/app`;
    const owned = `${folder.path}/owned`;
    await createRepository(repository);
    await Deno.writeTextFile(`${folder.path}/evil.sh`, `#!/bin/sh\ntouch ${owned}\n`, { mode: 0o755 });
    await Deno.writeTextFile(`${repository}/.gitattributes`, "*.txt diff=evil\n");
    const evil = `${folder.path}/evil.sh`;
    for (
      const [key, value] of [
        ["core.pager", evil],
        ["core.fsmonitor", evil],
        ["diff.external", evil],
        ["diff.evil.textconv", evil],
        ["diff.evil.command", evil],
        ["log.showSignature", "true"],
        ["gpg.program", evil],
        ["core.sshCommand", evil],
        ["alias.log", `!${evil}`],
        ["core.hooksPath", folder.path],
      ] as const
    ) await git(repository, "config", key, value);
    const call = await realTools({ roots: [repository] });
    const { ok, text } = await call("git_recent_changes", {});
    assert.equal(ok, true, text);
    await assert.rejects(Deno.stat(owned), Deno.errors.NotFound);
  },
});

Deno.test({
  name: "git_recent_changes stays in the roots, despite links and .git files",
  ignore,
  fn: async () => {
    await using folder = await temporaryFolder();
    await createRepository(`${folder.path}/outside`);
    const root = `${folder.path}/root`;
    await Deno.mkdir(`${root}/plain`, { recursive: true });
    await Deno.mkdir(`${root}/pointing`);
    await Deno.writeTextFile(`${root}/pointing/.git`, `gitdir: ${folder.path}/outside/.git\n`);
    await Deno.symlink(`${folder.path}/outside`, `${root}/link`);
    const call = await realTools({ roots: [root] });
    for (
      const repo_path of [
        "link",
        "pointing",
        "plain",
        "../outside",
        `${folder.path}/outside`,
        "--help",
        "-C/etc",
      ]
    ) {
      const { ok, text } = await call("git_recent_changes", { repo_path });
      assert.equal(ok, false, repo_path);
      assert.doesNotMatch(text, /Ada/);
    }
    // A repository that encloses a root is outside the root.
    await createRepository(folder.path);
    assert.equal((await call("git_recent_changes", { repo_path: "plain" })).ok, false);
  },
});

const runProgram = createProgramRunner(systemClock);
const signal = () => new AbortController().signal;

async function run(program: string, args: readonly string[], more: Partial<ProgramRequest> = {}) {
  return await runProgram({ program, args, cwd: "/", signal: signal(), ...more });
}

Deno.test("createProgramRunner() returns both outputs and the exit code", async () => {
  const { code, stdout, stderr, stopped } = await run("sh", ["-c", "echo out; echo err >&2; exit 3"]);
  assert.deepEqual({ code, stdout, stderr, stopped }, {
    code: 3,
    stdout: "out\n",
    stderr: "err\n",
    stopped: undefined,
  });
});

Deno.test("createProgramRunner() does not pass the environment of this process", async () => {
  assert.ok(Deno.env.has("HOME"), "there is something that could be passed on");
  const { stdout } = await run("env", [], { env: { EXTRA: "1" } });
  const names = stdout.trim().split("\n").map((line) => line.split("=")[0]);
  assert.deepEqual(names.toSorted(), ["EXTRA", "LC_ALL", "PAGER", "PATH", "TERM"]);
});

Deno.test("createProgramRunner() passes words unchanged and closes stdin", async () => {
  const words = ["$(id)", "; id", "a b", "*", "'", "-n"];
  const { stdout } = await run("printf", ["%s|", ...words]);
  assert.equal(stdout, words.map((word) => `${word}|`).join(""));
  assert.equal((await run("cat", [])).stdout, "");
});

Deno.test("createProgramRunner() reports a missing program", async () => {
  await assert.rejects(run("no-such-program", []), {
    name: "ToolFailure",
    message: /no-such-program is not installed/,
  });
});

Deno.test("createProgramRunner() stops an endless writer at the limit and keeps its output", async () => {
  const { stopped, stdout } = await run("yes", [], { maxBytes: 10_000 });
  assert.equal(stopped, "output");
  assert.equal(stdout.length, 10_000);
});

Deno.test("createProgramRunner() drops a truncated word, which may be part of a secret", async () => {
  const { stopped, stdout } = await run("sh", ["-c", "echo a; printf 'b https://u:hunter2@h'; yes"], {
    maxBytes: 18,
  });
  assert.deepEqual([stopped, stdout], ["output", "a\nb "]);
});

Deno.test("createProgramRunner() limits both outputs together", async () => {
  const { stopped, stdout, stderr } = await run("sh", ["-c", "yes & yes >&2"], { maxBytes: 10_000 });
  assert.equal(stopped, "output");
  assert.ok(stdout.length + stderr.length <= 10_000);
});

Deno.test("createProgramRunner() kills a program with all its children when the signal is aborted", async () => {
  const marker = `3${Math.floor(Math.random() * 1e8)}`;
  const stop = new AbortController();
  const running = run("sh", ["-c", `echo first; exec >/dev/null 2>&1; sleep ${marker} & sleep ${marker}`], {
    signal: stop.signal,
  });
  await poll(async () => await countSleeps(marker) === 2, { what: "both children" });
  stop.abort();
  const { stopped, stdout } = await running;
  assert.equal(stopped, "signal");
  assert.equal(stdout, "first\n");
  await poll(async () => await countSleeps(marker) === 0, { what: "the end of both children" });
});

Deno.test("createProgramRunner() kills a child that outlives its parent and keeps the output open", async () => {
  const marker = `4${Math.floor(Math.random() * 1e8)}`;
  const { code, stdout } = await run("sh", ["-c", `sleep ${marker} & echo gone`]);
  assert.equal(code, 0);
  assert.equal(stdout, "gone\n");
  await poll(async () => await countSleeps(marker) === 0, { what: "the end of the child" });
});

Deno.test("createProgramRunner() does not start with an aborted signal", async () => {
  const stop = AbortSignal.abort(new Error("over"));
  await assert.rejects(runProgram({ program: "true", args: [], cwd: "/", signal: stop }), /over/);
});

async function countSleeps(marker: string): Promise<number> {
  const { stdout } = await new Deno.Command("ps", { args: ["-eo", "args="] }).output();
  return new TextDecoder().decode(stdout).split("\n").filter((line) => line === `sleep ${marker}`).length;
}

const ignorePrometheus = isMissing("prometheus", ["/usr/bin/prometheus", "/usr/local/bin/prometheus"]);

Deno.test({
  name: "query_prometheus works with a real Prometheus",
  ignore: ignorePrometheus,
  fn: async () => {
    await using folder = await temporaryFolder();
    const port = freePort();
    await Deno.writeTextFile(
      `${folder.path}/prometheus.yml`,
      `global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]\nscrape_configs: [{job_name: self, static_configs: [{targets: ["127.0.0.1:${port}"]}]}]\n`,
    );
    await Deno.writeTextFile(
      `${folder.path}/rules.yml`,
      "groups: [{name: a, rules: [{alert: Down, expr: up == 1}, {record: 'up:sum', expr: sum(up)}]}]\n",
    );
    const server = new Deno.Command("prometheus", {
      args: [
        `--config.file=${folder.path}/prometheus.yml`,
        `--storage.tsdb.path=${folder.path}/data`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      cwd: folder.path,
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    try {
      const call = await realTools({ settings: { PROMETHEUS_URL: `http://127.0.0.1:${port}` } });
      const ask = (query: string) => call("query_prometheus", { query });
      await poll(async () => (await ask("up")).text.includes("} => 1"), {
        what: "a first scrape",
        intervalMs: 100,
      });
      const up = await ask('up{job="self"}');
      assert.equal(up.ok, true);
      assert.match(
        up.text,
        /^PromQL up\{job="self"\}: vector, 1 line \[\d+ ms\]\nup\{instance="127\.0\.0\.1:\d+", job="self"\} => 1$/,
      );
      assert.match((await ask("1 + 1")).text, /scalar, 1 line \[\d+ ms\]\n2$/);
      assert.match((await ask("up[10s]")).text, /matrix.*\nup\{.*\} => 1 at \d{4}-/);
      assert.match((await ask("nothing_like_this")).text, /\(no series\)/);
      assert.match((await ask('{__name__=~".+"}')).text, /\(\d+ more, not shown: aggregate or filter\)$/);
      const ranged = () => call("query_prometheus", { query: "up", start: "10s", step: "1s" });
      await poll(async () => /step 1s: matrix, 1 line.*\nup\{.*\} => 1 at .*Z/.test((await ranged()).text), {
        what: "a sample in the range",
        intervalMs: 100,
      });
      const range = await ranged();
      assert.ok(
        range.chart?.series[0]?.points.every(([ms, value]) => value === 1 && Date.now() - ms < 60_000),
      );
      const list = async (args: object) => (await call("list_prometheus", args)).text;
      assert.match(await list({ what: "metrics" }), /metrics: 2\d\d .*more, not shown: .*prometheus_\* \d+/s);
      assert.match(await list({ what: "metrics", search: "head_series" }), /\nprometheus_tsdb_head_series\n/);
      assert.match(await list({ what: "metrics", match: "{job='none'}" }), /: 0 .*\(nothing\)$/s);
      assert.match(await list({ what: "labels" }), /\njob\n/);
      assert.match(await list({ what: "labels", label: "job" }), /labels job: 1 .*\nself$/);
      assert.match(
        await list({ what: "rules" }),
        /\nDown \(\w+\): up == 1\nup:sum \(recording\): sum\(up\)$/,
      );
      await poll(async () => /\nDown\{.*job="self".*\} firing since 2/.test(await list({ what: "alerts" })), {
        what: "an alert",
        intervalMs: 100,
      });
      const wrong = await ask("up{");
      assert.equal(wrong.ok, false);
      assert.match(wrong.text, /responded 400: .*parse error/);
    } finally {
      server.kill("SIGKILL");
      await server.status;
    }
  },
});
