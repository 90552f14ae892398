import assert from "node:assert/strict";
import { inFolder, runDebateHere } from "./debate_program.ts";

const MODEL = "replay/memory_leak";

const debate = (args: readonly string[], folder: string) =>
  runDebateHere(args, folder, {
    DATA_DIR: `${folder}/runs`,
    DIAGNOSTIC_MODEL: MODEL,
    SKEPTIC_MODEL: MODEL,
    MODERATOR_MODEL: MODEL,
    TOOLS_ENABLED: "false",
  });

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
      const found = ["\u001b", "\u0007", "\u202e"].filter((each) => out.includes(each));
      assert.deepEqual(found, [], args.join(" "));
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
