/**
 * A model request as the body of the OpenAI responses protocol, which some models use instead of chat completions.
 *
 * @module
 */
import type { OpenAI } from "@openai/openai";
import {
  type ChatModel,
  readableArguments,
  sendsEffort,
  sendsTemperature,
  sendsTools,
} from "./chat_request.ts";
import type { ChatMessage, ModelRequest } from "../engine/model.ts";

/** The body of a request, streamed or not. */
type ResponsesBody = OpenAI.Responses.ResponseCreateParams;

/** The body. The provider is told to store nothing: every request contains the whole conversation. */
export function responsesBody(request: ModelRequest, model: ChatModel): ResponsesBody {
  const { temperature, reasoningEffort, jsonSchema, tools = [], toolChoice } = request;
  const withTools = sendsTools(request, model);
  return {
    model: model.name,
    input: request.messages.flatMap(inputItems),
    store: false,
    stream: request.onDelta !== undefined,
    ...(temperature !== undefined && sendsTemperature(request, model) ? { temperature } : {}),
    ...(reasoningEffort !== undefined && sendsEffort(model)
      ? { reasoning: { effort: reasoningEffort } }
      : {}),
    // By default strict is true, and then every argument is required.
    ...(withTools ? { tools: tools.map((tool) => ({ type: "function", strict: false, ...tool })) } : {}),
    ...(withTools && toolChoice !== undefined ? { tool_choice: toolChoice } : {}),
    ...(jsonSchema !== undefined && !model.refused.has("response_format")
      ? {
        text: { format: { type: "json_schema", name: "decision", strict: true, schema: { ...jsonSchema } } },
      }
      : {}),
  };
}

function inputItems(message: ChatMessage): OpenAI.Responses.ResponseInput {
  const { role, content, toolCalls = [], toolCallId = "" } = message;
  if (role === "tool") return [{ type: "function_call_output", call_id: toolCallId, output: content }];
  const calls = toolCalls.map(({ id, name, arguments: text }) => ({
    type: "function_call" as const,
    call_id: id,
    name,
    arguments: readableArguments(text),
  }));
  return content === "" && calls.length > 0 ? calls : [{ role, content }, ...calls];
}
