import { AppError } from "@gateway/shared/errors";
import { type Catalogue, providerStates } from "../models/providers.ts";
import type { DeviceFlowState } from "../models/device_flow.ts";
import { ModelError } from "../engine/ports.ts";
import memoryLeak from "../models/scenarios/memory_leak.json" with { type: "json" };
import { rulesFrom } from "../runs/setup.ts";
import type { PromptTemplate } from "../engine/ports.ts";
import { listTemplates, parseTemplate } from "../prompts/templates.ts";
import { readForm } from "./form.ts";
import { readJson } from "./run_handlers.ts";
import { fail, readText } from "./run_form.ts";
import type { Routed, WebPorts } from "./ports.ts";
import { MODELS, type Settings } from "../settings/config.ts";
import { findPrice } from "../models/prices.ts";
import { tokenPreview } from "../models/tokens.ts";
import { stringify } from "yaml";
import { firstPrompts } from "../engine/agents/prompt.ts";
import { previewBody } from "./bodies.ts";

export async function handleSettings(
  { settings, sandboxProblem, providers, toolset }: WebPorts,
): Promise<Response> {
  const token = await providers.assistToken().catch(() => undefined);
  return Response.json({
    providers: providerStates(settings, token !== undefined),
    diagnostic_model: settings.DIAGNOSTIC_MODEL,
    skeptic_model: settings.SKEPTIC_MODEL,
    moderator_model: settings.MODERATOR_MODEL,
    summary_model: settings.SUMMARY_MODEL,
    diagnostic_reasoning_effort: settings.DIAGNOSTIC_REASONING_EFFORT,
    skeptic_reasoning_effort: settings.SKEPTIC_REASONING_EFFORT,
    moderator_reasoning_effort: settings.MODERATOR_REASONING_EFFORT,
    mode: settings.DEBATE_MODE,
    samples: settings.SAMPLES,
    max_rounds: settings.MAX_ROUNDS,
    confidence_threshold: settings.CONFIDENCE_THRESHOLD,
    early_out_threshold: settings.EARLY_OUT_THRESHOLD,
    prompt_template: settings.PROMPT_TEMPLATE,
    prompt_language: settings.PROMPT_LANGUAGE,
    tool_approval_required: settings.TOOL_APPROVAL_REQUIRED,
    compress_history: settings.COMPRESS_HISTORY,
    sandbox_problem: sandboxProblem ?? null,
    approval_timeout_seconds: settings.APPROVAL_TIMEOUT_SECONDS,
    comment_timeout_seconds: settings.COMMENT_TIMEOUT_SECONDS,
    max_upload_bytes: settings.MAX_UPLOAD_BYTES,
    tools: (await toolset()).statuses,
    builtin_incident: { topic: memoryLeak.topic, model: "replay/memory_leak" },
  });
}

/** The default template is the first, the others are sorted by name and language. */
export async function handlePrompts({ loadTemplates }: WebPorts): Promise<Response> {
  const isDefault = ({ name }: { readonly name: string }) => Number(name === "default");
  const templates = listTemplates(await loadTemplates()).toSorted((a, b) => isDefault(b) - isDefault(a));
  return Response.json({ templates });
}

/** A provider that does not respond is reported in `problems`, together with the models of the others. */
export async function handleModels(ports: WebPorts): Promise<Response> {
  return toModels(await ports.providers.catalogue.list(), ports);
}

export async function handleRefresh(ports: WebPorts): Promise<Response> {
  return toModels(await ports.providers.catalogue.refresh(), ports);
}

function toModels({ models, problems }: Catalogue, { prices }: WebPorts): Response {
  return Response.json({
    models: models.map((each) => ({ ...each, price: findPrice(each.id, prices) ?? null })),
    problems,
  });
}

/** Old clients use these names for `hub` and `assist`. */
export async function handleAuthStatus({ providers, settings }: WebPorts): Promise<Response> {
  const { isConfigured, isValid, expiresInSeconds, problem } = await providers.sessions.status();
  const token = await providers.assistToken().catch(() => undefined);
  const { HUB_TOKEN } = settings;
  return Response.json({
    copilot_configured: isConfigured,
    copilot_token_preview: token === undefined ? null : tokenPreview(token),
    copilot_session_valid: isValid,
    copilot_session_expires_in_seconds: expiresInSeconds ?? null,
    github_models_configured: HUB_TOKEN !== "",
    github_models_token_preview: HUB_TOKEN === "" ? null : tokenPreview(HUB_TOKEN),
    last_error: problem ?? null,
    missing_settings: missingSettings(settings, isConfigured),
  });
}

export async function handleLogin({ providers, settings }: WebPorts, { request }: Routed): Promise<Response> {
  const form = await readForm(request, settings.MAX_UPLOAD_BYTES);
  const action = readText(form, "action");
  if (action === "") fail("action", "is required: start or check", "unprocessable");
  if (action === "start") return await answer(() => providers.deviceFlows.start());
  if (action !== "check") return failed('Field action: must be "start" or "check"');
  const code = readText(form, "device_code");
  if (code === "") return failed("Field device_code: is required: send the code from the response to start");
  return await answer(() => providers.deviceFlows.check(code));
}

/** Clients expect errors with status 200 here. The token itself is never sent. */
async function answer(ask: () => Promise<DeviceFlowState | undefined>): Promise<Response> {
  try {
    const state = await ask();
    if (state === undefined) return failed("This login is unknown or has expired: start again");
    return Response.json({
      ...state,
      ghu_token: null,
      ...(state.last_error !== null && { error: state.last_error }),
    });
  } catch (error) {
    if (error instanceof ModelError || error instanceof AppError) return failed(error.message);
    throw error;
  }
}

function failed(error: string): Response {
  return Response.json({ status: "error", error, last_error: error });
}

/** The names of empty settings that the configured models need. */
export function missingSettings(settings: Settings, hasAssistToken: boolean): readonly string[] {
  const used = MODELS.map((name) => settings[name].split("/")[0]);
  return providerStates(settings, hasAssistToken).flatMap(({ name, missing }) =>
    used.includes(name) ? missing : []
  );
}

export async function handleTemplate(
  { loadTemplates }: WebPorts,
  { param }: Routed,
): Promise<Response> {
  const [name, language] = [param("name"), param("language")];
  const { templates } = await loadTemplates();
  const template = templates.find((each) => each.name === name && each.language === language);
  if (template === undefined) throw new AppError("not_found", "No such template");
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

/** Nothing is stored. Templates come from files that the operator of the server writes. */
export async function handlePreview({ settings }: WebPorts, { request }: Routed): Promise<Response> {
  const { file, text, topic } = await readJson(request, previewBody, MAX_BYTES);
  const template = read(file, text);
  if (template instanceof AppError) return Response.json({ problem: template.message, prompts: [] });
  const task = { topic, context: "", ...rulesFrom(settings), language: template.language };
  const prompts = firstPrompts(task, template);
  return Response.json({ problem: null, prompts });
}

function read(file: string, text: string): PromptTemplate | AppError {
  try {
    return parseTemplate({ name: file, text, source: "custom" });
  } catch (error) {
    if (error instanceof AppError && error.code === "invalid_config") return error;
    throw error;
  }
}
