import assert from "node:assert/strict";
import fc from "fast-check";
import { SubjectTable, TRUST_LEVELS, type TrustLevel } from "./subject_table.ts";
import { brokerOf, subjectOf } from "./tracker.ts";

const HOUR_MS = 3_600_000;

function tableOf(maxSubjects: number, idleMs = 24 * HOUR_MS) {
  const forgotten: string[] = [];
  const table = new SubjectTable<string>({
    maxSubjects,
    idleMs,
    onForget: (subject) => forgotten.push(subject),
  });
  return { table, forgotten };
}

/** Adds a subject of a broker and raises it to the given standing. */
function admit(
  table: SubjectTable<string>,
  broker: string,
  name: string,
  standing: TrustLevel,
  now = 0,
): string {
  const subject = `${broker}/${name}`;
  table.admit(subject, broker, "", now);
  for (let i = 0; i < TRUST_LEVELS.indexOf(standing); i++) table.promote(subject, now);
  return subject;
}

function admitMany(
  table: SubjectTable<string>,
  broker: string,
  count: number,
  standing: TrustLevel,
  now = 0,
) {
  return Array.from({ length: count }, (_, i) => admit(table, broker, String(i), standing, now));
}

const heldOf = (table: SubjectTable<string>, subjects: readonly string[]) =>
  subjects.filter((subject) => table.peek(subject) !== undefined);

Deno.test("find() returns an admitted subject until the idle limit", () => {
  const { table, forgotten } = tableOf(16, 1000);
  table.admit("a", "broker", "value", 0);
  assert.equal(table.find("a", 1000)?.value, "value");
  assert.equal(table.find("a", 1001), undefined);
  assert.deepEqual(forgotten, ["a"]);
  assert.equal(table.size, 0);
});

Deno.test("touch() restarts the idle time of a subject", () => {
  const { table } = tableOf(16, 1000);
  table.admit("a", "broker", "", 0);
  table.touch("a", 900);
  assert.notEqual(table.find("a", 1900), undefined);
  assert.equal(table.find("a", 1901), undefined);
});

Deno.test("find() also removes other subjects above the idle limit", () => {
  const { table, forgotten } = tableOf(1000, 1000);
  admit(table, "first", "seen again", "unproven");
  const subjects = TRUST_LEVELS.flatMap((standing) => [
    ...Array.from({ length: 5 }, (_, i) => admit(table, "first", `${standing}${i}`, standing)),
    ...admitMany(table, standing, 5, standing),
  ]);
  table.touch("first/seen again", 59_000);
  admit(table, "first", "seen later", "proven", 59_000);
  table.find("another", 60_000);
  assert.equal(table.size, 2);
  assert.deepEqual(forgotten.toSorted(), subjects.toSorted());
});

Deno.test("admit() fills the table and then forgets the subject with the longest idle time", () => {
  const { table, forgotten } = tableOf(16);
  const [first, second] = admitMany(table, "broker", 16, "unproven");
  assert.equal(table.size, 16);
  table.touch(first ?? "", 1);
  admit(table, "broker", "new", "unproven", 2);
  assert.equal(table.size, 16);
  assert.deepEqual(forgotten, [second]);
});

Deno.test.each(TRUST_LEVELS.map((standing) => ({ standing })))(
  "a flood of a broker's $standing subjects displaces no subject of a higher standing",
  ({ standing }) => {
    const { table } = tableOf(160);
    const higher = TRUST_LEVELS.slice(TRUST_LEVELS.indexOf(standing) + 1)
      .flatMap((each) => Array.from({ length: 10 }, (_, i) => admit(table, "broker", `${each}${i}`, each)));
    admitMany(table, "broker", 5000, standing, 1);
    assert.ok(table.size <= 160);
    assert.deepEqual(heldOf(table, higher), higher);
  },
);

Deno.test.each(TRUST_LEVELS.map((standing) => ({ standing })))(
  "a broker keeps its share of $standing subjects while another broker floods the table",
  ({ standing }) => {
    const { table } = tableOf(1600);
    admitMany(table, "loud", 5000, "established");
    admitMany(table, "loud", 6000, "unproven");
    const subjects = admitMany(table, "late", standing === "established" ? 700 : 50, standing, 1);
    admitMany(table, "loud", 20_000, "established", 2);
    assert.deepEqual(heldOf(table, subjects), subjects);
  },
);

Deno.test("a flood of one broker displaces only another broker's subjects above its share", () => {
  const { table } = tableOf(1600);
  const subjects = admitMany(table, "quiet", 1400, "established");
  admitMany(table, "loud", 20_000, "proven", 2 * HOUR_MS);
  assert.equal(heldOf(table, subjects).length, 1400, "nothing for those that do not come back");
  admitMany(table, "loud2", 20_000, "established", 2 * HOUR_MS);
  assert.equal(heldOf(table, subjects).length, 1400 - Math.floor(1400 / 3));
});

