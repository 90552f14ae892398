import { type ApprovalRecord, UNDECIDED_AT } from "@gateway/shared/wire";

/** The time at which sample records are read: a minute after their creation. */
export const READ_AT = Date.UTC(2026, 0, 2, 3, 5, 5);

/** The record of a pending request of `broker-1`, with the given fields changed. */
export function recordOf(fields: Partial<ApprovalRecord> = {}): ApprovalRecord {
  return {
    id: "00112233445566778899aabbccddeeff",
    caller: "broker-1",
    host: "web01",
    command: "systemctl restart nginx",
    rule: "require_approval:^systemctl restart",
    status: "pending",
    created_at: "2026-01-02T03:04:05.000Z",
    decided_at: UNDECIDED_AT,
    expires_at: "2026-01-02T03:06:05.000Z",
    ...fields,
  };
}

/** Hostile texts that others can provide, one per type of attack. */
export const HOSTILE: readonly { readonly name: string; readonly text: string }[] = [
  { name: "HTML", text: "</code><script>alert(1)</script><img src=x onerror=alert(1)>" },
  { name: "the end of our script", text: "</script></style></title></textarea><!--" },
  { name: "an attribute's end", text: `" onfocus="alert(1)" autofocus x='` },
  { name: "entities", text: "&lt;b&gt;&#x202e;&amp;lt;" },
  { name: "ANSI", text: "\x1b[2J\x1b]0;owned\x07\x9b31m" },
  { name: "markdown", text: "[approve](https://evil.example) **bold** `code` <https://evil.example>" },
  { name: "quotes", text: `"'\`\\"` },
  { name: "NUL", text: "a\0b" },
  { name: "line ends", text: "a\r\nb\u2028c\u2029d\u0085e" },
  { name: "lone surrogates", text: "a\ud800b\udc00" },
  { name: "bidi controls", text: "ls \u202egpj.x\u202c \u2066x\u2069" },
  { name: "right to left letters", text: "rm \u05d0\u05d1\u05d2 /etc \u0627\u0628" },
  { name: "zero width characters", text: "r\u200bm\ufeff \u3164\u{e0041}" },
  { name: "letters that look like others", text: "c\u0430t /\u0435tc/passwd" },
  { name: "spaces that push the rest away", text: `ls${" ".repeat(5000)}; rm -rf /` },
  { name: "a template", text: "${alert(1)} {{7*7}} <%= x %>" },
  { name: "a URL", text: "javascript:alert(1)" },
];
