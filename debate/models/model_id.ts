/**
 * The ids of models: the provider, and the provider's name for the model.
 *
 * @module
 */
import { AppError } from "@gateway/shared/errors";

export type ProviderName = "hub" | "assist" | "replay";

/** Provider and name of a model's id. */
interface ModelId {
  readonly provider: ProviderName;
  readonly name: string;
}

/**
 * Takes a model's id apart.
 *
 * @throws {AppError} `invalid_request`
 */
export function parseModelId(id: string): ModelId {
  const match = /^(hub|assist|replay)\/([\x21-\x7e]{1,200})$/.exec(id);
  const [, provider, name] = match ?? [];
  if ((provider !== "hub" && provider !== "assist" && provider !== "replay") || name === undefined) {
    const shown = JSON.stringify(id.slice(0, 100));
    throw new AppError(
      "invalid_request",
      `Cannot use model ${shown}: it must be hub/<name>, assist/<name> or replay/<scenario>`,
    );
  }
  return { provider, name };
}
