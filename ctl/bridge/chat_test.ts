import assert from "node:assert/strict";
import { boundedFetch } from "./chat.ts";

const CHUNK = new TextEncoder().encode("x".repeat(1 << 20));

/** A chat that answers with so many MiB, and what became of that. */
function answering(mebibytes: number) {
  const seen: { init?: RequestInit | undefined; taken: number; isCanceled: boolean } = {
    taken: 0,
    isCanceled: false,
  };
  const fetch: typeof globalThis.fetch = (_input, init) => {
    seen.init = init;
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull(controller) {
        if (seen.taken++ < mebibytes) controller.enqueue(CHUNK);
        else controller.close();
      },
      cancel() {
        seen.isCanceled = true;
      },
    }, { highWaterMark: 0 });
    return Promise.resolve(new Response(body));
  };
  return { fetch, seen };
}

Deno.test("boundedFetch() takes 4 MiB, and ends what is longer where it is", async () => {
  const { signal } = new AbortController();
  const enough = answering(4);
  assert.equal((await (await boundedFetch(enough.fetch, signal)("https://chat/")).text()).length, 4 << 20);
  const { fetch, seen } = answering(50);
  await assert.rejects(boundedFetch(fetch, signal)("https://chat/"), /larger than 4194304 bytes/);
  assert.deepEqual([seen.taken, seen.isCanceled], [5, true]);
});

Deno.test("boundedFetch() follows no redirect, whatever the caller wants: the token is for this host alone", async () => {
  const { fetch, seen } = answering(0);
  await boundedFetch(fetch, new AbortController().signal)("https://chat/", { redirect: "follow" });
  assert.equal(seen.init?.redirect, "error");
});

Deno.test("boundedFetch() is ended by the caller's signal, and by the bridge's", async () => {
  const [bridge, caller] = [new AbortController(), new AbortController()];
  const { fetch, seen } = answering(0);
  await boundedFetch(fetch, bridge.signal)("https://chat/", { signal: caller.signal });
  assert.equal(seen.init?.signal?.aborted, false);
  caller.abort();
  assert.equal(seen.init?.signal?.aborted, true);
  await boundedFetch(fetch, bridge.signal)("https://chat/");
  assert.equal(seen.init?.signal?.aborted, false);
  bridge.abort();
  assert.equal(seen.init?.signal?.aborted, true);
});
