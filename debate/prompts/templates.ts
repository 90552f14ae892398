import { AppError } from "@gateway/shared/errors";
import { ifThere } from "@gateway/shared/files";
import { decodeText } from "../engine/graph/text.ts";
import { parseFileName, parseTemplate, type PromptTemplate, type TemplateId } from "./parse_template.ts";
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

export type { PromptTemplate } from "./parse_template.ts";

interface TemplateProblem {
  /** Absent when not even the file's name can be read. */
  readonly id?: TemplateId;
  readonly message: string;
}

export interface TemplateSet {
  readonly templates: readonly PromptTemplate[];
  readonly problems: readonly TemplateProblem[];
}

const FALLBACK_NAME = "default";
const FALLBACK_LANGUAGE = "en";
const MAX_FILE_BYTES = 262_144;
const MAX_FILES = 500;

export interface CustomFile {
  readonly name: string;
  readonly path: string;
  readonly content: { readonly text: string } | { readonly unreadable: string };
}

/**
 * The templates of the program and of a folder, which need not exist.
 *
 * @param builtin those of the program
 */
export async function loadTemplates(
  folder: string,
  builtin: readonly PromptTemplate[] = readBuiltinTemplates(),
): Promise<TemplateSet> {
  return collectTemplates(await readFolder(folder), builtin);
}

/**
 * The built-in templates. Reading all ten takes as long as everything else that starts a run, so keep the
 * result.
 */
export function readBuiltinTemplates(): readonly PromptTemplate[] {
  return Object.entries(BUILTIN_TEXTS).map(([name, text]) =>
    parseTemplate({ name, path: name, text, source: "builtin" })
  );
}

export function collectTemplates(
  files: readonly CustomFile[],
  builtin: readonly PromptTemplate[] = readBuiltinTemplates(),
): TemplateSet {
  const templates = new Map<string, PromptTemplate>();
  const problems: TemplateProblem[] = [];
  for (const template of builtin) templates.set(keyOf(template), template);
  for (const { name, path, content } of files) {
    const id = parseFileName(name);
    try {
      if ("unreadable" in content) {
        const text = `Cannot load prompt template ${JSON.stringify(path)}: ${content.unreadable}`;
        throw new AppError("invalid_config", text);
      }
      const template = parseTemplate({ name, path, text: content.text, source: "custom" });
      templates.set(keyOf(template), template);
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
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
 * The template for a name and a language; when there is none, the name in English, then `default` in the
 * language, then `default` in English. The result says which it is.
 */
export function selectTemplate(
  { templates, problems }: TemplateSet,
  name: string,
  language: string,
): PromptTemplate {
  const candidates = [
    { name, language },
    { name, language: FALLBACK_LANGUAGE },
    { name: FALLBACK_NAME, language },
    { name: FALLBACK_NAME, language: FALLBACK_LANGUAGE },
  ];
  for (const wanted of candidates) {
    const broken = problems.find(({ id }) => id !== undefined && keyOf(id) === keyOf(wanted));
    if (broken !== undefined) throw new AppError("invalid_config", broken.message);
    const found = templates.find((template) => keyOf(template) === keyOf(wanted));
    if (found !== undefined) return found;
  }
  throw new AppError("internal", "The default prompt template is missing");
}

async function readFolder(folder: string): Promise<readonly CustomFile[]> {
  const entries = await ifThere(Array.fromAsync(Deno.readDir(folder))).catch((cause) => {
    throw new AppError("invalid_config", `Cannot read PROMPTS_DIR ${JSON.stringify(folder)}`, { cause });
  });
  const names = (entries ?? []).flatMap(({ name, isDirectory }) =>
    !isDirectory && /^[^.].*\.ya?ml$/i.test(name) ? [name] : []
  );
  const sorted = names.sort(compare).slice(0, MAX_FILES);
  return await Promise.all(sorted.map((name) => readCustom(folder, name)));
}

async function readCustom(folder: string, name: string): Promise<CustomFile> {
  const path = `${folder}/${name}`;
  const unreadable = (reason: string) => ({ name, path, content: { unreadable: reason } });
  try {
    const { size, isFile } = await Deno.stat(path);
    if (!isFile) return unreadable("it is not a file");
    if (size > MAX_FILE_BYTES) return unreadable(`it is larger than ${MAX_FILE_BYTES} bytes`);
    const text = decodeText(await Deno.readFile(path));
    return text === undefined ? unreadable("it is not UTF-8 text") : { name, path, content: { text } };
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
