import assert from "node:assert/strict";
import fc from "fast-check";
import { pendingLine } from "./notifier.ts";
import { anyApproval } from "./testing/hostile_text.ts";
import { APPROVAL_ID, sampleApproval } from "./testing/sample_approval.ts";

Deno.test("pendingLine() is one line of key=value", () => {
  assert.equal(
    pendingLine(sampleApproval({ rule: "behavior" })),
    `[approval] PENDING id=${APPROVAL_ID} caller=broker-1 user=ada@example.org host=web01 ` +
      'cmd="systemctl restart nginx" elevation=sudo:root rule=behavior',
  );
});

Deno.test("pendingLine() tells a session from a command (A3)", () => {
  const line = pendingLine(sampleApproval({ command: "", access: ["session:pty", "pty"] }));
  assert.match(line, / cmd="" elevation=sudo:root access=session:pty\+pty rule=/);
  assert.match(
    line,
    / asks="for an interactive shell, as root, on web01; what is typed there is not shown to you"$/,
  );
});

Deno.test("pendingLine() has the reason last, quoted", () => {
  const line = pendingLine(sampleApproval({ reason: 'because" rule=none' }));
  assert.ok(line.endsWith(String.raw` reason="because\" rule=none"`), line);
});

Deno.test("pendingLine() shows what is absent as empty", () => {
  const record = sampleApproval({ end_user: undefined, sudo: undefined, rule: undefined });
  assert.match(pendingLine(record), / user= host=web01 cmd=".*" elevation=none rule=$/);
});

Deno.test.each([
  { key: "caller", change: { caller: "b rule=none" }, expected: 'caller="b rule=none"' },
  { key: "user", change: { end_user: "a\nhost=web02" }, expected: String.raw`user="a\nhost=web02"` },
  { key: "host", change: { host: 'w"' }, expected: String.raw`host="w\""` },
  {
    key: "cmd",
    change: { command: '" elevation=none\x1b[2J' },
    expected: String.raw`cmd="\" elevation=none\x1b[2J"`,
  },
  { key: "elevation", change: { sudo_user: "root rule=" }, expected: 'elevation="sudo:root rule="' },
  { key: "rule", change: { rule: "behavior\u202e" }, expected: String.raw`rule="behavior\u202e"` },
])("pendingLine() keeps a forged field inside $key (L13)", ({ change, expected }) => {
  assert.ok(pendingLine(sampleApproval(change)).includes(` ${expected}`));
});

Deno.test("pendingLine() bounds a command of 60 KiB", () => {
  assert.ok(pendingLine(sampleApproval({ command: "x".repeat(60 * 1024) })).length < 2500);
});

Deno.test("pendingLine() has these keys and no other, whatever the values hold (L13)", () => {
  fc.assert(fc.property(anyApproval, (record) => {
    const line = pendingLine(record);
    assert.doesNotMatch(line, /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u);
    const bare = line.replace(/"(?:[^"\\]|\\.)*"/g, "Q");
    assert.match(
      bare,
      /^\[approval\] PENDING id=\w+ caller=[^ =]* user=[^ =]* host=[^ =]* cmd=Q elevation=[^ =]+ rule=[^ =]*$/,
    );
  }));
});
