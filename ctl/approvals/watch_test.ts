import assert from "node:assert/strict";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { draw, type WatchState } from "./screen.ts";
import { NOTHING_WATCHED, READING_MS, watch, type WatchEvent } from "./watch.ts";
import { formatApprovals } from "./text.ts";

function approval(id: string, minute = 0): ApprovalRecord {
  const at = (minutes: number) => new Date(Date.UTC(2026, 0, 1, 0, minutes)).toISOString();
  return {
    id,
    status: "pending",
    caller: "agent-7",
    host: "web01",
    command: `restart ${id}`,
    created_at: at(minute),
    expires_at: at(minute + 5),
  } as ApprovalRecord;
}

const [ONE, TWO] = [approval("one"), approval("two", 1)];
const LONG = { ...approval("long"), command: "echo word ".repeat(200) };
const HOSTILE: ApprovalRecord = {
  ...approval("hostile"),
  ...{
    command: `id${" ".repeat(77)}host     web02\x1b[2J\n\u202e${"語".repeat(40)}`,
    end_user: "a\x9b1m (root)",
  },
  ...{ host: "web01\x07", rule: "behavior", anomalies: ["new-host:\x1b]0;"], reason: "a \r b ".repeat(12) },
  ...{ joined: ["a", "b"], addr: "10.0.0.1:22", account: "deploy", sudo: true },
};
const list = (now: number, ...pending: ApprovalRecord[]): WatchEvent => ({ kind: "list", pending, now });
const SCREEN = { columns: 80, rows: 24 };
const key = (key: string, now: number, screen = SCREEN): WatchEvent => ({ kind: "key", key, now, screen });
const keys = (keys: string) => [...keys].map((each) => key(each, LATER));
const decided = (failure?: string): WatchEvent => ({ kind: "decided", choice: "d", failure, now: LATER });

/** Runs events and returns the actions, and the lines that stay with the last screen below them. */
function play(...events: WatchEvent[]) {
  let state: WatchState = NOTHING_WATCHED;
  const actions: unknown[] = [];
  const lines: string[] = [];
  for (const event of events) {
    const step = watch(state, event);
    state = step.state;
    lines.push(...step.lines);
    if (step.action !== undefined) actions.push(step.action);
  }
  return { lines: [...lines, ...draw(state, { ...SCREEN, now: 0 })].join("\n"), actions };
}

const LATER = READING_MS + 1;

