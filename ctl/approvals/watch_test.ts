import assert from "node:assert/strict";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { NOTHING_WATCHED, READING_MS, watch, type WatchEvent, type WatchState } from "./watch.ts";
import { formatSummary } from "./text.ts";

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
const list = (now: number, ...pending: ApprovalRecord[]): WatchEvent => ({ kind: "list", pending, now });
const key = (key: string, now: number): WatchEvent => ({ kind: "key", key, now });

/** Runs events and returns the shown lines and the actions, with the last state at the end. */
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
  return { state, lines: lines.join("\n"), actions };
}

const LATER = READING_MS + 1;

Deno.test.each<{ name: string; events: WatchEvent[]; actions: unknown[]; says?: RegExp }>([
  {
    name: "approves the shown request after a second key",
    events: [list(0, ONE), key("a", LATER), key("y", LATER)],
    actions: [{ kind: "decide", shown: ["one"], approve: true }],
    says: /restart one[\s\S]*Approve "restart one" on web01\? \[y\/N\]/,
  },
  {
    name: "denies the shown request after a second key",
    events: [list(0, ONE), key("d", LATER), key("y", LATER)],
    actions: [{ kind: "decide", shown: ["one"], approve: false }],
  },
  { name: "makes no decision after one key", events: [list(0, ONE), key("a", LATER)], actions: [] },
  {
    name: "makes no decision if the second key is not y",
    events: [list(0, ONE), key("a", LATER), key("n", LATER), key("y", LATER)],
    actions: [],
    says: /no decision/,
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
    actions: [{ kind: "decide", shown: ["two"], approve: true }],
    says: /1 more pending/,
  },
  {
    name: "does not apply the key for a removed request to the next request",
    events: [list(0, ONE, TWO), key("a", LATER), list(LATER, TWO), key("y", LATER + 1)],
    actions: [],
    says: /request one is no longer pending[\s\S]*restart two/,
  },
  {
    name: "shows the next request after a decision",
    events: [
      list(0, ONE, TWO),
      key("d", LATER),
      key("y", LATER),
      { kind: "decided", id: "one", lines: ["request one denied"], now: LATER },
    ],
    actions: [{ kind: "decide", shown: ["one"], approve: false }],
    says: /request one denied[\s\S]*restart two/,
  },
  {
    name: "skips a request and does not show it again",
    events: [list(0, ONE), key("s", LATER), list(LATER, ONE), key("a", 2 * LATER), key("y", 2 * LATER)],
    actions: [],
    says: /skipped; to see it again: broker-ctl approval show one\n\(no pending requests; press q to quit\)$/,
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

const NOW = Date.parse("2026-01-02T03:05:20Z");
const PENDING: ApprovalRecord = {
  ...{ id: "ab".repeat(16), caller: "broker-local", host: "web01", command: "id", status: "pending" },
  created_at: "2026-01-02T03:04:05.000000006Z",
  decided_at: "0001-01-01T00:00:00Z",
  expires_at: "2026-01-02T03:06:05Z",
};

Deno.test.each<{ name: string; record: Partial<ApprovalRecord>; shows: RegExp }>([
  { name: "a pending request", record: {}, shows: / age=1m15s left=45s$/ },
  {
    name: "a request past its deadline",
    record: { expires_at: PENDING.created_at },
    shows: / left=0s$/,
  },
  { name: "a request without a deadline", record: { expires_at: undefined }, shows: / age=1m15s left=-$/ },
  { name: "a request from the future", record: { created_at: "2026-01-02T03:05:30Z" }, shows: / age=0s / },
  { name: "an uncollected approved request", record: { status: "approved" }, shows: / left=45s$/ },
  { name: "a denied request", record: { status: "denied" }, shows: / age=1m15s left=-$/ },
])("formatSummary() shows age and time left of $name", ({ record, shows }) => {
  assert.match(formatSummary({ ...PENDING, ...record }, NOW)[0] ?? "", shows);
});
