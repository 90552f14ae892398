/**
 * What stands for a model whose provider is not configured.
 *
 * @module
 */
import { type Model, ModelError } from "./model.ts";

/** A model whose every call says which setting is missing. */
export class UnreachableModel implements Model {
  readonly id: string;
  readonly #variable: string;

  /** @param variable the setting that is missing */
  constructor(id: string, variable: string) {
    this.id = id;
    this.#variable = variable;
  }

  complete(): Promise<never> {
    const text = `Model ${
      JSON.stringify(this.id)
    } gave no reply: its provider has no URL; set ${this.#variable}`;
    return Promise.reject(new ModelError("auth", text));
  }
}
