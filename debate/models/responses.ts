import * as z from "@zod/zod";
import type { ChatMessage } from "../engine/ports.ts";
import { providerFailure } from "./chat.ts";
import { type ChatApi, optionsOf, readableArguments } from "./chat_completions.ts";

export const RESPONSES = {
  path: "responses",
  keyHeader: "authorization",
  /** `store: false`, because every request contains the whole conversation. */
  body(request, model) {
    const { effort, schema, tools, limit, common } = optionsOf(request, model);
    return {
      model: model.name,
      input: request.messages.flatMap(inputItems),
      store: false,
      stream: request.onDelta !== undefined,
      ...common,
      ...(limit !== undefined && { max_output_tokens: limit }),
      ...(effort === undefined ? {} : { reasoning: { effort } }),
      // `strict` is true by default, which makes every argument required.
      ...(tools.length > 0 && { tools: tools.map((tool) => ({ type: "function", strict: false, ...tool })) }),
      ...(schema === undefined ? {} : {
        text: { format: { type: "json_schema", name: "decision", strict: true, schema } },
      }),
    };
  },
  createReader: responsesReader,
} satisfies ChatApi;

function inputItems(message: ChatMessage): readonly object[] {
  const { role, content, toolCalls = [], toolCallId = "" } = message;
  if (role === "tool") return [{ type: "function_call_output", call_id: toolCallId, output: content }];
  const calls = toolCalls.map(({ id, name, arguments: text }) => ({
    type: "function_call",
    call_id: id,
    name,
    arguments: readableArguments(text),
  }));
  return content === "" && calls.length > 0 ? calls : [{ role, content }, ...calls];
}

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
  usage: z.record(z.string(), z.unknown()).optional().catch(undefined),
});

const eventShape = z.looseObject({
  type: z.string(),
  delta: z.string().catch(""),
  code: z.string().catch(""),
  item: z.unknown().optional(),
  response: responseShape.optional().catch(undefined),
});

const wholeShape = z.looseObject({ object: z.literal("response"), status: z.string() });

function responsesReader() {
  let hasText = false;
  let callCount = 0;

  function end(type: string, { output, usage, incomplete_details }: z.infer<typeof responseShape>) {
    const isFiltered = incomplete_details?.reason === "content_filter";
    // Some providers send only the complete response.
    const delta = {
      content: hasText ? "" : textOf(output),
      tool_calls: callCount > 0 ? [] : callsIn(output),
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

  function callsIn(items: readonly unknown[]) {
    return itemsOf(items).flatMap((item) => {
      if (item.type !== "function_call") return [];
      const { call_id: id, name, arguments: text } = item;
      // Each call is complete. Its index distinguishes calls with the same ID.
      return [{ index: callCount++, id, function: { name, arguments: text } }];
    });
  }

  /** The chunk for an event or a complete response; `undefined` if it adds nothing. */
  return (value: unknown): unknown => {
    const whole = wholeShape.safeParse(value).data;
    const event = whole === undefined
      ? eventShape.safeParse(value).data
      : eventShape.parse({ type: `response.${whole.status}`, response: whole });
    switch (event?.type) {
      case "response.output_text.delta":
      case "response.refusal.delta":
        hasText = true;
        return toChunk({ delta: { content: event.delta } });
      case "response.output_item.done":
        // The last event of a call contains all arguments.
        return toChunk({ delta: { tool_calls: callsIn([event.item]) } });
      case "response.completed":
      case "response.incomplete":
        return end(event.type, event.response ?? { output: [] });
      case "response.failed":
      case "response.cancelled":
      case "error":
        throw providerFailure(event.response?.error?.code ?? event.code);
    }
    return undefined;
  };
}

function toChunk(choice: Readonly<Record<string, unknown>>) {
  return { choices: [{ index: 0, ...choice }] };
}

function itemsOf(items: readonly unknown[]): readonly z.infer<typeof itemShape>[] {
  return items.flatMap((item) => itemShape.safeParse(item).data ?? []);
}

function textOf(output: readonly unknown[]): string {
  const parts = itemsOf(output).flatMap((item) => item.type === "message" ? item.content : [])
    .flatMap((part) => contentPart.safeParse(part).data ?? []);
  return parts.map(({ text, refusal }) => text + refusal).join("");
}
