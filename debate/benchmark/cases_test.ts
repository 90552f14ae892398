import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { loadRun, parseCases } from "./cases.ts";

const RUN = { status: "completed", hypotheses: [{ id: "H-1", text: "slow disk", state: "active" }] };

Deno.test("parseCases() reads inline records and paths, one truth or several", () => {
  const text = JSON.stringify([
    { id: "a", ground_truth: "slow disk", run: RUN, note: "seen in May" },
    { id: 7, ground_truth: ["x", "y"], run_file: "runs/7.json" },
  ]);
  assert.deepEqual(parseCases(text, "cases.json"), [
    { id: "a", ground_truth: ["slow disk"], run: RUN, note: "seen in May" },
    { id: "7", ground_truth: ["x", "y"], run_file: "runs/7.json" },
  ]);
});

Deno.test.each([
  { name: "text that is not JSON", text: "[", reason: /not JSON/ },
  { name: "an object", text: "{}", reason: /expected a JSON array of cases$/ },
  { name: "no cases", text: "[]", reason: /it has no cases$/ },
  { name: "a case that is not an object", text: "[1]", reason: /case 1: expected an object$/ },
  {
    name: "a case without an id",
    text: '[{"ground_truth":"x","run":{}}]',
    reason: /case 1: id must be a text$/,
  },
  {
    name: "a case without a truth",
    text: '[{"id":"a","run":{}}]',
    reason: /case 1: ground_truth must be a text/,
  },
  {
    name: "an empty truth",
    text: '[{"id":"a","ground_truth":" ","run":{}}]',
    reason: /case 1: ground_truth must be a text, or a list of texts, that is not empty$/,
  },
  { name: "no truths", text: '[{"id":"a","ground_truth":[],"run":{}}]', reason: /case 1: ground_truth/ },
  {
    name: "neither a record nor a path",
    text: '[{"id":"a","ground_truth":"x"}]',
    reason: /case 1: needs either "run" or "run_file"$/,
  },
  {
    name: "both a record and a path",
    text: '[{"id":"a","ground_truth":"x","run":{},"run_file":"f"}]',
    reason: /case 1: needs either "run" or "run_file", not both$/,
  },
  {
    name: "the same id twice",
    text: '[{"id":"a","ground_truth":"x","run":{}},{"id":"a","ground_truth":"y","run":{}}]',
    reason: /case 2: id "a" is given twice$/,
  },
  {
    name: "several problems at once",
    text: "[1,2]",
    reason: /case 1: expected an object; case 2: expected an object$/,
  },
])("parseCases() refuses $name", ({ text, reason }) => {
  assert.throws(
    () => parseCases(text, "cases.json"),
    (error) => error instanceof AppError && error.code === "invalid_config" && reason.test(error.message),
  );
});

async function reasonOf(readText: () => Promise<string>) {
  const { run } = await loadRun({ id: "a", ground_truth: ["x"], run_file: "r.json" }, readText);
  return typeof run === "string" ? run : "facts";
}

Deno.test("loadRun() reads the record of a file", async () => {
  assert.equal(await reasonOf(() => Promise.resolve(JSON.stringify(RUN))), "facts");
});

Deno.test("loadRun() keeps a case whose file cannot be read, with the reason", async () => {
  assert.equal(await reasonOf(() => Promise.reject(new Error("gone"))), '"r.json" cannot be read');
  assert.equal(await reasonOf(() => Promise.resolve("{")), '"r.json" is not JSON');
  assert.equal(await reasonOf(() => Promise.resolve("[]")), "it is not the record of a run");
});