Deno.test.each<{ name: string; events: WatchEvent[]; actions: unknown[]; says?: RegExp }>([
  {
    name: "approves the shown request after a second key",
    events: [list(0, ONE), key("a", LATER), key("y", LATER)],
    actions: [{ kind: "decide", shown: ["one"], choice: "a" }],
    says: /^"restart one"\n[\s\S]*\nsending the decision$/,
  },
  {
    name: "denies the shown request after a second key",
    events: [list(0, ONE), key("d", LATER), key("y", LATER)],
    actions: [{ kind: "decide", shown: ["one"], choice: "d" }],
  },
  {
    name: "learns from the request as it was first shown",
    events: [list(0, { ...ONE, joined: ["same"] }), key("l", LATER), list(LATER, ONE), key("y", LATER)],
    actions: [{ kind: "decide", shown: ["one", "same"], choice: "l" }],
  },
  {
    name: "makes no decision after one key",
    events: [list(0, ONE), key("a", LATER)],
    actions: [],
    says: /\nApprove "restart one" on web01\? \[y\/N\]$/,
  },
  {
    name: "approves no truncated request",
    events: [list(0, LONG), ...keys("ayvly")],
    actions: [],
    says: /page 1 of 2, /,
  },
  {
    name: "approves a truncated request after its last page",
    events: [list(0, LONG), ...keys("vvay")],
    actions: [{ kind: "decide", shown: ["long"], choice: "a" }],
  },
  {
    name: "counts pages from the first one after a change of the size",
    events: [
      list(0, LONG),
      ...[80, 80, 79].map((columns, at) => key("v", LATER, { columns, rows: at === 0 ? 24 : 23 })),
      ...keys("ay"),
    ],
    actions: [],
  },
  {
    name: "denies a truncated request",
    events: [list(0, LONG), ...keys("dy")],
    actions: [{ kind: "decide", shown: ["long"], choice: "d" }],
  },
  {
    name: "shows the keys",
    events: [list(0, ONE), ...keys("?")],
    actions: [],
    says: /left\na approves, [^\n]+ q quits\n\[a\]pprove/,
  },
  {
    name: "makes no decision if the second key is not y",
    events: [list(0, ONE), key("a", LATER), key("n", LATER), key("y", LATER)],
    actions: [],
    says: /\na approves, d denies/,
  },
  {
    name: "ignores a key pressed too soon after the request appeared",
    events: [list(0, ONE), key("a", 1), key("y", LATER)],
    actions: [],
  },
  {
    name: "makes no decision if no request is shown",
    events: [list(0), key("a", LATER), key("y", LATER)],
    actions: [],
  },
  {
    name: "decides the shown request although an older request has arrived",
    events: [list(0, TWO), key("a", LATER), list(LATER, ONE, TWO), key("y", LATER)],
    actions: [{ kind: "decide", shown: ["two"], choice: "a" }],
    says: /^"restart two"\n[\s\S]*\n2 of 2, /,
  },
  {
    name: "does not apply the key for a removed request to the next request",
    events: [list(0, ONE, TWO), key("a", LATER), list(LATER, TWO), key("y", LATER + 1)],
    actions: [],
    says: /^1970-01-01T00:00:00Z no longer pending: "restart one" on web01\n"restart two"\n/,
  },
  {
    name: "shows the next request after a decision",
    events: [
      list(0, ONE, TWO),
      key("d", LATER),
      key("y", LATER),
      list(LATER, TWO),
      decided(),
    ],
    actions: [{ kind: "decide", shown: ["one"], choice: "d" }],
    says: /^1970-01-01T00:00:00Z denied "restart one" on web01\n"restart two"\n[\s\S]*\n1 of 1, /,
  },
  {
    name: "keeps the request of a failed decision, and ignores keys that were typed before the result",
    events: [list(0, ONE), ...keys("dy"), decided("unreachable"), ...keys("d")],
    actions: [{ kind: "decide", shown: ["one"], choice: "d" }],
    says: /decision failed: "restart one" on web01: unreachable\n"restart one"\n[\s\S]*\n\[a\]pprove/,
  },
  {
    name: "shows a lost connection",
    events: [list(0, ONE), { kind: "away", message: "lost\x07", now: 0 }],
    actions: [],
    says: /left\nlost\\x07\n\[a\]pprove/,
  },
  {
    name: "shows no lost connection after the next list",
    events: [list(0, ONE), { kind: "away", message: "lost", now: 0 }, list(0, ONE)],
    actions: [],
    says: /left\n\[a\]pprove/,
  },
  {
    name: "skips a request and does not show it again",
    events: [list(0, ONE), key("s", LATER), list(LATER, ONE), key("a", 2 * LATER), key("y", 2 * LATER)],
    actions: [],
    says:
      /skipped "restart one" on web01; to see it again: broker-ctl approval show one\n\(no pending requests; press q to quit\)$/,
  },
  {
    name: "quits",
    events: [key("q", 0), key("\x03", 0), key("\x04", 0)],
    actions: Array(3).fill({ kind: "quit" }),
  },
])("watch() $name", ({ events, actions, says }) => {
  const played = play(...events);
  assert.deepEqual(played.actions, actions);
  if (says !== undefined) assert.match(played.lines, says);
});

