/**
 * List prices in US dollars per million tokens, for an estimate. `MODEL_PRICES_FILE` corrects and completes them.
 *
 * @module
 */
/** In US dollars per million tokens. */
export interface Price {
  readonly input: number;
  readonly output: number;
}

const at = (input: number, output: number): Price => ({ input, output });

/** By the model's name, which also covers its dated and longer variants that are not listed themselves. */
export const LIST_PRICES: Readonly<Record<string, Price>> = {
  "gpt-4o": at(2.5, 10),
  "gpt-4o-mini": at(0.15, 0.6),
  "gpt-4.1": at(2, 8),
  "gpt-4.1-mini": at(0.4, 1.6),
  "gpt-4.1-nano": at(0.1, 0.4),
  "gpt-4-turbo": at(10, 30),
  "gpt-5": at(1.25, 10),
  "gpt-5-mini": at(0.25, 2),
  "gpt-5-nano": at(0.05, 0.4),
  "gpt-5-pro": at(15, 120),
  "o1": at(15, 60),
  "o1-mini": at(1.1, 4.4),
  "o1-pro": at(150, 600),
  "o3": at(2, 8),
  "o3-mini": at(1.1, 4.4),
  "o3-pro": at(20, 80),
  "o4-mini": at(1.1, 4.4),
  "claude-3-haiku": at(0.25, 1.25),
  "claude-3.5-haiku": at(0.8, 4),
  "claude-haiku-4.5": at(1, 5),
  "claude-3.5-sonnet": at(3, 15),
  "claude-3.7-sonnet": at(3, 15),
  "claude-sonnet-4": at(3, 15),
  "claude-3-opus": at(15, 75),
  "claude-opus-4": at(15, 75),
  "claude-opus-4.5": at(5, 25),
  "claude-opus-4.6": at(5, 25),
  "gemini-2.0-flash": at(0.1, 0.4),
  "gemini-2.5-flash": at(0.3, 2.5),
  "gemini-2.5-pro": at(1.25, 10),
  "deepseek-v3": at(0.27, 1.1),
  "deepseek-r1": at(0.55, 2.19),
  "grok-3": at(3, 15),
  "grok-3-mini": at(0.3, 0.5),
  "mistral-large": at(2, 6),
};
