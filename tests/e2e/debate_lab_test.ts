import assert from "node:assert/strict";
import { inFolder, runDebate } from "./debate_program.ts";

const lab = (args: readonly string[], folder: string, env: Readonly<Record<string, string>> = {}) =>
  runDebate(args, folder, env, "debate/lab/main.ts");

const SHORT = ["--offline", "weak", "--runs", "1", "--only", "public_holiday", "--only", "poison_message"];

Deno.test("debate:lab --offline compares, says no where there is nothing to see, and writes a report", () =>
  inFolder(async (folder) => {
    const { code, out, err } = await lab(
      [...SHORT, "--report", "r.html", "--output", "r.json"],
      folder,
    );
    assert.equal(code, 0, err);
    assert.match(out, /^2 incidents, 1 runs each/);
    assert.match(out, /debate_three against single: right 0 points \(0 to 0\), no difference shown/);
    assert.match(out, /scripted agents know the incidents/);
    assert.match(err, /\n12\/12 public_holiday blind 1: wrong at 0\.60/);
    assert.match(
      await Deno.readTextFile(`${folder}/r.html`),
      /<svg [^]*Does debating help|Does debating help[^]*<svg /,
    );
    const { arms, trials } = JSON.parse(await Deno.readTextFile(`${folder}/r.json`));
    assert.equal(arms.length, 6);
    assert.equal(trials.some(({ confident }: { confident: boolean }) => confident), false);
  }));

Deno.test("debate:lab runs a registered protocol and no other", () =>
  inFolder(async (folder) => {
    const registered = await lab([...SHORT, "--register"], folder);
    const { protocol_sha256: hash, protocol } = JSON.parse(registered.out);
    assert.equal(protocol.runs, 1);
    assert.equal(registered.err, "");
    assert.equal((await lab([...SHORT, "--arm", "single", "--expect", hash], folder)).code, 2);
    assert.equal((await lab([...SHORT, "--expect", hash], folder)).code, 0);
    const other = await lab([...SHORT, "--expect", hash], folder, { MAX_TOOL_CALLS_PER_AGENT: "3" });
    assert.match(other.err, /The protocol is not the registered one/);
  }));

Deno.test("debate:lab reads a folder of Cloud-OpsBench", () =>
  inFolder(async (folder) => {
    for (const [number, object] of [["1", "app/adservice"], ["2", "app/cartservice"]] as const) {
      const path = `${folder}/set/boutique/admission/${number}`;
      await Deno.mkdir(path, { recursive: true });
      const result = { fault_object: object, root_cause: "missing_service_account" };
      await Deno.writeTextFile(
        `${path}/metadata.json`,
        JSON.stringify({ namespace: "boutique", query: "Down.", result }),
      );
      await Deno.writeTextFile(
        `${path}/tool_cache.json`,
        JSON.stringify({ 'GetAppYAML:{"app_name":"x"}': "a: b" }),
      );
    }
    const { code, out, err } = await lab([
      "--incidents",
      "set",
      "--offline",
      "--runs",
      "1",
      "--arm",
      "single",
      "--json",
    ], folder);
    assert.equal(code, 0, err);
    const { trials } = JSON.parse(out);
    assert.deepEqual(trials.map(({ incident }: { incident: string }) => incident), [
      "boutique.admission.1",
      "boutique.admission.2",
    ]);
    const empty = await lab(["--incidents", "nowhere", "--offline"], folder);
    assert.deepEqual([empty.code, /there is no such folder/.test(empty.err)], [2, true]);
  }));
