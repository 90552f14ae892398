/**
 * Reads the forms that start runs.
 *
 * @module
 */
import { AppError } from "@gateway/shared/errors";
import type { ContextRequest } from "../context/collect.ts";
import type { ProjectRequest } from "../context/project.ts";
import type { Settings } from "../settings/config.ts";
import { parseModelId } from "../models/model_id.ts";
import type { RunOptions } from "../runs/live_run.ts";
import { RUN_MODES, type RunMode } from "../engine/run_mode.ts";
import type { RunEfforts, RunModels } from "../runs/record.ts";
import type { Form } from "./form.ts";

interface RunForm {
  readonly topic: string;
  readonly models: RunModels;
  readonly efforts: RunEfforts;
  readonly template: string;
  readonly language: string;
  readonly options: RunOptions;
  readonly mode: RunMode;
  readonly context: ContextRequest;
  /** Whether secrets in it are masked. */
  readonly redact: boolean;
}

const MAX_TOPIC = 20_000;
const DEFAULT_FILES = 20;
const DEFAULT_CHARACTERS = 12_000;

/**
 * Reads the form that starts a run. The settings apply to fields that are missing or empty.
 *
 * @throws {AppError} `unprocessable` for missing fields and malformed numbers, `invalid_request` for invalid
 * values; either names the field
 */
export function readRunForm(form: Form, settings: Settings): RunForm {
  return {
    topic: readTopic(form),
    models: {
      diagnostic: readModel(form, "diagnostic_model", settings.DIAGNOSTIC_MODEL),
      skeptic: readModel(form, "skeptic_model", settings.SKEPTIC_MODEL),
      moderator: readModel(form, "moderator_model", settings.MODERATOR_MODEL),
    },
    efforts: {
      diagnostic: readEffort(form, "diagnostic_reasoning_effort", settings.DIAGNOSTIC_REASONING_EFFORT),
      skeptic: readEffort(form, "skeptic_reasoning_effort", settings.SKEPTIC_REASONING_EFFORT),
      moderator: readEffort(form, "moderator_reasoning_effort", settings.MODERATOR_REASONING_EFFORT),
    },
    template: readName(form, "template", settings.PROMPT_TEMPLATE),
    language: readName(form, "language", settings.PROMPT_LANGUAGE),
    options: readOptions(form, settings),
    mode: readMode(form, settings.DEBATE_MODE),
    context: {
      baseContext: form.files.get("base_context") ?? [],
      incident: readIncident(form),
      project: readProject(form),
    },
    redact: !readFlag(form, "no_redact_context", false),
  };
}

/** Approval and pause as the form requests them; also used for a resumed run. */
export function readOptions(form: Form, settings: Settings): RunOptions {
  return {
    requireApproval: readFlag(form, "require_approval", settings.TOOL_APPROVAL_REQUIRED),
    pauseBetweenRounds: readFlag(form, "pause_between_rounds", false),
  };
}

/** A trimmed field; empty when it is missing. */
export function readText({ fields }: Form, name: string): string {
  return fields.get(name)?.trim() ?? "";
}

function readTopic(form: Form): string {
  const topic = readText(form, "topic").toWellFormed();
  if (topic === "") throw unprocessable("topic", "is required: describe the incident");
  if (topic.length > MAX_TOPIC) {
    throw invalid("topic", `is longer than ${MAX_TOPIC} characters: put the details into the incident file`);
  }
  return topic;
}

function readModel(form: Form, name: string, fallback: string): string {
  const id = readText(form, name) || fallback;
  try {
    parseModelId(id);
  } catch (error) {
    throw error instanceof AppError ? invalid(name, error.message) : error;
  }
  return id;
}

const EFFORTS = ["none", "low", "medium", "high"] as const;

function readEffort(form: Form, name: string, fallback: (typeof EFFORTS)[number]): (typeof EFFORTS)[number] {
  const text = readText(form, name);
  if (text === "") return fallback;
  const effort = EFFORTS.find((each) => each === text);
  if (effort === undefined) throw invalid(name, `must be ${EFFORTS.join(", ")}`);
  return effort;
}

function readMode(form: Form, fallback: RunMode): RunMode {
  const text = readText(form, "mode");
  if (text === "") return fallback;
  const mode = RUN_MODES.find((each) => each === text);
  if (mode === undefined) throw invalid("mode", `must be ${RUN_MODES.join(" or ")}`);
  return mode;
}

function readName(form: Form, name: string, fallback: string): string {
  const text = readText(form, name);
  if (text.length > 64) throw invalid(name, "is longer than 64 characters");
  return text || fallback;
}

/** Everything that is not a word for yes means no. */
function readFlag(form: Form, name: string, fallback: boolean): boolean {
  const text = readText(form, name);
  return text === "" ? fallback : /^(?:1|true|on|yes)$/i.test(text);
}

function readIncident(form: Form) {
  const files = form.files.get("incident_file") ?? [];
  if (files.length > 1) throw invalid("incident_file", "takes one file: the others belong in base_context");
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
  if (!/^[+-]?\d+$/.test(text)) throw unprocessable(name, problem);
  const number = Number(text);
  if (number < 1 || number > max) throw invalid(name, problem);
  return number;
}

/** For missing values and values of the wrong type, which clients expect as status 422; invalid values are 400. */
export function unprocessable(name: string, problem: string): AppError {
  return new AppError("unprocessable", `Field ${name}: ${problem}`);
}

function invalid(name: string, problem: string): AppError {
  return new AppError("invalid_request", `Field ${name}: ${problem}`);
}
