import { AppError } from "@gateway/shared/errors";
import { readJsonBody, requireJsonType } from "@gateway/shared/http";
import { stringify } from "yaml";
import { firstPrompts } from "../engine/agents/first_prompts.ts";
import { parseTemplate } from "../prompts/parse_template.ts";
import type { PromptTemplate } from "../prompts/template.ts";
import { previewBody } from "./bodies.ts";
import type { WebPorts } from "./ports.ts";

/** `GET /api/prompts/{name}/{language}`: a template as the text of a file, to start another one from. */
export async function handleTemplate(
  { loadTemplates }: WebPorts,
  name: string,
  language: string,
): Promise<Response> {
  const { templates } = await loadTemplates();
  const template = templates.find((each) => each.name === name && each.language === language);
  if (template === undefined) throw new AppError("not_found", "There is no such template");
  return Response.json({ file: `${name}.${language}.yaml`, source: template.source, text: toYaml(template) });
}

function toYaml(template: PromptTemplate): string {
  const { name, language, version, description } = template;
  return stringify({
    name,
    language,
    version,
    description,
    diagnostic_system: template.diagnosticSystem,
    skeptic_system: template.skepticSystem,
    moderator_system: template.moderatorSystem,
  }, { lineWidth: 0, blockQuote: "literal" });
}

const MAX_BYTES = 512 * 1024;

/**
 * `POST /api/prompts/preview`: what is wrong with the text of a template, or else what each agent would be sent in the
 * first round. Nothing is stored: templates come from files that the operator of the server puts there.
 */
export async function handlePreview({ settings }: WebPorts, request: Request): Promise<Response> {
  requireJsonType(request);
  const { file, text, topic } = await readJsonBody(request, { maxBytes: MAX_BYTES, schema: previewBody });
  const template = read(file, text);
  if (template instanceof AppError) return Response.json({ problem: template.message, prompts: [] });
  const prompts = firstPrompts({
    topic,
    context: "",
    maxRounds: settings.MAX_ROUNDS,
    confidenceThreshold: settings.CONFIDENCE_THRESHOLD,
    earlyOut: { enabled: settings.EARLY_OUT_ENABLED, threshold: settings.EARLY_OUT_THRESHOLD },
    compressHistory: settings.COMPRESS_HISTORY,
    language: template.language,
  }, template);
  return Response.json({ problem: null, prompts });
}

function read(file: string, text: string): PromptTemplate | AppError {
  try {
    return parseTemplate({ name: file, path: file, text, source: "custom" });
  } catch (error) {
    if (error instanceof AppError && error.code === "invalid_config") return error;
    throw error;
  }
}
