import { AppError, errorName } from "@gateway/shared/errors";
import { ifThere } from "@gateway/shared/files";
import { decodeText, oneLine } from "../engine/graph/text.ts";
import type { PromptTemplate } from "../engine/ports.ts";
import dataEn from "./builtin/data.en.yaml" with { type: "text" };
import dataEs from "./builtin/data.es.yaml" with { type: "text" };
import defaultEn from "./builtin/default.en.yaml" with { type: "text" };
import defaultEs from "./builtin/default.es.yaml" with { type: "text" };
import errorsEn from "./builtin/errors.en.yaml" with { type: "text" };
import errorsEs from "./builtin/errors.es.yaml" with { type: "text" };
import performanceEn from "./builtin/performance.en.yaml" with { type: "text" };
import performanceEs from "./builtin/performance.es.yaml" with { type: "text" };
import securityEn from "./builtin/security.en.yaml" with { type: "text" };
import securityEs from "./builtin/security.es.yaml" with { type: "text" };
import * as z from "@zod/zod";
import { type Document, isMap, isScalar, LineCounter, parseDocument } from "yaml";

interface TemplateProblem {
  /** Absent if the file name is not valid. */
  readonly id?: TemplateId;
  readonly message: string;
}

export interface TemplateSet {
  readonly templates: readonly PromptTemplate[];
  readonly problems: readonly TemplateProblem[];
}

const MAX_FILE_BYTES = 262_144;
const MAX_FILES = 500;

/** Loads the built-in templates and the templates of a directory, which need not exist. */
export async function loadTemplates(
  directory: string,
  builtin: readonly PromptTemplate[] = readBuiltinTemplates(),
): Promise<TemplateSet> {
  return collectTemplates(await readDirectory(directory), builtin);
}

/**
 * Reads the built-in templates. Callers keep the result, because reading all ten takes as long as the rest of the start
 * of a run.
 */
export function readBuiltinTemplates(): readonly PromptTemplate[] {
  return Object.entries(BUILTIN_TEXTS).map(([name, text]) =>
    parseTemplate({ name, text, source: "builtin" })
  );
}

export function collectTemplates(
  files: readonly TemplateFile[],
  builtin: readonly PromptTemplate[] = readBuiltinTemplates(),
): TemplateSet {
  const templates = new Map<string, PromptTemplate>();
  const problems: TemplateProblem[] = [];
  for (const template of builtin) templates.set(keyOf(template), template);
  for (const file of files) {
    try {
      const template = parseTemplate({ ...file, source: "custom" });
      templates.set(keyOf(template), template);
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      const id = parseFileName(file.name);
      problems.push({ message: error.message, ...(id === undefined ? {} : { id }) });
    }
  }
  const order = (a: PromptTemplate, b: PromptTemplate) =>
    compare(a.name, b.name) || compare(a.language, b.language);
  return { templates: [...templates.values()].sort(order), problems };
}

export function listTemplates({ templates }: TemplateSet) {
  return templates.map(({ name, language, version, description, source }) => (
    { name, language, version, description, source }
  ));
}

/**
 * Selects the template for a name and a language. The fallbacks are the name in English, `default` in the
 * language and `default` in English. The result names the template that was found.
 *
 * @throws {AppError} `invalid_request` if the template is broken. The message has no path, because clients receive it
 */
export function selectTemplate(
  { templates, problems }: TemplateSet,
  name: string,
  language: string,
): PromptTemplate {
  for (const key of [`${name}.${language}`, `${name}.en`, `default.${language}`, "default.en"]) {
    const broken = problems.find(({ id }) => id !== undefined && keyOf(id) === key);
    if (broken !== undefined) throw new AppError("invalid_request", `${broken.message}\nfix: debate prompts`);
    const found = templates.find((template) => keyOf(template) === key);
    if (found !== undefined) return found;
  }
  throw new AppError("internal", "The default prompt template is missing");
}

async function readDirectory(directory: string): Promise<readonly TemplateFile[]> {
  const entries = await ifThere(Array.fromAsync(Deno.readDir(directory))).catch((cause) => {
    throw new AppError("invalid_config", `Cannot read PROMPTS_DIR: ${errorName(cause)}`, { cause });
  });
  const names = (entries ?? []).flatMap(({ name, isDirectory }) =>
    !isDirectory && /^[^.].*\.ya?ml$/i.test(name) ? [name] : []
  );
  const sorted = names.sort(compare).slice(0, MAX_FILES);
  return await Promise.all(sorted.map((name) => readFile(directory, name)));
}

async function readFile(directory: string, name: string): Promise<TemplateFile> {
  const path = `${directory}/${name}`;
  const unreadable = (reason: string) => ({ name, unreadable: reason });
  try {
    const { size, isFile } = await Deno.stat(path);
    if (!isFile) return unreadable("it is not a file");
    if (size > MAX_FILE_BYTES) return unreadable(`it is larger than ${MAX_FILE_BYTES} bytes`);
    const text = decodeText(await Deno.readFile(path));
    return text === undefined ? unreadable("it is not UTF-8 text") : { name, text };
  } catch {
    return unreadable("it cannot be read");
  }
}

function keyOf({ name, language }: TemplateId): string {
  return `${name}.${language}`;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

export const BUILTIN_TEXTS: Readonly<Record<string, string>> = {
  "data.en.yaml": dataEn,
  "data.es.yaml": dataEs,
  "default.en.yaml": defaultEn,
  "default.es.yaml": defaultEs,
  "errors.en.yaml": errorsEn,
  "errors.es.yaml": errorsEs,
  "performance.en.yaml": performanceEn,
  "performance.es.yaml": performanceEs,
  "security.en.yaml": securityEn,
  "security.es.yaml": securityEs,
};

interface TemplateId {
  readonly name: string;
  readonly language: string;
}

/** A template file, or the reason why it cannot be read. */
export type TemplateFile =
  & { readonly name: string }
  & ({ readonly text: string } | { readonly unreadable: string });

/** The maximum length of a role's text in characters, because every model call contains it. */
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

export function parseTemplate(file: TemplateFile & Pick<PromptTemplate, "source">): PromptTemplate {
  if ("unreadable" in file) throw invalid(file, [file.unreadable]);
  const id = parseFileName(file.name);
  if (id === undefined) {
    const form = "<name>.<language>.yaml, in lower case, as in network.en.yaml";
    throw invalid(file, [`the file name must be ${form}`]);
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
    throw invalid(file, [`${line}: ${key} is "${data[key]}", but the file name has "${id[key]}"`]);
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
    // A few aliases can expand to gigabytes, and templates do not need them.
    return document.toJS({ maxAliasCount: 0 });
  } catch {
    throw invalid(file, ["templates must not contain aliases (*name)"]);
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
  const head = `Cannot load prompt template ${JSON.stringify(file.name)}:`;
  const [first = ""] = problems;
  if (problems.length === 1) return new AppError("invalid_config", `${head} ${first}`);
  const shown = [`${head} ${problems.length} problems`, ...problems.slice(0, MAX_PROBLEMS)];
  return new AppError("invalid_config", shown.join("\n  "));
}
