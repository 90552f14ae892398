import { AppError } from "@gateway/shared/errors";
import type { Catalogue } from "../models/catalogue.ts";
import type { DeviceFlowState } from "../models/device_flow.ts";
import { ModelError } from "../engine/model.ts";
import memoryLeak from "../models/scenarios/memory_leak.json" with { type: "json" };
import { listTemplates } from "../prompts/templates.ts";
import { readForm } from "./form.ts";
import { missingSettings } from "./missing_settings.ts";
import { readText, unprocessable } from "./run_form.ts";
import type { WebPorts } from "./ports.ts";

export function handleSettings({ settings }: WebPorts): Response {
  return Response.json({
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
    approval_timeout_seconds: settings.APPROVAL_TIMEOUT_SECONDS,
    comment_timeout_seconds: settings.COMMENT_TIMEOUT_SECONDS,
    max_upload_bytes: settings.MAX_UPLOAD_BYTES,
    builtin_incident: { topic: memoryLeak.topic, model: "replay/memory_leak" },
  });
}

/** `GET /api/prompts`: the default first, then by name and language. */
export async function handlePrompts({ loadTemplates }: WebPorts): Promise<Response> {
  const isDefault = ({ name }: { readonly name: string }) => Number(name === "default");
  const templates = listTemplates(await loadTemplates()).toSorted((a, b) => isDefault(b) - isDefault(a));
  return Response.json({ templates });
}

/** `GET /api/models`. A provider that could not be asked is a problem beside the models of the others. */
export async function handleModels(ports: WebPorts): Promise<Response> {
  return toModels(await ports.models.list(), ports);
}

/** `POST /api/models/refresh`: the same, requested anew from the providers. */
export async function handleRefresh(ports: WebPorts): Promise<Response> {
  return toModels(await ports.models.refresh(), ports);
}

function toModels({ models, problems }: Catalogue, { priceOf }: WebPorts): Response {
  return Response.json({
    models: models.map((each) => ({ ...each, price: priceOf(each.id) ?? null })),
    problems,
  });
}

/** `GET /api/auth/status`. Old clients use these names for the providers. */
export async function handleAuthStatus({ providers, settings }: WebPorts): Promise<Response> {
  const status = await providers.status();
  const { assist, hub } = status;
  return Response.json({
    copilot_configured: assist.isConfigured,
    copilot_token_preview: assist.tokenPreview ?? null,
    copilot_session_valid: assist.isSessionValid,
    copilot_session_expires_in_seconds: assist.sessionExpiresInSeconds ?? null,
    github_models_configured: hub.isConfigured,
    github_models_token_preview: hub.tokenPreview ?? null,
    last_error: assist.problem ?? null,
    missing_settings: missingSettings(settings, status),
  });
}

/** `POST /api/auth/copilot`: a form with `action` `start` or `check`, and for that the `device_code`. */
export async function handleLogin({ providers, settings }: WebPorts, request: Request): Promise<Response> {
  const form = await readForm(request, { maxFileBytes: settings.MAX_UPLOAD_BYTES });
  const action = readText(form, "action");
  if (action === "") throw unprocessable("action", "is required: start or check");
  if (action === "start") return await answer(() => providers.startLogin());
  if (action !== "check") return failed('Field action: must be "start" or "check"');
  const code = readText(form, "device_code");
  if (code === "") return failed("Field device_code: is required: it is in the answer to the start");
  return await answer(() => providers.checkLogin(code));
}

/** Errors have status 200 here, as clients expect. The token itself is never sent. */
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
