import assert from "node:assert/strict";
import { Exchange, SHORT_LENGTH, textLength, USER_BOUNDS, UserBudget } from "./user_budget.ts";

const NEVER = new AbortController().signal;
/** Two of these do not fit. */
const LONG = USER_BOUNDS.sending / 2 + 1;
const HALF = USER_BOUNDS.sending / 2;

/** Which promises are fulfilled by now. */
async function fulfilled(promises: readonly Promise<unknown>[]): Promise<readonly boolean[]> {
  await new Promise((resolve) => setTimeout(resolve, 0));
  const pending = Symbol();
  return await Promise.all(
    promises.map(async (promise) => await Promise.race([promise, Promise.resolve(pending)]) !== pending),
  );
}

Deno.test.each<{ what: "calls" | "requests" | "resumed streams"; max: number }>([
  { what: "calls", max: 32 },
  { what: "requests", max: 128 },
  { what: "resumed streams", max: 16 },
])("UserBudget gives a user $max $what at once, and no other user less", ({ what, max }) => {
  const budget = new UserBudget();
  // A name is only a name.
  for (const user of ["alice", "__proto__", "constructor", ""]) {
    const places = Array.from({ length: max }, () => budget.take(user, what));
    const refusal = {
      code: "rate_limited",
      message: `too many ${what} at once (${max}); wait for one to end`,
    };
    assert.throws(() => budget.take(user, what), refusal);
    places[0]?.[Symbol.dispose]();
    budget.take(user, what);
    assert.throws(() => budget.take(user, what), refusal);
  }
});

Deno.test("UserBudget lets a long answer wait until the exchanges before it have ended, of this user alone", async () => {
  const budget = new UserBudget();
  const [first, second, third] = [new Exchange(), new Exchange(), new Exchange()];
  await budget.hold("alice", first, LONG, NEVER);
  const waiting = budget.hold("alice", second, LONG, NEVER);
  await budget.hold("bob", new Exchange(), LONG, NEVER);
  assert.deepEqual(await fulfilled([waiting]), [false]);
  await budget.hold("alice", third, SHORT_LENGTH, NEVER);
  first[Symbol.dispose]();
  await waiting;
  second[Symbol.dispose]();
  await budget.hold("alice", new Exchange(), 2 * USER_BOUNDS.sending, NEVER);
});

Deno.test("UserBudget frees the room of an exchange at its end, also room that comes only then", async () => {
  const budget = new UserBudget();
  const [one, two] = [new Exchange(), new Exchange()];
  await budget.hold("alice", one, HALF, NEVER);
  await budget.hold("alice", one, HALF, NEVER);
  const late = budget.hold("alice", two, LONG, NEVER);
  two[Symbol.dispose]();
  one[Symbol.dispose]();
  one[Symbol.dispose]();
  await late;
  await budget.hold("alice", new Exchange(), USER_BOUNDS.sending, NEVER);
});

Deno.test("UserBudget refuses an answer that would wait for others of its own exchange, forever", async () => {
  const budget = new UserBudget();
  const exchange = new Exchange();
  await budget.hold("alice", exchange, LONG, NEVER);
  await assert.rejects(budget.hold("alice", exchange, LONG, NEVER), { code: "rate_limited" });
  await budget.hold("alice", exchange, HALF - 1, NEVER);
});

Deno.test("UserBudget refuses an answer while another of its exchange waits: that one leaves only with all", async () => {
  const budget = new UserBudget();
  const [others, exchange] = [new Exchange(), new Exchange()];
  await budget.hold("alice", others, USER_BOUNDS.sending, NEVER);
  const first = budget.hold("alice", exchange, LONG, NEVER);
  await assert.rejects(budget.hold("alice", exchange, LONG, NEVER), { code: "rate_limited" });
  others[Symbol.dispose]();
  await first;
});

Deno.test("UserBudget forgets an answer whose call is canceled while it waits", async () => {
  const budget = new UserBudget();
  const [others, exchange] = [new Exchange(), new Exchange()];
  await budget.hold("alice", others, LONG, NEVER);
  const canceled = new AbortController();
  const first = assert.rejects(budget.hold("alice", exchange, LONG, canceled.signal), { code: "canceled" });
  canceled.abort();
  await first;
  await assert.rejects(budget.hold("alice", exchange, LONG, canceled.signal), { code: "canceled" });
  const second = budget.hold("alice", exchange, LONG, NEVER);
  others[Symbol.dispose]();
  await second;
});

function watch(response: Response) {
  const exchange = new Exchange();
  const ends: string[] = [];
  exchange.add({ [Symbol.dispose]: () => void ends.push("end") });
  return { watched: exchange.endWith(response), ends };
}

Deno.test("Exchange ends when the body has been read, and passes on status, headers and bytes", async () => {
  const { watched, ends } = watch(new Response("text", { status: 201, headers: { "x-a": "b" } }));
  assert.deepEqual(ends, []);
  assert.equal(await watched.text(), "text");
  assert.deepEqual([watched.status, watched.headers.get("x-a")], [201, "b"]);
  assert.deepEqual(ends, ["end"]);
});

Deno.test("Exchange ends immediately without a body", () => {
  assert.deepEqual(watch(new Response(null, { status: 202 })).ends, ["end"]);
});

Deno.test.each([{ readFirst: true }, { readFirst: false }])(
  "Exchange ends when the client leaves, and passes that on (after a part: $readFirst)",
  async ({ readFirst }) => {
    let reason: unknown;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new Uint8Array(1)),
      cancel: (why) => void (reason = why),
    });
    const { watched, ends } = watch(new Response(body));
    const reader = watched.body?.getReader();
    if (readFirst) await reader?.read();
    await reader?.cancel("enough");
    assert.deepEqual([ends, reason], [["end"], "enough"]);
  },
);

Deno.test("Exchange ends when the body fails, and passes the failure on", async () => {
  const body = new ReadableStream<Uint8Array>({ pull: () => Promise.reject(new Error("broken")) });
  const { watched, ends } = watch(new Response(body));
  await assert.rejects(watched.text(), /^Error: broken$/);
  assert.deepEqual(ends, ["end"]);
});

Deno.test("Exchange does not end before a slow reader has read the last piece and wants more", async () => {
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
  assert.deepEqual(ends, ["end"]);
});

Deno.test.each([
  ["counts the characters of strings", "x".repeat(1000), 1000, 1050],
  ["counts what is nested", { a: [{ b: "x".repeat(1000) }] }, 1000, 1100],
  ["counts names", { ["x".repeat(1000)]: 1 }, 1000, 1050],
  ["counts what has no text", new Array(1000).fill(null), 4000, 30_000],
  ["counts each of what stands there twice", ["x".repeat(500), "x".repeat(500)], 1000, 1100],
  ["takes numbers that JSON does not know", 1n, 1, 50],
])("textLength() %s", (_name, value, least, most) => {
  const length = textLength(value);
  assert.ok(length >= least && length <= most, `${length}`);
});
