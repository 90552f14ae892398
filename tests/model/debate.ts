/**
 * Takes one debate to its end with a real model of 135 million parameters: transport, streaming, schema and length with
 * real tokens. The model is too small for a diagnosis, so the result proves nothing about quality.
 * `deno task test:model`
 *
 * @module
 */
import assert from "node:assert/strict";
import { inFolder, runDebate } from "../e2e/debate_program.ts";
import { downloadModel } from "./download.ts";

/** One request of the debate, and its answer put together. */
interface Exchange {
  readonly body: {
    readonly stream: boolean;
    readonly messages: readonly unknown[];
    readonly response_format?: { readonly json_schema: { readonly schema: Schema } };
  };
  readonly status: number;
  readonly type: string;
  /** The pieces of the text; one for an answer without a stream. */
  readonly pieces: readonly string[];
  readonly reason: string | undefined;
  readonly tokens: number;
}

interface Schema {
  readonly required: readonly string[];
  readonly properties: Readonly<Record<string, { readonly enum?: readonly string[] }>>;
}

const SERVER = new URL("server.mjs", import.meta.url).pathname;

async function startServer() {
  const { directory, modelPath } = await downloadModel();
  const child = new Deno.Command("node", {
    args: [SERVER, directory, modelPath],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  let url = "";
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    url += text;
    if (url.endsWith("\n")) break;
  }
  assert.ok(url.endsWith("\n"), "the model server has ended before it was ready");
  return {
    url: url.trim(),
    async [Symbol.asyncDispose]() {
      await child.stdin.close();
      await child.status;
    },
  };
}

/** A proxy that records all exchanges and forwards the pieces of an answer as they arrive. */
function startRecorder(target: string) {
  const exchanges: Promise<Exchange>[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const text = await request.text();
    const path = new URL(request.url).pathname;
    const response = await fetch(`${new URL(target).origin}${path}`, { method: request.method, body: text });
    const copy = response.clone();
    const { status, headers } = response;
    exchanges.push(
      copy.text().then((answer) => {
        const type = headers.get("content-type") ?? "";
        const lines = answer.split("\n").filter((line) => line.startsWith("data: {"));
        const parts = type === "text/event-stream"
          ? lines.map((line) => line.slice("data: ".length))
          : [answer];
        const chunks = parts.map((part) => JSON.parse(part));
        const choices = chunks.map(({ choices: [choice] }) => choice).filter((choice) =>
          choice !== undefined
        );
        return {
          body: JSON.parse(text),
          ...{ status, type },
          pieces: choices.map(({ delta, message }) => (delta ?? message).content ?? ""),
          reason: choices.at(-1)?.finish_reason,
          tokens: chunks.at(-1)?.usage?.total_tokens ?? 0,
        };
      }),
    );
    return response;
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}/v1`,
    exchanges: () => Promise.all(exchanges),
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

Deno.test("a debate with a real model comes to its end, and all its texts are real streams", () =>
  inFolder(async (folder) => {
    await using server = await startServer();
    await using recorder = startRecorder(server.url);
    const topic = "The disk of db1 is full since 14:02. The log of nightly exports is 80 GB large.";
    const { code, out, err } = await runDebate(["run", topic, "--json"], folder, {
      HUB_BASE_URL: recorder.url,
      HUB_TOKEN: "local",
      ...{ DIAGNOSTIC_MODEL: "hub/small", SKEPTIC_MODEL: "hub/small", MODERATOR_MODEL: "hub/small" },
      ...{ ENABLED_TOOLS: "http_get", MAX_ROUNDS: "2", LOG_LEVEL: "WARNING" },
    });
    assert.equal(code, 0, err);
    const record = JSON.parse(out);
    assert.equal(record.status, "completed");
    const of = (type: string) => record.events.filter((event: { type: string }) => event.type === type);
    assert.deepEqual(of("error"), []);
    assert.equal(of("run_finished").length, 1);

    const exchanges = await recorder.exchanges();
    const [streamed, whole] = [true, false].map((is) => exchanges.filter(({ body }) => body.stream === is));
    assert.ok(streamed && whole && streamed.length >= 3 && whole.length >= 1);
    for (const { status, type, body, tokens, pieces } of exchanges) {
      assert.deepEqual([status, type], [200, body.stream ? "text/event-stream" : "application/json"]);
      assert.ok(tokens > 0 && (!body.stream || pieces.length > 1));
    }
    // Streaming and length: a turn is the text of its pieces, and a truncated text is continued once.
    const texts: string[] = [];
    let isContinuing = false;
    for (const { pieces, reason } of streamed) {
      const text = pieces.join("");
      texts.push(isContinuing ? `${texts.pop()}${text}` : text);
      isContinuing = !isContinuing && reason === "length";
    }
    assert.ok(texts.length < streamed.length, "no reply was truncated");
    const turns: readonly { readonly content: string }[] = of("agent_completed");
    assert.equal(turns.length, texts.length);
    // A note follows the text of a reply that is still not complete after its continuation.
    for (const [at, { content }] of turns.entries()) assert.ok(content.startsWith(texts[at] ?? "-"), content);
    // Schema: the engine reads each decision that the grammar has constrained.
    const decisions = of("moderator_decision");
    assert.equal(whole.length, decisions.length);
    for (const [at, { pieces, body }] of whole.entries()) {
      const written = JSON.parse(pieces.join(""));
      const { required = [], properties = {} } = body.response_format?.json_schema.schema ?? {};
      assert.deepEqual(Object.keys(written), required);
      assert.ok(properties["status"]?.enum?.includes(written.status));
      assert.equal(decisions[at].decision.risk_level, written.risk_level);
    }
    // Without a tool result there is no evidence, so no cause may be confident.
    const { confidence, grounding } = decisions.at(-1).decision;
    assert.ok(confidence <= 0.6, `${confidence}`);
    assert.notEqual(grounding?.outcome, "cause", JSON.stringify(grounding));
  }));
