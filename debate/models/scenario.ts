/**
 * A scenario: what a scripted model says, reply by reply. Checked strictly, with line and reason for each problem,
 * since people write scenarios to try out their prompt templates.
 *
 * @module
 */
import { AppError } from "@gateway/shared/errors";
import * as z from "@zod/zod";
import { findNodeAtLocation, type Node, type ParseError, parseTree, printParseErrorCode } from "jsonc-parser";
import type { ModelErrorKind } from "../engine/model.ts";

/** A tool call of a script. `{{name}}` inside a text stands for a variable. */
interface ScriptedCall {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

export interface ScriptedReply {
  /** The lines; a single text is one line. */
  readonly text: readonly string[];
  readonly tool_calls: readonly ScriptedCall[];
  readonly usage?: { readonly input_tokens: number; readonly output_tokens: number };
  /** What the messages of the request must contain somewhere. */
  readonly expect: readonly string[];
  /** The delay before its first piece, in milliseconds. */
  readonly delay_ms: number;
  /** The model fails with this after its text. */
  readonly error?: { readonly kind: ModelErrorKind; readonly message: string };
}

/** Who has a part in a script. */
export const SCRIPTED_NODES = [
  "diagnostic_agent",
  "skeptic_agent",
  "diagnostic_rebuttal_agent",
  "moderator_agent",
  "summarize_history",
] as const;

/** One of {@linkcode SCRIPTED_NODES}. */
export type ScriptedNode = (typeof SCRIPTED_NODES)[number];

/** A variable of a script: the topic or the context sets its value in a line `<label>: <value>`. */
interface ScenarioVariable {
  readonly label: string;
  /** Used if there is no such line; if absent, the line is required. */
  readonly default?: string;
}

/** The replies of a round, by node, each in order. */
type ScriptedRound = Readonly<Partial<Record<ScriptedNode, readonly ScriptedReply[]>>>;

export interface Scenario {
  readonly description: string;
  readonly topic: string;
  readonly variables: Readonly<Record<string, ScenarioVariable>>;
  readonly rounds: readonly ScriptedRound[];
}

const lines = z.union([z.string().transform((text) => [text]), z.array(z.string())], {
  error: "expected a text, or a list of lines",
}).default([]);
const tokens = z.int().min(0).max(100_000_000);

const reply = z.strictObject({
  text: lines,
  tool_calls: z.array(z.strictObject({
    name: z.string().min(1),
    arguments: z.record(z.string(), z.unknown()).default({}),
  })).default([]),
  usage: z.strictObject({ input_tokens: tokens, output_tokens: tokens }).exactOptional(),
  expect: z.array(z.string().min(1)).default([]),
  delay_ms: z.int().min(0).max(3_600_000).default(0),
  error: z.strictObject({
    kind: z.enum(["auth", "rate", "timeout", "server", "bad_reply", "canceled"]),
    message: z.string().min(1),
  }).exactOptional(),
});

const replies = z.array(reply).min(1).exactOptional();

const schema: z.ZodType<Scenario> = z.strictObject({
  description: z.string().default(""),
  topic: z.string().default(""),
  variables: z.record(
    z.string().regex(/^\w+$/),
    z.strictObject({ label: z.string().trim().min(1), default: z.string().exactOptional() }),
  ).default({}),
  rounds: z.array(z.strictObject({
    diagnostic_agent: replies,
    skeptic_agent: replies,
    diagnostic_rebuttal_agent: replies,
    moderator_agent: replies,
    summarize_history: replies,
  })).min(1).max(10),
});

const MAX_PROBLEMS = 20;

/**
 * Reads a scenario: JSON, comments and trailing commas allowed.
 *
 * @param source the file's name for messages
 * @throws {AppError} `invalid_config` with line and reason for each problem
 */
export function parseScenario(text: string, source: string): Scenario {
  const root = parseText(text, source);
  const result = schema.safeParse(valueOf(root));
  const problems = result.success
    ? openVariables(text, result.data)
    : result.error.issues.map((issue) => problemAt(text, root, issue));
  if (!result.success || problems.length > 0) throw invalid(source, problems);
  return result.data;
}

function parseText(text: string, source: string): Node {
  if (text.trim() === "") throw invalid(source, ["line 1: it is empty"]);
  const problems: ParseError[] = [];
  let root: Node | undefined;
  try {
    root = parseTree(text, problems, { allowTrailingComma: true });
  } catch (error) {
    // The parser recurses once per level.
    if (error instanceof RangeError) throw invalid(source, ["line 1: nested too deeply"]);
    throw error;
  }
  const [first] = problems;
  if (root !== undefined && first === undefined) return root;
  const code = first === undefined ? "ValueExpected" : printParseErrorCode(first.error);
  throw invalid(source, [`line ${lineAt(text, first?.offset ?? 0)}: not JSON, ${code}`]);
}

function problemAt(text: string, root: Node, issue: z.core.$ZodIssue): string {
  const path = issue.path.filter((key) => typeof key !== "symbol");
  const names = issue.code === "unrecognized_keys" ? issue.keys : [];
  const node = nearest(root, [...path, ...names.slice(0, 1)]);
  const where = path.length === 0 ? "" : ` ${formatPath(path)}:`;
  const reason = names.length === 0
    ? issue.message
    : `unknown key ${names.map((name) => `"${name}"`).join(", ")}`;
  return `line ${lineAt(text, node.offset)}:${where} ${reason}`;
}

/** The node at a path, or the closest one above it, since a missing key has no position of its own. */
function nearest(root: Node, path: readonly (string | number)[]): Node {
  for (let length = path.length; length > 0; length--) {
    const node = findNodeAtLocation(root, path.slice(0, length));
    // The key itself, since its value may start several lines below.
    if (node !== undefined) return node.parent?.type === "property" ? node.parent : node;
  }
  return root;
}

/** Every `{{name}}` must be declared; otherwise a typo would be sent to a tool as it is. */
function openVariables(text: string, scenario: Scenario): readonly string[] {
  return [...text.matchAll(/\{\{(\w+)\}\}/g)]
    .filter(([, name = ""]) => !Object.hasOwn(scenario.variables, name))
    .map(({ index, 1: name }) => `line ${lineAt(text, index)}: variable "${name}" is not declared`);
}

/** The value of a tree. The parser's own function would treat `__proto__` as the prototype. */
function valueOf(node: Node): unknown {
  switch (node.type) {
    case "object":
      return Object.fromEntries(
        (node.children ?? []).flatMap(({ children: [key, value] = [] }) =>
          key === undefined || value === undefined ? [] : [[String(key.value), valueOf(value)]]
        ),
      );
    case "array":
      return (node.children ?? []).map(valueOf);
    default:
      return node.value;
  }
}

function formatPath(path: readonly (string | number)[]): string {
  return path.map((key, index) => typeof key === "number" ? `[${key}]` : index === 0 ? key : `.${key}`).join(
    "",
  );
}

function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split("\n").length;
}

function invalid(source: string, problems: readonly string[]): AppError {
  const head = `Cannot load scenario ${JSON.stringify(source)}:`;
  const [first = ""] = problems;
  if (problems.length === 1) return new AppError("invalid_config", `${head} ${first}`);
  const more = problems.length > MAX_PROBLEMS ? [`and ${problems.length - MAX_PROBLEMS} more`] : [];
  const shown = [`${head} ${problems.length} problems`, ...problems.slice(0, MAX_PROBLEMS), ...more];
  return new AppError("invalid_config", shown.join("\n  "));
}
