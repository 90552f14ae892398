import assert from "node:assert/strict";
import { startScenario } from "../debate/scenario_fixture.ts";
import { poll } from "../stage/poll.ts";
import { freePort } from "../stage/free_port.ts";
import { inFolder, runDebate, runDebateHere, spawnDebate } from "./debate_program.ts";

const REPLAY = {
  DIAGNOSTIC_MODEL: "replay/memory_leak",
  SKEPTIC_MODEL: "replay/memory_leak",
  MODERATOR_MODEL: "replay/memory_leak",
};

const inHome = (folder: string) => ({
  XDG_DATA_HOME: `${folder}/data`,
  XDG_CONFIG_HOME: `${folder}/config`,
});
const debate = (args: readonly string[], folder: string, env: Readonly<Record<string, string>> = {}) =>
  runDebateHere(args, folder, { ...inHome(folder), ...env });

Deno.test("debate plays a scenario with real tools: result on stdout, progress on stderr", () =>
  inFolder(async (folder) => {
    await Deno.mkdir(`${folder}/world`);
    await using world = await startScenario("memory_leak", `${folder}/world`);
    await Deno.writeTextFile(`${folder}/incident.md`, `${world.incident}\nDB_PASSWORD=hunter22\n`);
    const { code, out, err } = await runDebate(["--file", "incident.md", "--show-history"], folder, {
      ...inHome(folder),
      ...REPLAY,
      ...world.settings,
    });
    assert.equal(code, 0, err);
    assert.match(out, /^Round 1: Primary Diagnosis\n-+\n/);
    assert.match(out, /\nFinal result\n-+\nStatus: final_diagnosis\n/);
    assert.match(out, /- H-1 \[confirmed\]: /);
    assert.match(err, /^Tools +http_get, git_recent_changes, run_local_command; /m);
    assert.match(err, /^Off +query_prometheus, list_prometheus \(PROMETHEUS_URL is not set\);/m);
    assert.match(err, /Round 2\n\nPrimary Diagnosis\n/);
    assert.match(err, /> git_recent_changes repo_path=/);
    assert.match(err, /< ok, \d+ ms\n/);
    assert.doesNotMatch(err, /< failed/);
    assert.match(err, /note: 1 secret was masked in the context\n/);
    // deno-lint-ignore no-control-regex -- that none is printed is what must hold
    assert.doesNotMatch(out + err, /\x1b/);
    const audit = await Deno.readTextFile(`${folder}/data/debate/runs/audit.jsonl`);
    const lines = audit.trim().split("\n").map((line) => JSON.parse(line));
    assert.ok(lines.length >= 4);
    for (const { run_id, approval } of lines) {
      assert.match(run_id, /^[0-9a-f]{32}$/);
      assert.equal(approval, "auto");
    }
  }));

Deno.test("debate benchmark scores the record of debate run --json", () =>
  inFolder(async (folder) => {
    const { code, out, err } = await debate(
      ["run", "The memory grows, token=hunter2hunter2", "--json"],
      folder,
      { ...REPLAY, ENABLED_TOOLS: "http_get" },
    );
    assert.equal(code, 0, err);
    // Nobody can approve another host.
    assert.match(err, /^Off +http_get \(HTTP_ALLOWED_HOSTS\s+is\s+not\s+set\)/m);
    const record = JSON.parse(out);
    assert.equal(record.status, "completed");
    assert.equal(record.topic, "The memory grows, token=[REDACTED]");
    assert.equal(record.events.at(-1).type, "run_finished");
    assert.ok(record.events.every(({ type }: { type: string }) => type !== "agent_delta"));
    await Deno.writeTextFile(`${folder}/run.json`, out);
    const cases = [
      {
        id: "leak",
        ground_truth: "The price cache of 4.12.0 keeps an entry for every cart",
        run_file: "run.json",
      },
      { id: "gone", ground_truth: "x", run_file: "gone.json" },
    ];
    await Deno.writeTextFile(`${folder}/cases.json`, JSON.stringify(cases));
    const judged = await debate(["benchmark", "--cases", "cases.json", "--output", "report.json"], folder);
    assert.equal(judged.code, 0, judged.err);
    assert.match(judged.out, /^Case +Top-1/);
    assert.match(judged.out, /\nTop-1 accuracy +50%/);
    assert.match(judged.out, /gone: "gone\.json" cannot be read/);
    const report = JSON.parse(await Deno.readTextFile(`${folder}/report.json`));
    assert.deepEqual([report.cases_total, report.cases[0].top1, report.cases[1].top1], [2, true, false]);
    const asJson = await debate(["benchmark", "--cases", "cases.json", "--json"], folder);
    assert.deepEqual(JSON.parse(asJson.out).metrics, report.metrics);
  }));