Deno.test("promote() displaces only a quiet subject of the same broker", () => {
  const { table, forgotten } = tableOf(16);
  const subjects = admitMany(table, "broker", 14, "established", 0);
  const late = admit(table, "broker", "late", "established", HOUR_MS - 1);
  assert.equal(table.peek(late)?.standing, "proven");
  assert.deepEqual(heldOf(table, subjects), subjects);
  table.promote(late, HOUR_MS);
  assert.equal(table.peek(late)?.standing, "established");
  assert.deepEqual(forgotten, [subjects[0]]);
});

Deno.test("promote() restarts the idle time of a subject", () => {
  const { table } = tableOf(16, 1000);
  const subject = admit(table, "broker", "a", "unproven", 0);
  table.promote(subject, 900);
  assert.notEqual(table.find(subject, 1900), undefined);
  assert.equal(table.find(subject, 1901), undefined);
});

Deno.test("admit() displaces a subject of the broker with the most subjects", () => {
  const { table, forgotten } = tableOf(160);
  admitMany(table, "few", 40, "unproven");
  admitMany(table, "most", 80, "unproven");
  admitMany(table, "some", 40, "unproven");
  admitMany(table, "new", 2, "unproven");
  assert.deepEqual(forgotten, ["most/0", "most/1"]);
});

Deno.test("brokers without subjects do not reduce the shares of other brokers", () => {
  const { table } = tableOf(1600, HOUR_MS);
  for (let i = 0; i < 100; i++) admit(table, `left${i}`, "a", "unproven");
  table.find("", 2 * HOUR_MS);
  admitMany(table, "loud", 5000, "unproven", 2 * HOUR_MS);
  const subjects = admitMany(table, "late", 50, "unproven", 2 * HOUR_MS);
  assert.deepEqual(heldOf(table, subjects), subjects);
});

Deno.test("promote() ignores established and unknown subjects", () => {
  const { table } = tableOf(16);
  const subject = admit(table, "broker", "a", "established");
  table.promote(subject, 1);
  table.promote("nobody", 1);
  assert.equal(table.peek(subject)?.standing, "established");
  assert.equal(table.size, 1);
});

Deno.test("restore() gives recent subjects the best standing and forgets those above the limit", () => {
  const { table, forgotten } = tableOf(16);
  const members = Array.from({ length: 18 }, (_, i) => {
    return { subject: String(i), broker: "broker", value: "", lastSeen: (i * 7) % 18 };
  });
  table.restore(members);
  const standings = members.toSorted((a, b) => b.lastSeen - a.lastSeen)
    .map(({ subject }) => table.peek(subject)?.standing);
  assert.deepEqual(standings, [
    ...Array.from({ length: 14 }, () => "established"),
    "proven",
    "unproven",
    undefined,
    undefined,
  ]);
  assert.equal(forgotten.length, 2);
  const oldest = members.find(({ lastSeen }) => lastSeen === 4)?.subject ?? "";
  admit(table, "broker", "late", "established", 2 * HOUR_MS);
  assert.equal(table.peek(oldest), undefined, "the oldest of the established makes room first");
});

interface Step {
  readonly kind: "admit" | "promote" | "touch" | "find" | "wait";
  readonly broker: number;
  readonly name: number;
}

Deno.test("SubjectTable keeps its limits and displaces from the largest broker (property)", () => {
  const step = fc.record<Step>({
    kind: fc.constantFrom("admit", "admit", "promote", "promote", "promote", "touch", "find", "wait"),
    broker: fc.nat(3),
    name: fc.nat(40),
  });
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 600, size: "max" }),
      fc.integer({ min: 1, max: 48 }),
      (steps, maxSubjects) => {
        const held = new Map<string, { broker: string; standing: TrustLevel }>();
        const idleMs = 5 * HOUR_MS;
        const lost: { subject: string; broker: string; standing: TrustLevel }[] = [];
        const table = new SubjectTable<string>({
          maxSubjects,
          idleMs,
          onForget(subject) {
            const member = held.get(subject);
            assert(member !== undefined, "forgets only what it had, and once");
            lost.push({ subject, ...member });
            held.delete(subject);
          },
        });
        let now = 0;
        for (const { kind, broker: number, name } of steps) {
          const broker = `b${number}`;
          const subject = `${broker}/${name}`;
          const before = new Map(held);
          lost.length = 0;
          if (kind === "wait") now += name * 10_000;
          else if (kind === "touch") table.touch(subject, now);
          else if (kind === "find") table.find(subject, now);
          else if (kind === "promote") table.promote(subject, now);
          else if (table.find(subject, now) === undefined) {
            // find() removes only idle subjects.
            lost.length = 0;
            table.admit(subject, broker, "", now);
            held.set(subject, { broker, standing: "unproven" });
          }
          const own = table.peek(subject);
          if (own !== undefined) held.set(subject, { broker, standing: own.standing });
          assert.equal(table.size, held.size);
          assert.ok(table.size <= maxSubjects);
          if (kind === "admit") assert.notEqual(own, undefined);
          if (kind !== "admit" && kind !== "promote") continue;
          assert.ok(lost.length <= 1);
          for (const victim of lost) {
            assert.notEqual(victim.subject, subject);
            assert.equal(victim.standing, own?.standing, "of the standing that is entered");
            if (victim.broker === broker) continue;
            const countOf = (each: string) =>
              [...before.values()].filter(({ broker, standing }) =>
                broker === each && standing === victim.standing
              )
                .length;
            for (let other = 0; other < 4; other++) {
              assert.ok(
                countOf(victim.broker) >= countOf(`b${other}`),
                "another loses only when it has the most",
              );
            }
            assert.ok(countOf(victim.broker) > countOf(broker) || countOf(broker) === 0);
          }
        }
      },
    ),
    { numRuns: 300 },
  );
});

