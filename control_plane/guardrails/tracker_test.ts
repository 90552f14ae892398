import assert from "node:assert/strict";
import fc from "fast-check";
import {
  type BehaviorRequest,
  fingerprintOf,
  novelty,
  rememberedName,
  Tracker,
  type TrackerLimits,
} from "./tracker.ts";

const LIMITS: TrackerLimits = {
  rateLimitPerMin: 0,
  maxSubjects: 4096,
  idleMs: 86_400_000,
  maxDistinct: 1024,
};
const SUBJECT = '["broker-1"]';

const trackerOf = (limits: Partial<TrackerLimits> = {}) => new Tracker({ ...LIMITS, ...limits }, () => {});
const request = (host: string, command: string, subject = SUBJECT) => ({ subject, host, command });

/** A tracker that has learned one request. */
function tracked(limits: Partial<TrackerLimits> = {}): Tracker {
  const tracker = trackerOf(limits);
  tracker.learn(request("web01", "uptime -p"), 0);
  return tracker;
}

Deno.test("learnUsual() learns the first request and no novelty after it", () => {
  const tracker = trackerOf();
  assert.equal(tracker.learnUsual(request("web01", "uptime"), 0), true);
  assert.equal(tracker.learnUsual(request("db01", "uptime"), 0), false);
  assert.equal(tracker.learnUsual(request("web01", "id"), 0), false);
  assert.deepEqual(tracker.baseline(SUBJECT), {
    subject: SUBJECT,
    lastSeen: 0,
    hosts: ["web01"],
    commands: ["uptime"],
  });
});

Deno.test("learn() returns whether the baseline has changed", () => {
  const tracker = trackerOf({ maxDistinct: 1 });
  assert.equal(tracker.learn(request("", ""), 0), true, "that the subject is known");
  assert.equal(tracker.learn(request("", ""), 0), false);
  assert.equal(tracker.learn(request("web01", ""), 0), true);
  assert.equal(tracker.learn(request("web01", "uptime"), 0), true);
  assert.equal(tracker.learn(request("web01", "uptime"), 0), false);
  assert.equal(tracker.learn(request("db01", "id"), 0), false, "the sets are full");
});

Deno.test("a flood of 100,000 subjects stays within max_subjects and keeps established ones (A10)", () => {
  const forgotten: string[] = [];
  const tracker = new Tracker({ ...LIMITS, rateLimitPerMin: 60 }, (subject) => forgotten.push(subject));
  const subjects = Array.from({ length: 500 }, (_, i) => JSON.stringify(["broker-1", `user-${i}`]));
  for (const subject of subjects) {
    for (let i = 0; i < 3; i++) tracker.learn(request("web01", "uptime", subject), i);
  }
  for (let i = 0; i < 100_000; i++) {
    const flood = request("web01", "uptime", JSON.stringify([`broker-${1 + i % 2}`, `made-up-${i}`]));
    tracker.check(flood, 10);
    // Every third request is allowed.
    if (i % 3 === 0) tracker.learn(flood, 10);
    assert.ok(tracker.size <= LIMITS.maxSubjects);
  }
  for (const subject of subjects) assert.deepEqual(tracker.baseline(subject)?.hosts, ["web01"]);
  assert.ok(forgotten.length >= 100_000 - LIMITS.maxSubjects);
});

Deno.test("denied requests of invented subjects displace no proven subject", () => {
  const tracker = trackerOf({ maxSubjects: 160 });
  const subjects = Array.from({ length: 150 }, (_, i) => JSON.stringify(["broker-1", `user-${i}`]));
  for (const subject of subjects) tracker.learn(request("web01", "uptime", subject), 0);
  for (let i = 0; i < 10_000; i++) {
    tracker.check(request("web01", "rm", JSON.stringify(["broker-1", `made-up-${i}`])), 1);
  }
  for (const subject of subjects) assert.notEqual(tracker.baseline(subject), undefined);
});

Deno.test.each([
  { times: 1, survives: false },
  { times: 2, survives: false },
  { times: 3, survives: true },
])(
  "a subject learned $times times survives a flood of subjects learned once or twice: $survives",
  (row) => {
    const tracker = trackerOf({ maxSubjects: 160 });
    for (let i = 0; i < row.times; i++) tracker.learn(request("web01", "uptime"), 0);
    for (let i = 0; i < 10_000; i++) {
      const flood = request("web01", "uptime", JSON.stringify(["broker-1", `user-${i}`]));
      for (let j = 0; j < 1 + i % 2; j++) tracker.learn(flood, 1);
    }
    assert.equal(tracker.baseline(SUBJECT) !== undefined, row.survives);
  },
);

