/**
 * A model server for `debate_runs_bench.ts`, slow as models are: every piece of a reply comes 250 ms after the last,
 * and is the time at which it was sent, so that whoever reads it knows how late it is. The moderator, who does not
 * stream, always wants another round. It prints its port and serves until its standard input ends.
 *
 * @module
 */
import { systemClock } from "@gateway/shared/clock";
import { sampleDecision } from "../../debate/testing/sample_state.ts";

const PIECES = 20;
const PIECE_MS = 250;

const ENCODER = new TextEncoder();

function reply(): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    async start(controller) {
      const send = (choice: unknown) =>
        controller.enqueue(ENCODER.encode(`data: ${JSON.stringify({ choices: [choice] })}\n\n`));
      try {
        for (let piece = 0; piece < PIECES; piece++) {
          send({ index: 0, delta: { content: `sent at ${systemClock.now()} and some more words ` } });
          await systemClock.sleep(PIECE_MS);
        }
        send({ index: 0, delta: {}, finish_reason: "stop" });
        controller.enqueue(ENCODER.encode("data: [DONE]\n\n"));
        controller.close();
      } catch {
        // Whoever asked has gone.
      }
    },
  });
}

const server = Deno.serve(
  {
    hostname: "127.0.0.1",
    port: 0,
    onListen: ({ port }) => Deno.stdout.writeSync(ENCODER.encode(`${port}\n`)),
  },
  async (request) => {
    const { stream } = await request.json();
    if (stream) return new Response(reply(), { headers: { "content-type": "text/event-stream" } });
    await systemClock.sleep(PIECES * PIECE_MS);
    const message = { role: "assistant", content: JSON.stringify(sampleDecision()) };
    return Response.json({ choices: [{ index: 0, message, finish_reason: "stop" }] });
  },
);
for await (const _ of Deno.stdin.readable);
await server.shutdown();