Deno.test.each([
  { name: "the broker", caller: "broker-1", endUser: "", trusted: false, subject: '["broker-1"]' },
  {
    name: "the broker if it is not trusted to name its end users (I12)",
    caller: "broker-1",
    endUser: "alice",
    trusted: false,
    subject: '["broker-1"]',
  },
  {
    name: "the end user of a trusted broker",
    caller: "broker-1",
    endUser: "alice",
    trusted: true,
    subject: '["broker-1","alice"]',
  },
  {
    name: "a trusted broker that names no end user",
    caller: "broker-1",
    endUser: "",
    trusted: true,
    subject: '["broker-1"]',
  },
  {
    name: "the broker even if its name looks like an end user",
    caller: "broker-1:alice",
    endUser: "",
    trusted: true,
    subject: '["broker-1:alice"]',
  },
])("subjectOf() returns $name", ({ caller, endUser, trusted, subject }) => {
  assert.equal(subjectOf({ caller, endUser, trusted }), subject);
});

Deno.test("subjectOf() returns different keys for different identities (property)", () => {
  // A small alphabet, so that parts of one identity occur in another: quotes, brackets, half surrogate pairs.
  const part = fc.oneof(
    fc.string({
      unit: fc.constantFrom("a", ":", '"', ",", "[", "]", "\\", "\0", "\ud800", "\udc00"),
      maxLength: 6,
    }),
    fc.constantFrom("{}", '{"sha256":""}', "x".repeat(256), "x".repeat(257), "x".repeat(258)),
    fc.constantFrom(`${"x".repeat(300)}\ud800`, `${"x".repeat(300)}\ud801`, `${"x".repeat(300)}\ufffd`),
  );
  const identity = fc.record({ caller: part, endUser: part });
  fc.assert(
    fc.property(identity, identity, (a, b) => {
      const isSame = a.caller === b.caller && a.endUser === b.endUser;
      const keys = [a, b].map((each) => subjectOf({ ...each, trusted: true }));
      assert.equal(keys[0] === keys[1], isSame);
    }),
    { numRuns: 2000 },
  );
});

Deno.test("subjectOf() returns short and distinct keys for end users of any length", () => {
  const keys = ["a", "b"].map((end) =>
    subjectOf({ caller: "broker-1", endUser: `${"x".repeat(60_000)}${end}`, trusted: true })
  );
  assert.notEqual(keys[0], keys[1]);
  for (const key of keys) assert.ok(key.length < 100);
});

Deno.test("subjectOf() distinguishes a long end user from an end user named like its digest", () => {
  const endUser = "x".repeat(300);
  const { sha256 } = JSON.parse(subjectOf({ caller: "broker-1", endUser, trusted: true }))[1];
  assert.equal(sha256.length, 43);
  for (const other of [sha256, JSON.stringify({ sha256 })]) {
    assert.notEqual(
      subjectOf({ caller: "broker-1", endUser: other, trusted: true }),
      subjectOf({ caller: "broker-1", endUser, trusted: true }),
    );
  }
});

Deno.test("brokerOf() returns the broker of every subject (property)", () => {
  const text = fc.string({ unit: fc.constantFrom("a", '"', "]", "\\", "\0", "\ud800", "é") });
  fc.assert(fc.property(text, text, fc.boolean(), (caller, endUser, trusted) => {
    assert.equal(brokerOf(subjectOf({ caller, endUser, trusted })), caller);
  }));
});

Deno.test.each([{ key: "" }, { key: "broker-1" }, { key: "[]" }, { key: "[1]" }, { key: '{"0":"a"}' }])(
  "brokerOf() returns $key unchanged because it is not a subject's key",
  ({ key }) => assert.equal(brokerOf(key), key),
);
