/**
 * The two protocols that models of OpenAI-compatible servers speak.
 *
 * @module
 */
import type { OpenAI } from "@openai/openai";
import { parseStandardJson } from "@gateway/shared/json";
import { chatBody, type ChatModel } from "./chat_request.ts";
import type { ModelRequest } from "../engine/model.ts";
import { ResponsesReader } from "./responses_reply.ts";
import { responsesBody } from "./responses_request.ts";

/** The parts of a reply, and what ends them. */
export type ChatStream = AsyncIterable<unknown> & { readonly controller: AbortController };

/** An answer: part by part if it is streamed, otherwise whole. */
type ChatAnswer = { readonly stream: ChatStream } | { readonly whole: unknown };

export interface ChatApi {
  send(client: OpenAI, request: ModelRequest, model: ChatModel, signal: AbortSignal): Promise<ChatAnswer>;
  /** Creates a reader for one answer, which turns each part, or the whole, into a chunk of a chat completion. */
  createReader(): (part: unknown) => unknown;
}

export const CHAT_COMPLETIONS: ChatApi = {
  async send(client, request, model, signal) {
    const body = chatBody(request, model);
    return body.stream
      ? { stream: await client.chat.completions.create(body, { signal }) }
      : { whole: await client.chat.completions.create(body, { signal }) };
  },
  createReader: () => (part) => part,
};

export const RESPONSES: ChatApi = {
  async send(client, request, model, signal) {
    const body = responsesBody(request, model);
    return body.stream
      ? { stream: await client.responses.create(body, { signal }) }
      // Here, unlike with chat completions, the library itself fails on an answer that is not an object.
      : { whole: await readJson(client.responses.create(body, { signal }).asResponse()) };
  },
  createReader() {
    const reader = new ResponsesReader();
    return (part) => reader.read(part);
  },
};

async function readJson(response: Promise<Response>): Promise<unknown> {
  return parseStandardJson(await (await response).text());
}
