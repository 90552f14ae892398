import { fieldsIn, fieldsOf, isObject, type JsonObject, textOf } from "../engine/graph/text.ts";
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

function responsesReader() {
  let hasText = false;
  let callCount = 0;

  function end(type: string, response: JsonObject) {
    const { output, incomplete_details, usage } = response;
    const { input_tokens, output_tokens, total_tokens } = fieldsOf(usage);
    const isFiltered = fieldsOf(incomplete_details).reason === "content_filter";
    // Some providers send only the complete response.
    const delta = {
      content: hasText ? "" : messageText(output),
      tool_calls: callCount > 0 ? [] : callsIn(output),
    };
    const finish_reason = type === "response.completed" ? "stop" : isFiltered ? "content_filter" : "length";
    const counts = { prompt_tokens: input_tokens, completion_tokens: output_tokens, total_tokens };
    return { ...toChunk({ delta, finish_reason }), ...(isObject(usage) && { usage: counts }) };
  }

  /** Other items, such as thoughts, are not part of the reply. */
  function callsIn(items: unknown) {
    return fieldsIn(items).filter(({ type }) => type === "function_call").map((item) => {
      const { call_id: id, name, arguments: text } = item;
      // Each call is complete. Its index distinguishes calls with the same ID.
      return { index: callCount++, id, function: { name, arguments: text } };
    });
  }

  /** The chunk for an event or a complete response; `undefined` if it adds nothing. */
  return (value: unknown): unknown => {
    const given = fieldsOf(value);
    const isWhole = given.object === "response";
    const { type, delta, item, code, response } = isWhole
      ? { type: `response.${textOf(given.status)}`, response: given }
      : given;
    switch (type) {
      case "response.output_text.delta":
      case "response.refusal.delta":
        hasText = true;
        return toChunk({ delta: { content: delta } });
      case "response.output_item.done":
        // The last event of a call contains all arguments.
        return toChunk({ delta: { tool_calls: callsIn([item]) } });
      case "response.completed":
      case "response.incomplete":
        return end(type, fieldsOf(response));
      case "response.failed":
      case "response.cancelled":
      case "error":
        throw providerFailure(textOf(fieldsOf(fieldsOf(response).error).code) || textOf(code));
    }
    return undefined;
  };
}

function toChunk(choice: JsonObject) {
  return { choices: [{ index: 0, ...choice }] };
}

function messageText(output: unknown): string {
  const parts = fieldsIn(output).flatMap(({ type, content }) => type === "message" ? fieldsIn(content) : []);
  return parts.map(({ text, refusal }) => textOf(text) + textOf(refusal)).join("");
}
