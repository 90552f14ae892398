/**
 * Turns replies of the responses protocol into chunks of a chat completion, so that the same bounds apply to both.
 *
 * @module
 */
import * as z from "@zod/zod";

const contentPart = z.looseObject({ text: z.string().catch(""), refusal: z.string().catch("") });

/** Other items, such as thoughts, are not part of the reply. */
const itemShape = z.discriminatedUnion("type", [
  z.looseObject({
    type: z.literal("function_call"),
    call_id: z.string().catch(""),
    name: z.string().catch(""),
    arguments: z.unknown(),
  }),
  z.looseObject({ type: z.literal("message"), content: z.array(z.unknown()).catch([]) }),
]);

const responseShape = z.looseObject({
  output: z.array(z.unknown()).catch([]),
  incomplete_details: z.looseObject({ reason: z.string().catch("") }).optional().catch(undefined),
  error: z.looseObject({ code: z.string().catch("") }).optional().catch(undefined),
  usage: z.looseObject({
    input_tokens: z.unknown().optional(),
    output_tokens: z.unknown().optional(),
    total_tokens: z.unknown().optional(),
  }).optional().catch(undefined),
});

const eventShape = z.looseObject({
  type: z.string(),
  delta: z.string().catch(""),
  code: z.string().catch(""),
  item: z.unknown().optional(),
  response: responseShape.optional().catch(undefined),
});

const wholeShape = z.looseObject({ object: z.literal("response"), status: z.string() });

type Item = z.infer<typeof itemShape>;

/** A failure that the provider reports in a stream; `describeFailure()` reads it like one with a status. */
class ProviderError extends Error {
  readonly status = undefined;
  readonly code: string;

  constructor(code: string) {
    super("the provider failed");
    this.code = code || "failed";
  }
}

/** Reads one reply, event by event or whole. */
export class ResponsesReader {
  #hasText = false;
  #callCount = 0;

  /**
   * The chunk for an event, or for a whole response; `undefined` if it adds nothing.
   *
   * @throws when it reports that the provider has failed
   */
  read(value: unknown): unknown {
    const whole = wholeShape.safeParse(value).data;
    const event = whole === undefined
      ? eventShape.safeParse(value).data
      : eventShape.parse({ type: `response.${whole.status}`, response: whole });
    if (event === undefined) return undefined;
    switch (event.type) {
      case "response.output_text.delta":
      case "response.refusal.delta":
        this.#hasText = true;
        return toChunk({ delta: { content: event.delta } });
      case "response.output_item.done":
        // The last event of a call has all of its arguments.
        return toChunk({ delta: { tool_calls: this.#callsIn([event.item]) } });
      case "response.completed":
      case "response.incomplete":
        return this.#end(event.type, event.response ?? { output: [] });
      case "response.failed":
      case "response.cancelled":
      case "error":
        throw new ProviderError(event.response?.error?.code ?? event.code);
      default:
        return undefined;
    }
  }

  #end(type: string, response: z.infer<typeof responseShape>): unknown {
    const { output, usage, incomplete_details } = response;
    const isFiltered = incomplete_details?.reason === "content_filter";
    // Not every provider sends the parts before the whole.
    const delta = {
      content: this.#hasText ? "" : textOf(output),
      tool_calls: this.#callCount > 0 ? [] : this.#callsIn(output),
    };
    const reason = type === "response.completed" ? "stop" : isFiltered ? "content_filter" : "length";
    return {
      ...toChunk({ delta, finish_reason: reason }),
      ...(usage !== undefined && {
        usage: {
          prompt_tokens: usage.input_tokens,
          completion_tokens: usage.output_tokens,
          total_tokens: usage.total_tokens,
        },
      }),
    };
  }

  #callsIn(items: readonly unknown[]) {
    return itemsOf(items).flatMap((item) => {
      if (item.type !== "function_call") return [];
      // Each one is complete; its number distinguishes it from another one with the same id.
      const index = this.#callCount++;
      return [{ index, id: item.call_id, function: { name: item.name, arguments: item.arguments } }];
    });
  }
}

function toChunk(choice: Readonly<Record<string, unknown>>) {
  return { choices: [{ index: 0, ...choice }] };
}

function itemsOf(items: readonly unknown[]): readonly Item[] {
  return items.flatMap((item) => itemShape.safeParse(item).data ?? []);
}

function textOf(output: readonly unknown[]): string {
  return itemsOf(output)
    .flatMap((item) => item.type === "message" ? item.content : [])
    .map((part) => contentPart.safeParse(part).data)
    .map((part) => part === undefined ? "" : part.text + part.refusal)
    .join("");
}
