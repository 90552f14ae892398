import { visibleText } from "@gateway/shared/text";
import type { HostRules } from "@gateway/shared/wire";

/** The rules of a host in words, a line each. */
export function describeRules(rules: HostRules): readonly string[] {
  return [
    ...describeCommands(rules),
    ...describeApproval(rules),
    rules.sudo_users === undefined ? "no sudo" : `sudo to ${rules.sudo_users.map(visibleText).join(", ")}`,
    rules.session_modes.length === 0 ? "no sessions" : `sessions: ${rules.session_modes.join(", ")}`,
    rules.file_transfer ? "file transfer where the rules above allow it" : "no file transfer",
    `certificates of at most ${rules.max_ttl_seconds} s`,
  ];
}

function describeCommands(rules: HostRules): readonly string[] {
  const { commands, enforcement, shell_parse, allow = [], allow_omitted = 0, some_denied = false } = rules;
  const lines = [];
  switch (commands) {
    case "any":
      lines.push("any command");
      break;
    case "denylist":
      lines.push("any command but some that are denied, which are not shown");
      break;
    case "allowlist":
      lines.push("only these commands:", ...allow.map((source) => `- ${describePattern(source)}`));
      if (allow_omitted > 0) {
        lines.push(`- and what ${allow_omitted} more patterns match, which are not shown`);
      }
      if (some_denied) lines.push("some of them are denied nevertheless, which is not shown");
      break;
    default:
      commands satisfies never;
  }
  if (shell_parse) {
    lines.push(
      "each command of a line is judged for itself; redirections, substitutions, assignments and the like are refused",
    );
  }
  if (enforcement === "audit") lines.push("for now, what these rules refuse runs with a warning");
  return lines;
}

function describeApproval(
  { require_approval = [], require_approval_omitted = 0 }: HostRules,
): readonly string[] {
  if (require_approval.length + require_approval_omitted === 0) return [];
  return [
    "a human has to approve:",
    ...require_approval.map((source) => `- ${describePattern(source)}`),
    ...(require_approval_omitted > 0 ? [`- and what ${require_approval_omitted} more patterns match`] : []),
  ];
}

/** Text without a meaning of its own in a pattern, or with the backslash that takes the meaning away. */
const LITERAL = String.raw`(?<text>(?:[^\\^$.|?*+()[\]{}]|\\[^0-9A-Za-z])+)`;

/** Patterns that can be said in words, the most particular ones first. */
const SHAPES: readonly (readonly [RegExp, (text: string) => string])[] = [
  [
    new RegExp(String.raw`^\^${LITERAL}(?:\(\?:|\()(?: \.\*)\)\?\$$`),
    (text) => `${text}, alone or with arguments`,
  ],
  [
    new RegExp(String.raw`^\^${LITERAL}(?:\(\?:|\()(?: \|\$|\$\| )\)$`),
    (text) => `${text}, alone or with arguments`,
  ],
  [new RegExp(String.raw`^\^${LITERAL}\$$`), (text) => `exactly ${text}`],
  [new RegExp(String.raw`^\^${LITERAL}(?:\.\*\$?)?$`), (text) => `what begins with ${text}`],
  [new RegExp(`^${LITERAL}$`), (text) => `what contains ${text}`],
];

/** An RE2 pattern in words where it is simple enough; else the pattern itself. */
export function describePattern(source: string): string {
  for (const [shape, describe] of SHAPES) {
    const text = shape.exec(source)?.groups?.["text"];
    if (text !== undefined) return describe(`"${visibleText(text.replaceAll(/\\(.)/gu, "$1"))}"`);
  }
  return `what matches /${visibleText(source)}/ (RE2)`;
}