Deno.test.each<{ name: string; record: ApprovalRecord; columns?: number; rows?: number; lines: string[] }>([
  {
    name: "a short request",
    record: { ...ONE, end_user: "ann", reason: "disk is full", rule: "require_approval:^restart" },
    lines: [
      '<b>"restart one"</b>',
      "",
      "host     web01",
      "agent    ann through agent-7",
      'reason   "disk is full"',
      "rule     require_approval:^restart",
      "",
      "1 of 3, 4m59s left",
      "[a]pprove [d]eny [l]earn [s]kip [?] [q]uit",
    ],
  },
  {
    name: "an unusual request with invisible characters",
    record: HOSTILE,
    lines: [
      `<b>"id${" ".repeat(74)}</b>`,
      String.raw`<b>     host     web02\x1b[2J\n\u202e${"語".repeat(23)}</b>`,
      `<b>  ${"語".repeat(17)}"</b>`,
      "",
      String.raw`host     web01\x07 (10.0.0.1:22) as deploy with elevation sudo:root`,
      String.raw`agent    "a\u009b1m (root)" through agent-7`,
      String.raw`reason   "a \r b ${String.raw`a \r b `.repeat(8)}a \r `,
      String.raw`         b a \r b a \r b "`,
      "rule     none: the guardrails found the request unusual",
      String.raw`unusual  "new-host:\x1b]0;"`,
      "covers   3 identical requests",
      "",
      "1 of 3, 4m59s left",
      "[a]pprove [d]eny [l]earn [s]kip [?] [q]uit",
    ],
  },
  {
    name: "the beginning of a request that does not fit",
    record: { ...LONG, reason: "word ".repeat(40) },
    ...{ columns: 40, rows: 10 },
    lines: [
      '<b>"echo word echo word echo word echo </b>',
      "<b>  word echo word echo word echo word …</b>",
      "",
      "host     web01",
      "agent    agent-7",
      'reason   "word word word word word …',
      "TRUNCATED: [v]iew 12 pages, 1 of 3, …",
      "[a]pprove [d]eny [l]earn [s]kip [?] …",
    ],
  },
  { name: "no part of a request on a tiny screen", record: ONE, columns: 19, lines: ["Enlarge the …"] },
])("draw() shows $name", ({ record, columns = 80, rows = 24, lines }) => {
  const now = Date.parse(record.created_at) + 1_000;
  const state = { ...NOTHING_WATCHED, pending: [record, TWO, LONG], current: { record, shownAt: 0 } };
  assert.deepEqual(draw(state, { columns, rows, now }, (text) => `<b>${text}</b>`), lines);
});

Deno.test("draw() fits every size, and shows no control character and no false fact", () => {
  for (const record of [ONE, LONG, HOSTILE]) {
    for (const columns of [3, 19, 20, 33, 80, 200]) {
      for (const rows of [4, 8, 12, 24, 100]) {
        for (const page of [0, 1, 2]) {
          const current = { record, shownAt: 0, viewed: { columns, rows, page } };
          const lines = draw({ ...NOTHING_WATCHED, pending: [record], current }, { columns, rows, now: 0 });
          const isGood = (line: string) => [...line].length <= columns && !/\p{C}|^host +web02/u.test(line);
          assert.ok(lines.length < rows && lines.every(isGood), JSON.stringify([columns, rows, page, lines]));
        }
      }
    }
  }
});

const NOW = Date.parse("2026-01-02T03:05:20Z");
const PENDING: ApprovalRecord = {
  ...{ id: "ab".repeat(16), caller: "broker-local", host: "web01", command: "id", status: "pending" },
  created_at: "2026-01-02T03:04:05.000000006Z",
  decided_at: "0001-01-01T00:00:00Z",
  expires_at: "2026-01-02T03:06:05Z",
};

Deno.test.each<[name: string, record: Partial<ApprovalRecord>, age: string, left: string]>([
  ["a pending request", {}, "75s", "45s"],
  ["a request past its deadline", { expires_at: PENDING.created_at }, "75s", "0s"],
  ["a request without a deadline", { expires_at: undefined }, "75s", ""],
  ["an uncollected approved request", { status: "approved" }, "75s", "approved"],
  ["a denied request", { status: "denied" }, "75s", "denied"],
])("formatApprovals() shows age and time left of %s", (_name, record, age, left) => {
  const { rows: [row = []] } = formatApprovals([{ ...PENDING, ...record }], "", NOW);
  assert.deepEqual(row.slice(1, 3).map((cell) => typeof cell === "string" ? cell : cell.text), [age, left]);
});
