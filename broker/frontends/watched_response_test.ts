import assert from "node:assert/strict";
import { watchEnd } from "./watched_response.ts";

function watch(response: Response) {
  const ends: string[] = [];
  return { watched: watchEnd(response, () => ends.push("end")), ends };
}

Deno.test("watchEnd() tells when the body has been read, and passes on status, headers and bytes", async () => {
  const { watched, ends } = watch(new Response("text", { status: 201, headers: { "x-a": "b" } }));
  assert.deepEqual(ends, []);
  assert.equal(await watched.text(), "text");
  assert.deepEqual([watched.status, watched.headers.get("x-a")], [201, "b"]);
  assert.equal(ends.length, 1);
});

Deno.test("watchEnd() tells at once where there is no body", () => {
  assert.deepEqual(watch(new Response(null, { status: 202 })).ends, ["end"]);
});

Deno.test("watchEnd() tells when the rest is not wanted, and passes that on", async () => {
  let reason: unknown;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(new Uint8Array(1)),
    cancel: (why) => void (reason = why),
  });
  const { watched, ends } = watch(new Response(body));
  const reader = watched.body?.getReader();
  await reader?.read();
  await reader?.cancel("enough");
  assert.ok(ends.length > 0);
  assert.equal(reason, "enough");
});

Deno.test("watchEnd() tells when what is not wanted has been there already", async () => {
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(new Uint8Array(1)),
  });
  const { watched, ends } = watch(new Response(body));
  await new Promise((resolve) => setTimeout(resolve, 0));
  await watched.body?.cancel();
  assert.ok(ends.length > 0);
});

Deno.test("watchEnd() tells when the body fails, and passes the failure on", async () => {
  const body = new ReadableStream<Uint8Array>({ pull: () => Promise.reject(new Error("broken")) });
  const { watched, ends } = watch(new Response(body));
  await assert.rejects(watched.text(), /^Error: broken$/);
  assert.equal(ends.length, 1);
});

Deno.test("watchEnd() tells nothing before a slow reader has taken the last piece and asks for more", async () => {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(new Uint8Array(1));
      controller.close();
    },
  });
  const { watched, ends } = watch(new Response(body));
  const reader = watched.body?.getReader();
  await reader?.read();
  await new Promise((resolve) => setTimeout(resolve, 0));
  assert.deepEqual(ends, []);
  assert.equal((await reader?.read())?.done, true);
  assert.equal(ends.length, 1);
});
