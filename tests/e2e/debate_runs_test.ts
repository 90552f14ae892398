import assert from "node:assert/strict";
import { ROOT } from "../stage/service_command.ts";
import { denoDir } from "../stage/deno_dir.ts";

const MODEL = "replay/memory_leak";

/** The program, with nothing of this machine's settings. */
async function debate(args: readonly string[], folder: string) {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-q", "--no-prompt", "--cached-only", "-P=run", `${ROOT}debate/main.ts`, ...args],
    clearEnv: true,
    env: {
      PATH: Deno.env.get("PATH") ?? "",
      HOME: folder,
      DENO_DIR: denoDir(),
      DATA_DIR: `${folder}/runs`,
      DIAGNOSTIC_MODEL: MODEL,
      SKEPTIC_MODEL: MODEL,
      MODERATOR_MODEL: MODEL,
      TOOLS_ENABLED: "false",
    },
    cwd: folder,
    stdin: "null",
  }).output();
  return { code, out: new TextDecoder().decode(stdout), err: new TextDecoder().decode(stderr) };
}

async function inFolder(test: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await test(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("stored runs are listed, shown, compared, reported, exported and resumed", () =>
  inFolder(async (folder) => {
    assert.match((await debate(["runs", "list"], folder)).err, /No runs in /);
    const first = await debate(["run", "Memory grows", "since noon"], folder);
    assert.equal(first.code, 0, first.err);
    const id = /stored as ([0-9a-f]{8})/.exec(first.err)?.[1] ?? assert.fail(first.err);
    const listed = await debate(["runs", "list", "--search", "MEMORY"], folder);
    assert.match(listed.out, new RegExp(`^Run .*\\n${id}  \\d{4}-.*completed .*Memory grows since noon\\n$`));
    assert.match(
      (await debate(["runs", "show", id], folder)).out,
      /Outcome {5}no confident cause\n[^]*Status: /,
    );
    assert.match(
      (await debate(["runs", "report", id], folder)).out,
      /^# Diagnosis report: Memory grows since noon\n/,
    );
    const written = await debate(["runs", "report", id, "--html", "--output", "r.html"], folder);
    assert.deepEqual([written.code, written.out], [0, ""]);
    assert.match(await Deno.readTextFile(`${folder}/r.html`), /^<!doctype html>/);

    const resumed = await debate([
      "runs",
      "resume",
      id,
      "--evidence",
      "DB_PASSWORD=hunter22 was found",
      "--json",
    ], folder);
    assert.equal(resumed.code, 0, resumed.err);
    const record = JSON.parse(resumed.out);
    assert.equal(record.parent_run_id.slice(0, 8), id);
    assert.equal(record.events[0].type, "run_resumed");
    assert.match(record.context, /New evidence/);
    assert.doesNotMatch(record.context, /hunter22/);
    const exported = JSON.parse((await debate(["runs", "export", record.run_id], folder)).out);
    assert.deepEqual(exported, record);
    const compared = await debate(["runs", "compare", id, record.run_id.slice(0, 6)], folder);
    assert.match(compared.out, /\nHypothesis 1 +\[/);
    const both = JSON.parse((await debate(["runs", "compare", id, record.run_id, "--json"], folder)).out);
    assert.equal(both.runs[1].run_id, record.run_id);
  }));

Deno.test("commands for stored runs refuse what they cannot do with exit code 2, and show hostile records as text", () =>
  inFolder(async (folder) => {
    await Deno.mkdir(`${folder}/runs`);
    for (const [digit, topic] of [["a", "\u001b[2Jevil\u202e"], ["b", "plain"]] as const) {
      const record = {
        topic,
        status: "completed",
        events: [{ type: "final_result", content: "\u001b]0;title\u0007" }],
      };
      await Deno.writeTextFile(`${folder}/runs/${"c".repeat(31)}${digit}.json`, JSON.stringify(record));
    }
    await Deno.writeTextFile(`${folder}/runs/${"d".repeat(32)}.json`, "{");
    const id = `${"c".repeat(31)}a`;
    for (const args of [["list"], ["show", id], ["report", id], ["compare", id, id]]) {
      const { code, out } = await debate(["runs", ...args], folder);
      assert.equal(code, 0);
      // deno-lint-ignore no-control-regex -- that none is there is the point
      assert.doesNotMatch(out, /[\u001b\u0007\u202e]/, args.join(" "));
    }
    for (
      const [args, reason] of [
        [["show", "cccc"], /Several runs begin with "cccc"/],
        [["show", "abcd"], /There is no run "abcd"/],
        [["show", "abc"], /Not the id of a run/],
        [["show", "../../etc/passwd"], /Not the id of a run/],
        [["show", "dddd"], /is damaged/],
        [["resume", id], /Nothing is new/],
      ] as const
    ) {
      const { code, out, err } = await debate(["runs", ...args], folder);
      assert.deepEqual([code, out], [2, ""], args.join(" "));
      assert.match(err, reason);
    }
  }));
