import { AppError } from "@gateway/shared/errors";
import * as z from "@zod/zod";
import { oneLine } from "../engine/graph/text.ts";
import { type Document, isMap, isScalar, LineCounter, parseDocument } from "yaml";

export interface TemplateId {
  readonly name: string;
  readonly language: string;
}

interface TemplateFile {
  readonly name: string;
  readonly path: string;
  readonly text: string;
  readonly source: PromptTemplate["source"];
}

/** Longest text of a role, in characters: it goes into every call of a model. */
const MAX_SYSTEM = 40_000;

const FILE_NAME = /^(?<name>[a-z0-9][a-z0-9_-]{0,63})\.(?<language>[a-z]{2,3}(?:-[A-Za-z0-9]{2,8})?)\.ya?ml$/;

const filled = z.string("must be a text").refine((text) => text.trim() !== "", "must not be empty");
const system = filled.refine(
  (text) => text.length <= MAX_SYSTEM,
  `must have at most ${MAX_SYSTEM} characters`,
);

const schema = z.strictObject({
  name: filled,
  language: filled,
  version: z.int("must be a whole number").min(1, "must be 1 or more").default(1),
  description: z.string("must be a text").default(""),
  diagnostic_system: system,
  skeptic_system: system,
  moderator_system: system,
});

/** Reads `<name>.<language>.yaml`; `undefined` for any other name. */
export function parseFileName(fileName: string): TemplateId | undefined {
  const { name, language } = FILE_NAME.exec(fileName)?.groups ?? {};
  return name === undefined || language === undefined ? undefined : { name, language };
}

export function parseTemplate(file: TemplateFile): PromptTemplate {
  const id = parseFileName(file.name);
  if (id === undefined) {
    const form = "<name>.<language>.yaml, in lower case, as in network.en.yaml";
    throw invalid(file, [`the file's name is not ${form}`]);
  }
  const lines = new LineCounter();
  const document = parseDocument(file.text, { lineCounter: lines, prettyErrors: false });
  const where = (offset: number) => `line ${Math.max(1, lines.linePos(offset).line)}`;
  if (document.errors.length > 0) {
    throw invalid(file, document.errors.map(({ message, pos }) => `${where(pos[0])}: ${oneLine(message)}`));
  }
  if (!isMap(document.contents)) {
    throw invalid(file, ["line 1: expected keys with texts, as in name: network"]);
  }
  const result = schema.safeParse(toValue(document, file));
  if (!result.success) {
    throw invalid(file, result.error.issues.flatMap((issue) => describe(issue, document, where)));
  }
  const { data } = result;
  for (const key of ["name", "language"] as const) {
    if (data[key] === id[key]) continue;
    const line = where(offsetOf(document, key) ?? 0);
    throw invalid(file, [`${line}: ${key} is "${data[key]}", but the file's name says "${id[key]}"`]);
  }
  return {
    ...id,
    version: data.version,
    description: data.description.trim(),
    source: file.source,
    diagnosticSystem: data.diagnostic_system,
    skepticSystem: data.skeptic_system,
    moderatorSystem: data.moderator_system,
  };
}

function toValue(document: Document, file: TemplateFile): unknown {
  try {
    // Aliases are of no use here, and a few of them can expand to gigabytes.
    return document.toJS({ maxAliasCount: 0 });
  } catch {
    throw invalid(file, ["it uses aliases (*name), which templates must not"]);
  }
}

function describe(
  issue: z.core.$ZodIssue,
  document: Document,
  where: (offset: number) => string,
): readonly string[] {
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => `${where(offsetOf(document, key) ?? 0)}: unknown key "${key}"`);
  }
  const key = String(issue.path[0] ?? "");
  const offset = offsetOf(document, key);
  return [offset === undefined ? `key "${key}" is missing` : `${where(offset)}: ${key} ${issue.message}`];
}

function offsetOf(document: Document, key: string): number | undefined {
  const keys = isMap(document.contents) ? document.contents.items.map((pair) => pair.key) : [];
  return keys.filter(isScalar).find(({ value }) => String(value) === key)?.range?.[0];
}

const MAX_PROBLEMS = 10;

function invalid(file: TemplateFile, problems: readonly string[]): AppError {
  const head = `Cannot load prompt template ${JSON.stringify(file.path)}:`;
  const [first = ""] = problems;
  if (problems.length === 1) return new AppError("invalid_config", `${head} ${first}`);
  const shown = [`${head} ${problems.length} problems`, ...problems.slice(0, MAX_PROBLEMS)];
  return new AppError("invalid_config", shown.join("\n  "));
}

export interface PromptTemplate {
  readonly name: string;
  readonly language: string;
  readonly version: number;
  readonly description: string;
  readonly source: "builtin" | "custom";
  readonly diagnosticSystem: string;
  readonly skepticSystem: string;
  readonly moderatorSystem: string;
}