Deno.test.each([
  { name: "no topic", args: [], reason: /there is no topic\nfix: debate "/ },
  {
    name: "a misspelled command",
    args: ["serv"],
    reason: /Unknown command "serv"; .*\nfix: debate run serv$/m,
  },
  {
    name: "help on no command",
    args: ["help", "serv"],
    reason: /Unknown command; the commands are listed above/,
  },
  {
    name: "an empty file name",
    args: ["a b", "--file", ""],
    reason: /--file <file>' argument '' .* The value is empty/,
  },
  {
    name: "an unknown option",
    args: ["a b", "--projekt", "."],
    reason: /Unknown option '--projekt' .*\nfix: debate --help$/m,
  },
  {
    name: "a run to show without its id",
    args: ["runs", "show"],
    reason: /argument 'id'\nfix: debate runs show --help$/m,
  },
  {
    name: "a misspelled command of runs",
    args: ["runs", "shw", "list"],
    reason: /'shw' .*\nfix: debate runs --help$/m,
  },
  { name: "a number out of range", args: ["a b", "--max-files", "0"], reason: /from 1 to 10000/ },
  { name: "a threshold above 1", args: ["a b", "--early-out-threshold", "1.5"], reason: /from 0 to 1/ },
  {
    name: "a forgotten value",
    args: ["a b", "--file", "--json"],
    reason: /The option needs a value\. For a file named -x, write/,
  },
  {
    name: "a missing file",
    args: ["-f", "gone.md"],
    reason: /Cannot read "gone\.md": no such file/,
  },
  { name: "a directory instead of a file", args: ["-f", "."], reason: /Cannot read "\.": / },
  { name: "a project out of bounds", args: ["--project", "/etc"], reason: /ALLOWED_PROJECT_ROOTS/ },
  {
    name: "globs without a project",
    args: ["a b", "--include", "*.ts"],
    reason: /--include has no effect without/,
  },
  { name: "a missing scenario", args: ["a b"], env: { DIAGNOSTIC_MODEL: "replay/gone" }, reason: /gone/ },
  { name: "a setting out of range", args: ["a b"], env: { MAX_ROUNDS: "11" }, reason: /MAX_ROUNDS/ },
  {
    name: "a login without settings",
    args: ["login"],
    reason: /set ASSIST_DEVICE_CODE_URL, .*ASSIST_CLIENT_ID/,
  },
  { name: "a benchmark without cases", args: ["benchmark"], reason: /--cases/ },
  {
    name: "missing cases",
    args: ["benchmark", "--cases", "x.json"],
    reason: /Cannot read "x\.json": no such file/,
  },
  {
    name: "no such built-in prompt",
    args: ["prompts", "--show", "x.en"],
    reason: /Unknown template "x\.en", use one of /,
  },
])("debate rejects $name with exit code 2", ({ args, env, reason }) =>
  inFolder(async (folder) => {
    const { code, out, err } = await debate(args, folder, { ...REPLAY, ...env });
    assert.match(err, reason);
    assert.deepEqual([code, out], [2, ""]);
  }));

Deno.test("debate rejects invalid cases with exit code 2 and a JSON error", () =>
  inFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/cases.json`, '[{"id":"a","ground_truth":"x"}]');
    const { code, err } = await debate(["benchmark", "--cases", "cases.json", "--json"], folder);
    const { code: name, message } = JSON.parse(err);
    assert.deepEqual([code, name], [2, "invalid_config"]);
    assert.match(message, /case 1: needs either "run" or "run_file"$/);
  }));

const MINE = '{"mine": {"base_url": "http://127.0.0.1:9/v1", "key_variable": "MODEL_KEY_MINE"}}';

Deno.test.each([
  {
    name: "no URL",
    env: {},
    reason: /its provider has no URL; set ASSIST_BASE_URL, or choose another model/,
  },
  {
    name: "no token",
    env: { ASSIST_BASE_URL: "http://127.0.0.1:9" },
    reason: /set ASSIST_TOKEN or run `debate login`/,
  },
  {
    name: "no key",
    env: { MODEL_PROVIDERS: MINE, DIAGNOSTIC_MODEL: "mine/m" },
    reason: /there is no access token; set MODEL_KEY_MINE/,
  },
  {
    name: "no server",
    args: ["--model", "mine/m", "--skeptic-model", "mine/n"],
    env: { MODEL_PROVIDERS: MINE, MODEL_KEY_MINE: "k" },
    reason:
      /Diagnostic +mine\/m\nSkeptic +mine\/n\nModerator +mine\/m\n[^]*"mine\/m" gave no reply: .*reached/,
  },
])(
  "debate with $name for its model fails with exit code 1 and names the setting",
  ({ env, reason, args = [] }) =>
    inFolder(async (folder) => {
      const { code, out, err } = await debate(["The API is slow", ...args], folder, env);
      assert.match(err, reason);
      assert.deepEqual([code, out], [1, ""]);
    }),
);

Deno.test("debate reads .env, and environment variables take precedence", () =>
  inFolder(async (folder) => {
    await Deno.writeTextFile(
      `${folder}/.env`,
      "MAX_ROUNDS=3\nEARLY_OUT_THRESHOLD=0.5\nTOOLS_ENABLED=false\n",
    );
    const { err } = await debate(["a b", "--early-out-threshold", "0.95"], folder, {
      ...REPLAY,
      MAX_ROUNDS: "2",
    });
    assert.match(err, /at most 2,/);
    assert.match(err, /early end from 0\.95\n/);
    assert.match(err, /Tools +none\n/);
  }));

Deno.test("debate reports file, line and reason of a broken template if it is selected", () =>
  inFolder(async (folder) => {
    const prompts = `${folder}/data/debate/prompts`;
    await Deno.mkdir(prompts, { recursive: true });
    await Deno.writeTextFile(`${prompts}/errors.es.yaml`, "name: errors\nlanguage: es\nversion: x\n");
    const reason = /errors\.es\.yaml": \d problems\n(?:.*\n)* {2}line 3: version must be a whole number/;
    const chosen = await debate(["a b", "--template", "errors", "--language", "es"], folder, REPLAY);
    assert.match(chosen.err, reason);
    assert.deepEqual([chosen.code, chosen.out], [2, ""]);
    const listed = await debate(["prompts"], folder);
    assert.match(listed.err, reason);
    assert.equal(listed.code, 2);
    assert.equal((await debate(["a b", "--template", "errors"], folder, REPLAY)).code, 0);
  }));

Deno.test("debate reports the substitute of a missing template", () =>
  inFolder(async (folder) => {
    const { code, err } = await debate(["a b", "--template", "gone", "--language", "es"], folder, REPLAY);
    assert.match(err, /note: template "gone" \(es\) does not exist, using "default" \(es\)\n/);
    assert.equal(code, 0);
  }));

Deno.test("debate prompts lists the built-in templates as text and as JSON", () =>
  inFolder(async (folder) => {
    const { code, out } = await debate(["prompts"], folder);
    assert.equal(code, 0);
    assert.equal(out.split("\n").filter((line) => line.includes("builtin")).length, 10);
    const { templates } = JSON.parse((await debate(["prompts", "--json"], folder)).out);
    assert.equal(templates.length, 10);
    assert.match(
      (await debate(["prompts", "--show", "errors.es"], folder)).out,
      /^name: errors\nlanguage: es\n/,
    );
  }));

Deno.test("Ctrl-C stops a debate with exit code 130 and no result", () =>
  inFolder(async (folder) => {
    await Deno.mkdir(`${folder}/scenarios`);
    const scenario = { rounds: [{ diagnostic_agent: [{ text: "Let me think.", delay_ms: 600_000 }] }] };
    await Deno.writeTextFile(`${folder}/scenarios/slow.json`, JSON.stringify(scenario));
    const model = "replay/slow";
    const child = spawnDebate(["It hangs here"], folder, {
      ...inHome(folder),
      REPLAY_DIR: `${folder}/scenarios`,
      DIAGNOSTIC_MODEL: model,
      SKEPTIC_MODEL: model,
      MODERATOR_MODEL: model,
    });
    let err = "";
    const read = child.stderr.pipeThrough(new TextDecoderStream()).pipeTo(
      new WritableStream({ write: (text) => void (err += text) }),
    );
    const out = new Response(child.stdout).text();
    await poll(() => Promise.resolve(err.includes("Primary Diagnosis")), { what: "the debate to begin" });
    child.kill("SIGINT");
    const { code } = await child.status;
    await read;
    assert.match(err, /Stopped without a result\.\n$/);
    assert.deepEqual([code, await out], [130, ""]);
  }));

Deno.test("debate --help and the help of its commands fit into 80 columns", () =>
  inFolder(async (folder) => {
    for (const command of ["", "run", "serve", "login", "benchmark", "runs", "prompts"]) {
      const { code, out, err } = await debate([...(command === "" ? [] : [command]), "--help"], folder);
      assert.deepEqual([code, err], [0, ""]);
      assert.match(out, command === "" ? /Start here/ : /Examples:|Needs an OAuth/);
      for (const line of out.split("\n")) assert.ok(line.length <= 80, line);
    }
  }));

Deno.test("debate serve responds until Ctrl-C, then exits with code 0", () =>
  inFolder(async (folder) => {
    const child = spawnDebate(["serve", "--port", String(freePort())], folder, inHome(folder));
    let err = "";
    const read = child.stderr.pipeThrough(new TextDecoderStream()).pipeTo(
      new WritableStream({ write: (text) => void (err += text) }),
    );
    const url = () => /http:\/\/127\.0\.0\.1:\d+/.exec(err)?.[0];
    await poll(() => url() !== undefined, { what: "the address" });
    const answer = await fetch(`${url()}/api/prompts`);
    assert.equal((await answer.json()).templates.length, 10);
    child.kill("SIGINT");
    const { code } = await child.status;
    await read;
    assert.equal(await new Response(child.stdout).text(), "");
    assert.equal(code, 0, err);
  }));
