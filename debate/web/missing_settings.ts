/**
 * What an operator still has to set before the configured models can be asked.
 *
 * @module
 */
import type { Settings } from "../settings/config.ts";
import { parseModelId } from "../models/model_id.ts";
import type { ProviderStatus } from "./ports.ts";

/** The settings that decide which providers are asked, and where those are. */
export type ModelSettings = Pick<
  Settings,
  | "DIAGNOSTIC_MODEL"
  | "SKEPTIC_MODEL"
  | "MODERATOR_MODEL"
  | "SUMMARY_MODEL"
  | "SAMPLE_MODEL"
  | "HUB_BASE_URL"
  | "ASSIST_BASE_URL"
>;

/** The names of the settings that the models of the settings need, and that are empty. */
export function missingSettings(settings: ModelSettings, { hub, assist }: ProviderStatus): readonly string[] {
  const { DIAGNOSTIC_MODEL, SKEPTIC_MODEL, MODERATOR_MODEL, SUMMARY_MODEL, SAMPLE_MODEL } = settings;
  const ids = [DIAGNOSTIC_MODEL, SKEPTIC_MODEL, MODERATOR_MODEL, SUMMARY_MODEL, SAMPLE_MODEL].filter((id) =>
    id !== ""
  );
  const used = new Set(ids.map((id) => parseModelId(id).provider));
  const needed: readonly (readonly [name: string, isMissing: boolean])[] = [
    ["HUB_BASE_URL", used.has("hub") && settings.HUB_BASE_URL === ""],
    ["HUB_TOKEN", used.has("hub") && !hub.isConfigured],
    ["ASSIST_BASE_URL", used.has("assist") && settings.ASSIST_BASE_URL === ""],
    ["ASSIST_TOKEN", used.has("assist") && !assist.isConfigured],
  ];
  return needed.flatMap(([name, isMissing]) => isMissing ? [name] : []);
}
