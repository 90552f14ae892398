import fc from "fast-check";
import { anyCharacter } from "@gateway/shared/testing";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { sampleApproval } from "./sample_approval.ts";

/** Texts with a special meaning for a renderer, a terminal or a log reader. */
export const HOSTILE_TEXTS: readonly string[] = [
  "[Approve](https://evil.example)",
  "![x](https://evil.example/x.png)",
  "<https://evil.example>",
  "**bold** __bold__ *it* _it_ ~~gone~~ `code`",
  "# heading",
  "> quote",
  "- item",
  "+ item",
  "1. item",
  "12) item",
  "    indented code",
  "a  b",
  "| a | b |",
  "[id]: https://evil.example",
  "\\[not escaped\\](https://evil.example)",
  "\\",
  "&lt;b&gt; &#42; &amp;",
  '<a href="https://evil.example">safe</a>',
  "<!-- hidden -->",
  "<at>everyone</at>",
  "{{DATE(2026-01-02T03:04:05Z, SHORT)}}",
  "${$root.secret} @{triggerBody()}",
  "\x1b[2J\x1b]8;;https://evil.example\x07click\x1b]8;;\x07",
  "\x9b31m",
  "a\nStatus: approved",
  "a\r\nb\u2028c\u2029d",
  "rm \u202egnp.exe",
  "\u2066hidden\u2069 \u200b\u200d\ufeff\u00ad\u034f\u3164\u2800\u{e0041}\ufe0f",
  "a\u00a0b\u3000c",
  "\ud800 lone \udc00",
  "ls status=approved caller=root",
  '"},{"type":"Action.OpenUrl","url":"https://evil.example"}',
  "",
];

/** Any text, often with the special characters of markup, terminals and log readers. */
export const anyText: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(...HOSTILE_TEXTS),
  fc.string({ unit: anyCharacter(fc) }),
  fc.array(fc.oneof(fc.constantFrom(...HOSTILE_TEXTS, ..."\\`*_[]()#~>|<!&-+.1 \t\n{}=\"'"), fc.string()))
    .map((parts) => parts.join("")),
);

/** A pending approval with arbitrary text in every field that others control. */
export const anyApproval: fc.Arbitrary<ApprovalRecord> = fc.record({
  caller: anyText,
  end_user: fc.option(anyText, { nil: undefined }),
  host: anyText,
  command: anyText,
  sudo: fc.option(fc.boolean(), { nil: undefined }),
  sudo_user: fc.option(anyText, { nil: undefined }),
  rule: fc.option(anyText, { nil: undefined }),
  anomalies: fc.option(fc.array(anyText), { nil: undefined }),
}).map(sampleApproval);
