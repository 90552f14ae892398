import assert from "node:assert/strict";
import { describePattern, describeRules } from "./rules_words.ts";

Deno.test.each([
  { source: "^uptime$", words: 'exactly "uptime"' },
  { source: String.raw`^cat /etc/os-release\.d/a$`, words: 'exactly "cat /etc/os-release.d/a"' },
  { source: "^systemctl status ", words: 'what begins with "systemctl status "' },
  { source: "^systemctl status .*$", words: 'what begins with "systemctl status "' },
  { source: "^df( .*)?$", words: '"df", alone or with arguments' },
  { source: "^df(?: |$)", words: '"df", alone or with arguments' },
  { source: "uptime", words: 'what contains "uptime"' },
  { source: "^ls -[la]+$", words: "what matches /^ls -[la]+$/ (RE2)" },
  { source: String.raw`^a\b`, words: String.raw`what matches /^a\b/ (RE2)` },
  { source: "(?i)^rm$", words: "what matches /(?i)^rm$/ (RE2)" },
  { source: "^a|b$", words: "what matches /^a|b$/ (RE2)" },
  { source: "", words: "what matches // (RE2)" },
  { source: "^x\u202ey$", words: String.raw`exactly "x\u{202e}y"` },
])("describePattern() says $source as $words", ({ source, words }) => {
  assert.equal(describePattern(source), words);
});

Deno.test("describeRules() says what may run, what needs approval, and the ways there are", () => {
  const rules = {
    commands: "allowlist",
    enforcement: "enforce",
    shell_parse: true,
    allow: ["^uptime$"],
    allow_omitted: 2,
    some_denied: true,
    require_approval: ["^reboot$"],
    sudo_users: ["root", "db"],
    session_modes: ["exec"],
    file_transfer: false,
    max_ttl_seconds: 300,
  } as const;
  assert.deepEqual(describeRules(rules), [
    "only these commands:",
    '- exactly "uptime"',
    "- and what 2 more patterns match, which are not shown",
    "some of them are denied nevertheless, which is not shown",
    "each command of a line is judged for itself; redirections, substitutions, assignments and the like are refused",
    "a human has to approve:",
    '- exactly "reboot"',
    "sudo to root, db",
    "sessions: exec",
    "no file transfer",
    "certificates of at most 300 s",
  ]);
  assert.deepEqual(
    describeRules({
      commands: "any",
      enforcement: "audit",
      shell_parse: false,
      session_modes: ["exec", "shell"],
      file_transfer: true,
      max_ttl_seconds: 60,
    }),
    [
      "any command",
      "for now, what these rules refuse runs with a warning",
      "no sudo",
      "sessions: exec, shell",
      "file transfer where the rules above allow it",
      "certificates of at most 60 s",
    ],
  );
});