Deno.test("restore() restores the result of baseline()", () => {
  const tracker = tracked();
  tracker.learn(request("db01", "TOKEN=x psql"), 5);
  const baseline = tracker.baseline(SUBJECT);
  assert(baseline !== undefined);
  assert.ok(!JSON.stringify(baseline).includes("TOKEN"));
  const restored = trackerOf();
  restored.restore([baseline]);
  assert.deepEqual(restored.baseline(SUBJECT), baseline);
  assert.deepEqual(restored.check(request("db01", "TOKEN=x psql"), 6).novelties, []);
  assert.deepEqual(restored.check(request("db01", "TOKEN=y psql"), 6).novelties, ["new-command:TOKEN=y"]);
});

Deno.test("restore() truncates a baseline to a lower max_distinct", () => {
  const tracker = trackerOf({ maxDistinct: 1 });
  tracker.restore([{ subject: SUBJECT, lastSeen: 0, hosts: ["a", "b"], commands: ["c", "d"] }]);
  assert.deepEqual(tracker.baseline(SUBJECT), {
    subject: SUBJECT,
    lastSeen: 0,
    hosts: ["a"],
    commands: ["c"],
  });
});

/** A reference model of the rules, without memory limits. */
class Model {
  readonly #limits: TrackerLimits;
  readonly #subjects = new Map<string, { lastSeen: number; times: number[]; learned: BehaviorRequest[] }>();

  constructor(limits: TrackerLimits) {
    this.#limits = limits;
  }

