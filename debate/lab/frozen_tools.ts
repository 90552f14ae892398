/**
 * Tools that give the answers which were recorded, and no others.
 *
 * @module
 */
import { callKey } from "../engine/agents/tool_cache.ts";
import type { Tool, ToolResult } from "../engine/tool.ts";
import type { RecordedAnswer } from "./incident.ts";

/** What was recorded can be asked for exactly; a scan of it all is not what is measured. */
const MAX_LISTED = 60;
const MAX_TEXT = 8000;

export function frozenTools(answers: readonly RecordedAnswer[]): readonly Tool[] {
  const byTool = Map.groupBy(answers, ({ tool }) => tool);
  return [...byTool].map(([name, recorded]) => new FrozenTool(name, recorded));
}

class FrozenTool implements Tool {
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly #answers: ReadonlyMap<string, RecordedAnswer>;
  readonly #recorded: readonly RecordedAnswer[];

  constructor(name: string, recorded: readonly RecordedAnswer[]) {
    this.name = name;
    this.#recorded = recorded;
    this.#answers = new Map(recorded.map((each) => [keyOf(name, each.args), each]));
    this.description = `Gives what ${name} returned during the incident. Recorded arguments: ${this.#list()}`;
    const keys = [...new Set(recorded.flatMap(({ args }) => Object.keys(args)))];
    this.parameters = {
      type: "object",
      properties: Object.fromEntries(keys.map((key) => [key, { description: "as recorded" }])),
    };
  }

  run(args: unknown): Promise<ToolResult> {
    const asked = typeof args === "object" && args !== null && !Array.isArray(args) ? { ...args } : {};
    const found = this.#answers.get(keyOf(this.name, asked));
    if (found === undefined) {
      const text = `Tool error: nothing was recorded for these arguments; recorded are ${this.#list()}`;
      return Promise.resolve({ ok: false, text });
    }
    // The first line names the request: evidence must not be quoted from it.
    const text = `${this.name} ${JSON.stringify(found.args)}\n${
      found.result.slice(0, MAX_TEXT).toWellFormed()
    }`;
    return Promise.resolve({ ok: true, text });
  }

  #list(): string {
    const listed = this.#recorded.slice(0, MAX_LISTED).map(({ args }) => JSON.stringify(args)).join(" ");
    const more = this.#recorded.length - MAX_LISTED;
    return more > 0 ? `${listed} and ${more} more` : listed;
  }
}

/** Models leave out what is empty. */
function keyOf(name: string, args: Readonly<Record<string, unknown>>): string {
  const said = Object.entries(args).filter(([, value]) => value !== "" && value !== null && value !== false);
  return callKey(name, Object.fromEntries(said));
}
