import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { AnswerRoom, RequestAnswers, SHORT_LENGTH } from "./answer_room.ts";

const { signal } = new AbortController();
const codeOf = (error: unknown) => error instanceof AppError ? error.code : error;

/** Takes room, and tells when there was some. */
function ask(room: AnswerRoom, user: string, length: number, wanted: AbortSignal = signal) {
  const asked = { has: false, release: () => {}, failure: undefined as unknown };
  room.take(user, length, wanted).then((release) => Object.assign(asked, { has: true, release }), (error) => {
    asked.failure = codeOf(error);
  });
  return asked;
}

async function settle(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 0));
}

Deno.test("AnswerRoom lets in what fits, and the others in their order when there is room", async () => {
  const room = new AnswerRoom(100);
  const asked = [60, 40, 50, 50, 1].map((length) => ask(room, "alice", length));
  const states = () => asked.map(({ has }) => has);
  await settle();
  assert.deepEqual(states(), [true, true, false, false, false]);
  asked[1]?.release();
  await settle();
  // The last one would fit: but who waits for longer comes first.
  assert.deepEqual(states(), [true, true, false, false, false]);
  asked[0]?.release();
  asked[0]?.release();
  await settle();
  assert.deepEqual(states(), [true, true, true, true, false]);
  asked[2]?.release();
  await settle();
  assert.deepEqual(states(), [true, true, true, true, true]);
});

Deno.test("AnswerRoom gives an answer that is longer than all room the room alone", async () => {
  const room = new AnswerRoom(100);
  const asked = [1, 1000, 1].map((length) => ask(room, "alice", length));
  asked[0]?.release();
  await settle();
  assert.deepEqual(asked.map(({ has }) => has), [true, false, false]);
  asked[0]?.release();
  await settle();
  assert.deepEqual(asked.map(({ has }) => has), [true, true, false]);
});

Deno.test("AnswerRoom of one user does not serve another", async () => {
  const room = new AnswerRoom(100);
  const asked = ["alice", "bob", "__proto__"].map((user) => ask(room, user, 100));
  await settle();
  assert.ok(asked.every(({ has }) => has));
});

Deno.test("AnswerRoom lets a call go that is canceled, and the next one in", async () => {
  const room = new AnswerRoom(100);
  const canceled = new AbortController();
  const first = ask(room, "alice", 60);
  const second = ask(room, "alice", 60, canceled.signal);
  const third = ask(room, "alice", 40);
  await settle();
  canceled.abort();
  await settle();
  assert.deepEqual([first.has, second.has, second.failure, third.has], [true, false, "canceled", true]);
  assert.equal(codeOf(await room.take("alice", 1, canceled.signal).catch((error) => error)), "canceled");
});

Deno.test("AnswerRoom gives a user who has given everything back all room again", async () => {
  const room = new AnswerRoom(100);
  for (let time = 0; time < 3; time++) (await room.take("alice", 100, signal))();
  assert.ok(room.hasRoom("alice", 100));
});

Deno.test("AnswerRoom counts what is taken in the moment in which all else is given back", async () => {
  const room = new AnswerRoom(100);
  const canceled = new AbortController();
  const first = ask(room, "alice", 100);
  ask(room, "alice", 100, canceled.signal);
  await settle();
  canceled.abort();
  first.release();
  ask(room, "alice", 100);
  await settle();
  assert.equal(room.hasRoom("alice", 1), false);
});

/** The shortest answer that may have to wait. */
const LONG = SHORT_LENGTH + 1;

Deno.test("RequestAnswers gives all room back at its end, also what it gets only then", async () => {
  const room = new AnswerRoom(2 * LONG);
  const [one, two] = [new RequestAnswers(room, "alice"), new RequestAnswers(room, "alice")];
  await one.hold(LONG, signal);
  await one.hold(LONG, signal);
  const late = two.hold(LONG, signal);
  two.end();
  one.end();
  await late;
  assert.ok(room.hasRoom("alice", 2 * LONG));
});

Deno.test("RequestAnswers refuses an answer that would wait for others of the same request, for ever", async () => {
  const room = new AnswerRoom(3 * LONG);
  const answers = new RequestAnswers(room, "alice");
  await answers.hold(2 * LONG, signal);
  await assert.rejects(answers.hold(2 * LONG, signal), (error) => codeOf(error) === "rate_limited");
  await answers.hold(LONG, signal);
});

Deno.test("RequestAnswers refuses an answer that comes while another of the same request waits for others", async () => {
  const room = new AnswerRoom(3 * LONG);
  const [others, answers] = [new RequestAnswers(room, "alice"), new RequestAnswers(room, "alice")];
  await others.hold(3 * LONG, signal);
  const first = answers.hold(2 * LONG, signal);
  // Both would be let in one after the other, but the first is only gone when the request has both.
  await assert.rejects(answers.hold(2 * LONG, signal), (error) => codeOf(error) === "rate_limited");
  others.end();
  await first;
  await answers.hold(LONG, signal);
});

Deno.test("RequestAnswers that was canceled while it waited is in no other answer's way", async () => {
  const room = new AnswerRoom(LONG);
  const [others, answers] = [new RequestAnswers(room, "alice"), new RequestAnswers(room, "alice")];
  await others.hold(LONG, signal);
  const canceled = new AbortController();
  const first = assert.rejects(answers.hold(LONG, canceled.signal));
  canceled.abort();
  await first;
  const second = answers.hold(LONG, signal);
  others.end();
  await second;
});

Deno.test("RequestAnswers lets short answers through while another client takes nothing", async () => {
  const room = new AnswerRoom(LONG);
  await new RequestAnswers(room, "alice").hold(LONG, signal);
  await new RequestAnswers(room, "alice").hold(SHORT_LENGTH, signal);
});