  check(request: BehaviorRequest, now: number) {
    const subject = this.#see(request.subject, now);
    subject.times.push(now);
    const { rateLimitPerMin: limit } = this.#limits;
    const recent = subject.times.filter((time) => time > now - 60_000).length;
    return { exceeded: limit > 0 && recent > limit, novelties: this.#novelties(request) };
  }

  learn(request: BehaviorRequest, now: number) {
    const { learned } = this.#see(request.subject, now);
    learned.push(request);
  }

  learnUsual(request: BehaviorRequest, now: number) {
    const subject = this.#subjects.get(request.subject);
    const isKnown = subject !== undefined && now - subject.lastSeen <= this.#limits.idleMs;
    if (!isKnown || this.#novelties(request).length === 0) this.learn(request, now);
  }

  #see(key: string, now: number) {
    let subject = this.#subjects.get(key);
    if (subject === undefined || now - subject.lastSeen > this.#limits.idleMs) {
      subject = { lastSeen: now, times: [], learned: [] };
      this.#subjects.set(key, subject);
    }
    subject.lastSeen = now;
    return subject;
  }

  #novelties({ subject, host, command }: BehaviorRequest): string[] {
    const learned = this.#subjects.get(subject)?.learned ?? [];
    if (learned.length === 0) return [];
    const isNew = (name: string, known: string[]) => {
      const names = [...new Set(known)].filter((each) => each !== "").slice(0, this.#limits.maxDistinct);
      return name !== "" && names.length < this.#limits.maxDistinct && !names.includes(name);
    };
    const word = fingerprintOf(command);
    return [
      ...isNew(host, learned.map((each) => each.host)) ? [`new-host:${host}`] : [],
      ...isNew(word, learned.map((each) => fingerprintOf(each.command))) ? [`new-command:${word}`] : [],
    ];
  }
}

Deno.test("check() and learn() match the reference model within the limits (property)", () => {
  const step = fc.record({
    kind: fc.constantFrom("check" as const, "check" as const, "learn" as const, "learnUsual" as const),
    subject: fc.constantFrom('["a"]', '["a","b"]', '["c"]'),
    host: fc.constantFrom("", "h1", "h2", "H1", "id", "a long name, with spaces", "h1 "),
    command: fc.constantFrom(
      "",
      "  ",
      "id",
      "id -u",
      "/bin/id",
      "constructor",
      "ls",
      "A=b ls",
      "A=c ls",
      "x".repeat(99),
      "y".repeat(99),
    ),
    waitMs: fc.constantFrom(0, 0, 1, 500, 20_000, 59_999, 60_000, 300_000, 300_001),
  });
  const limits = fc.record({
    rateLimitPerMin: fc.constantFrom(0, 1, 2, 5),
    maxSubjects: fc.constant(3 * 16),
    idleMs: fc.constantFrom(300_000, 1_000_000),
    maxDistinct: fc.integer({ min: 1, max: 4 }),
  });
  fc.assert(
    fc.property(limits, fc.array(step, { maxLength: 80, size: "max" }), (limits, steps) => {
      const [tracker, model] = [trackerOf(limits), new Model(limits)];
      let now = 1_767_323_045_000;
      for (const { kind, waitMs, ...request } of steps) {
        now += waitMs;
        if (kind === "check") {
          const { rate, novelties } = tracker.check(request, now);
          assert.deepEqual({ exceeded: rate.exceeded, novelties }, model.check(request, now));
        } else {
          tracker[kind](request, now);
          model[kind](request, now);
        }
      }
    }),
    { numRuns: 1000 },
  );
});

Deno.test.each([
  { name: "the first word", command: "systemctl restart nginx", fingerprint: "systemctl" },
  { name: "the word without the space around it", command: "  uptime  ", fingerprint: "uptime" },
  { name: "the word up to a tab or newline", command: "\tid\n-u", fingerprint: "id" },
  { name: "the unchanged path", command: "/usr/bin/id", fingerprint: "/usr/bin/id" },
  { name: "the unchanged case", command: "ID", fingerprint: "ID" },
  { name: "an empty fingerprint for no command", command: "", fingerprint: "" },
  { name: "an empty fingerprint for white space", command: " \t\n", fingerprint: "" },
  {
    name: "all that a shell takes for one word",
    command: "ls\u00a0-l\u2003x",
    fingerprint: "ls\u00a0-l\u2003x",
  },
])("fingerprintOf() returns $name", ({ command, fingerprint }) => {
  assert.equal(fingerprintOf(command), fingerprint);
});

Deno.test.each([
  { what: "a program", name: "systemctl" },
  { what: "a path", name: "/usr/bin/env" },
  { what: "a host", name: "web-01.example_a" },
  { what: "64 characters", name: "x".repeat(64) },
])("rememberedName() keeps $what", ({ name }) => assert.equal(rememberedName(name), name));

Deno.test.each([
  { what: "what may be a secret", name: "TOKEN=hunter2" },
  { what: "65 characters", name: "x".repeat(65) },
  { what: "60,000 characters", name: "x".repeat(60_000) },
  { what: "a name with a line's end", name: "ls\n" },
  { what: "a name that looks like a digest", name: "sha256:0" },
  { what: "a lone surrogate", name: "\ud800" },
  { what: "letters beyond ASCII", name: "naïve" },
])("rememberedName() returns only a digest of $what", ({ name }) => {
  assert.match(rememberedName(name), /^sha256:[\w-]{43}$/);
});

Deno.test("rememberedName() returns different results for different names (property)", () => {
  const name = fc.oneof(
    fc.string({ unit: fc.constantFrom("a", "/", "=", "\ud800", "\udc00", "\ufffd"), maxLength: 5 }),
    fc.constantFrom("x".repeat(64), "x".repeat(65)),
    fc.string().map((text) => rememberedName(`=${text}`)),
  );
  fc.assert(
    fc.property(name, name, (a, b) => assert.equal(rememberedName(a) === rememberedName(b), a === b)),
    { numRuns: 1000 },
  );
});

Deno.test.each(
  [
    { what: "a host", kind: "new-host", name: "web01", text: "new-host:web01" },
    { what: "a word as it stands", kind: "new-command", name: "TOKEN=x,y", text: "new-command:TOKEN=x,y" },
    {
      what: "256 letters",
      kind: "new-command",
      name: "x".repeat(256),
      text: `new-command:${"x".repeat(256)}`,
    },
    {
      what: "the start of more",
      kind: "new-command",
      name: "x".repeat(9999),
      text: `new-command:${"x".repeat(256)}…`,
    },
    {
      what: "256 emoji",
      kind: "new-command",
      name: "💥".repeat(256),
      text: `new-command:${"💥".repeat(256)}`,
    },
    {
      what: "the start of more, without halving one",
      kind: "new-command",
      name: `${"💥".repeat(256)}x`,
      text: `new-command:${"💥".repeat(256)}…`,
    },
    { what: "a mark for half of one", kind: "new-command", name: "\ud800", text: "new-command:\ufffd" },
  ] as const,
)("novelty() shows $what", ({ kind, name, text }) => {
  assert.equal(novelty(kind, name), text);
});
