/**
 * An OpenAI-compatible server over one GGUF model, for `deno task test:model`. Node runs it, because the addon of
 * node-llama-cpp needs native code, and no Deno program of this project has the permission for native code.
 *
 * Supported: chat completions with and without streaming, `response_format` of type json_schema (by grammar),
 * temperature, max_tokens, usage. Tools of a request are ignored.
 *
 * Usage: node server.mjs PACKAGE_DIRECTORY MODEL_FILE
 * Prints its base URL when it is ready, and ends when its standard input closes.
 */
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const CONTEXT_TOKENS = 8192;
const MAX_REPLY_TOKENS = 192;
const MAX_BODY_BYTES = 1024 * 1024;
// Threads of the engine wait actively, so two of them are slower than one on a busy machine.
const THREADS = 1;

const [directory, modelPath] = process.argv.slice(2);
const entry = pathToFileURL(`${directory}/node_modules/node-llama-cpp/dist/index.js`).href;
const { getLlama, LlamaChat } = await import(entry);
// Never compile or download: only the prebuilt addon of the installed package.
const llama = await getLlama({
  gpu: false,
  build: "never",
  skipDownload: true,
  maxThreads: THREADS,
  logLevel: "error",
});
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({ contextSize: CONTEXT_TOKENS, threads: THREADS });
const chat = new LlamaChat({ contextSequence: context.getSequence() });

class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    Object.assign(this, { status, code });
  }
}

/** Bounds strings and lists, because a small model repeats itself until the limit. The library knows `oneOf` only. */
function boundedSchema(schema) {
  return JSON.parse(JSON.stringify(schema), (_key, value) => {
    if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
    const { anyOf, ...rest } = value;
    if (anyOf !== undefined) return { oneOf: anyOf };
    if (rest.type === "string" && rest.enum === undefined) return { ...rest, maxLength: 40 };
    // The grammar of a nullable string cannot be bounded, so the model chooses between both types.
    if (Array.isArray(rest.type)) return { oneOf: [{ type: "null" }, { type: "string", maxLength: 40 }] };
    return rest.type === "array" ? { ...rest, maxItems: 1 } : rest;
  });
}

function historyOf(messages) {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw new Refusal(400, "invalid_request_error", "messages is missing");
  }
  const history = messages.map(({ role, content }) => {
    if (typeof content !== "string") throw new Refusal(400, "invalid_request_error", "content must be text");
    return role === "assistant"
      ? { type: "model", response: [content] }
      : { type: role === "system" ? "system" : "user", text: content };
  });
  const tokens = messages.reduce((sum, { content }) => sum + model.tokenize(content).length, 0);
  if (tokens > CONTEXT_TOKENS - 2 * MAX_REPLY_TOKENS) {
    throw new Refusal(400, "context_length_exceeded", `${tokens} tokens are too many`);
  }
  return { history: [...history, { type: "model", response: [] }], tokens };
}

/** Writes one reply. `onText` receives its pieces; the result has the whole text and the token counts. */
async function reply(body, signal, onText) {
  const { history, tokens } = historyOf(body.messages);
  const schema = body.response_format?.json_schema?.schema;
  const grammar = schema === undefined
    ? undefined
    : await llama.createGrammarForJsonSchema(boundedSchema(schema));
  // A decision has to be whole, and its grammar bounds it.
  const maxTokens = Math.min(
    body.max_tokens ?? Infinity,
    grammar === undefined ? MAX_REPLY_TOKENS : 4 * MAX_REPLY_TOKENS,
  );
  let written = 0;
  const { response, metadata } = await chat.generateResponse(history, {
    grammar,
    maxTokens,
    signal,
    temperature: body.temperature ?? 0,
    seed: 1,
    repeatPenalty: { penalty: 1.1 },
    onTextChunk: onText,
    onToken: (list) => written += list.length,
  });
  const usage = { prompt_tokens: tokens, completion_tokens: written, total_tokens: tokens + written };
  return { text: response, usage, finish_reason: metadata.stopReason === "maxTokens" ? "length" : "stop" };
}

async function readBody(request) {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) {
    text += chunk;
    if (text.length > MAX_BODY_BYTES) throw new Refusal(413, "too_large", "the body is too long");
  }
  return JSON.parse(text);
}

async function answer(request, response) {
  if (request.method !== "POST" || request.url !== "/v1/chat/completions") {
    throw new Refusal(404, "not_found", "only POST /v1/chat/completions exists");
  }
  const body = await readBody(request);
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  const common = { id: "chatcmpl-1", created: Math.floor(Date.now() / 1000), model: body.model };
  if (body.stream !== true) {
    const { text, usage, finish_reason } = await reply(body, gone.signal);
    const choices = [{ index: 0, message: { role: "assistant", content: text }, finish_reason }];
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ ...common, object: "chat.completion", choices, usage }));
    return;
  }
  const send = (more) => {
    if (!response.headersSent) response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(`data: ${JSON.stringify({ ...common, object: "chat.completion.chunk", ...more })}\n\n`);
  };
  const piece = (delta, finish_reason = null) => send({ choices: [{ index: 0, delta, finish_reason }] });
  const { usage, finish_reason } = await reply(body, gone.signal, (content) => piece({ content }));
  piece({}, finish_reason);
  if (body.stream_options?.include_usage === true) send({ choices: [], usage });
  response.end("data: [DONE]\n\n");
}

/** One request at a time, because there is one context. */
let last = Promise.resolve();
const server = createServer((request, response) => {
  last = last.then(() => answer(request, response)).catch((error) => {
    if (response.headersSent) return response.destroy();
    const { status = 500, code = "server_error", message } = error;
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify({ error: { code, message } }));
  });
});
server.listen(0, "127.0.0.1", () => process.stdout.write(`http://127.0.0.1:${server.address().port}/v1\n`));
process.stdin.on("end", () => process.exit(0)).resume();
