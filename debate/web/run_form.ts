import { AppError } from "@gateway/shared/errors";
import type { ProjectRequest } from "../context/project.ts";
import { EFFORTS, forDebaters, type Settings } from "../settings/config.ts";
import { describeModelIds, splitModelId } from "../settings/model_providers.ts";
import type { RunOptions } from "../runs/live_run.ts";
import { RUN_MODES } from "../engine/ports.ts";
import type { Form } from "./form.ts";

const MAX_TOPIC = 20_000;
const DEFAULT_FILES = 20;
const DEFAULT_CHARACTERS = 12_000;

/** Reads the form that starts a run. A missing or empty field has the value of the settings. */
export function readRunForm(form: Form, settings: Settings) {
  return {
    topic: readTopic(form),
    models: forDebaters((role, prefix) =>
      readModel(form, `${role}_model`, settings[`${prefix}_MODEL`], settings)
    ),
    efforts: forDebaters((role, prefix) =>
      readChoice(form, `${role}_reasoning_effort`, EFFORTS, settings[`${prefix}_REASONING_EFFORT`])
    ),
    templateName: readName(form, "template", settings.PROMPT_TEMPLATE),
    language: readName(form, "language", settings.PROMPT_LANGUAGE),
    options: readOptions(form, settings),
    mode: readChoice(form, "mode", RUN_MODES, settings.DEBATE_MODE),
    context: {
      baseContext: form.files.get("base_context") ?? [],
      incident: readIncident(form),
      project: readProject(form),
    },
    redact: !readFlag(form, "no_redact_context", false),
  };
}

export function readOptions(form: Form, settings: Settings): RunOptions {
  return {
    requireApproval: readFlag(form, "require_approval", settings.TOOL_APPROVAL_REQUIRED),
    pauseBetweenRounds: readFlag(form, "pause_between_rounds", false),
  };
}

export function readText({ fields }: Form, name: string): string {
  return fields.get(name)?.trim() ?? "";
}

function readTopic(form: Form): string {
  const topic = readText(form, "topic").toWellFormed();
  if (topic === "") fail("topic", "is required: describe the incident", "unprocessable");
  if (topic.length > MAX_TOPIC) {
    fail("topic", `is longer than ${MAX_TOPIC} characters: send the details as incident_file`);
  }
  return topic;
}

function readModel(form: Form, name: string, fallback: string, { MODEL_PROVIDERS }: Settings): string {
  const id = readText(form, name) || fallback;
  const names = Object.keys(MODEL_PROVIDERS);
  return splitModelId(id, names) === undefined ? fail(name, describeModelIds(names)) : id;
}

function readChoice<T extends string>(form: Form, name: string, choices: readonly T[], fallback: T): T {
  const text = readText(form, name);
  if (text === "") return fallback;
  return choices.find((each) => each === text) ?? fail(name, `must be ${choices.join(", ")}`);
}

function readName(form: Form, name: string, fallback: string): string {
  const text = readText(form, name);
  if (text.length > 64) fail(name, "is longer than 64 characters");
  return text || fallback;
}

function readFlag(form: Form, name: string, fallback: boolean): boolean {
  const text = readText(form, name);
  return text === "" ? fallback : /^(?:1|true|on|yes)$/i.test(text);
}

function readIncident(form: Form) {
  const files = form.files.get("incident_file") ?? [];
  if (files.length > 1) fail("incident_file", "accepts one file: send the other files as base_context");
  return files[0];
}

function readProject(form: Form): ProjectRequest | undefined {
  const maxFiles = readNumber(form, "max_files", DEFAULT_FILES, 1000);
  const maxCharsPerFile = readNumber(form, "max_chars_per_file", DEFAULT_CHARACTERS, 1_000_000);
  const path = readText(form, "project_path");
  if (path === "") return undefined;
  const patterns = readText(form, "include_patterns").split(",").map((each) => each.trim());
  return { path, patterns: patterns.filter((each) => each !== ""), maxFiles, maxCharsPerFile };
}

function readNumber(form: Form, name: string, fallback: number, max: number): number {
  const text = readText(form, name);
  if (text === "") return fallback;
  const problem = `must be a whole number from 1 to ${max}`;
  if (!/^[+-]?\d+$/.test(text)) fail(name, problem, "unprocessable");
  const number = Number(text);
  if (number < 1 || number > max) fail(name, problem);
  return number;
}

/** Clients expect status 422 (`unprocessable`) for missing values and wrong types, and 400 for invalid values. */
export function fail(
  name: string,
  problem: string,
  code: "invalid_request" | "unprocessable" = "invalid_request",
): never {
  throw new AppError(code, `Field ${name}: ${problem}`);
}
