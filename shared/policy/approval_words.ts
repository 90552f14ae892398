/**
 * What a request for approval asks for, in words: the same on pages, in notifications and on the command line, so
 * that nobody approves a shell for a command.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { describeAsked } from "@gateway/shared/policy";
 *
 * assert.equal(
 *   describeAsked({ host: "web01", command: "", access: ["session:shell"], sudo: true, session_max_seconds: 1800 }),
 *   "for an interactive shell, as root, on web01; what is typed there is not shown to you; it may live 30 minutes",
 * );
 * ```
 *
 * @module
 */
import { canonicalSudoUser } from "./elevation.ts";
import type { ApprovalRecord } from "../wire/approval.ts";
import { visibleText } from "../text.ts";

/**
 * `passage`: to connect through the host · `shell`, `session`: commands that come later, typed or one by one ·
 * `question`: whether a command may run, nothing is signed · `transfer`: a command that moves a file · `action`: on a
 * cluster · `command`.
 */
type AskedKind = "passage" | "shell" | "session" | "question" | "transfer" | "action" | "command";

/** What the words are made of. */
export type AskedFacts =
  & Pick<ApprovalRecord, "host" | "command">
  & Partial<
    Pick<
      ApprovalRecord,
      | "access"
      | "dry_run"
      | "target_type"
      | "sudo"
      | "sudo_user"
      | "account"
      | "life_seconds"
      | "session_max_seconds"
    >
  >;

/** A part of a sentence: our words, or the text of others. `elevated` is an account that sudo changes to. */
type AskedPart =
  | string
  | { readonly kind: "name" | "elevated"; readonly text: string };

/** What kind of access is asked for. A session that is not known to take single commands is taken for a shell. */
export function askedKind(
  { access = [], dry_run, target_type }: Pick<AskedFacts, "access" | "dry_run" | "target_type">,
): AskedKind {
  // Whatever else its broker says: no token opens a session, and none leads through a host.
  if (target_type === "k8s") return dry_run === true ? "question" : "action";
  if (access.includes("bastion")) return "passage";
  if (dry_run === true) return "question";
  const session = access.find((each) => each === "session" || each.startsWith("session:"));
  if (session !== undefined) {
    // Its certificate is locked to no command, whatever command is named with it.
    return session === "session:exec" ? "session" : "shell";
  }
  return access.includes("file_transfer") ? "transfer" : "command";
}

/** Whether what will run stands in the request: of a session or a passage nothing does. */
export function isCommandShown(kind: AskedKind): boolean {
  return kind === "command" || kind === "transfer" || kind === "action" || kind === "question";
}

const WHAT: Readonly<Record<Exclude<AskedKind, "passage" | "action">, string>> = {
  shell: "for an interactive shell",
  session: "for a session of commands",
  question: "whether this command may run",
  transfer: "to move a file with this command",
  command: "to run this command",
};

const HIDDEN: Readonly<Record<AskedKind, string>> = {
  passage: "; what passes through is not shown to you",
  shell: "; what is typed there is not shown to you",
  session: "; the commands come later and are not shown to you",
  question: "",
  transfer: "",
  action: "",
  command: "",
};

/** What is asked, to go on "asks …". */
export function askedParts(facts: AskedFacts): readonly AskedPart[] {
  const kind = askedKind(facts);
  const host = { kind: "name", text: facts.host } as const;
  const place: readonly AskedPart[] = kind === "passage"
    ? ["to connect through ", host, " to other hosts"]
    : kind === "action"
    ? ["to do this on the cluster ", host]
    : [WHAT[kind], ...accountParts(facts), " on ", host];
  return [...place, HIDDEN[kind], describeLife(kind, facts)];
}

/** The same as one line of text in which nothing hides. */
export function describeAsked(facts: AskedFacts): string {
  return askedParts(facts).map((part) => typeof part === "string" ? part : visibleText(part.text)).join("");
}

/** A few words for a list: what takes the place of a command that is not there. */
export function askedTitle(kind: AskedKind): string | undefined {
  switch (kind) {
    case "shell":
      return "Interactive shell";
    case "session":
      return "Session of commands";
    case "passage":
      return "Connect through it";
    case "question":
    case "transfer":
    case "action":
    case "command":
      return undefined;
    default:
      return kind satisfies never;
  }
}

function accountParts({ sudo, sudo_user, account = "" }: AskedFacts): readonly AskedPart[] {
  const user = canonicalSudoUser(sudo, sudo_user);
  if (user !== "") return [", as ", { kind: "elevated", text: user }, ","];
  return account === "" ? [] : [", as ", { kind: "name", text: account }, ","];
}

function describeLife(
  kind: AskedKind,
  { life_seconds = 0, session_max_seconds = 0, dry_run }: AskedFacts,
): string {
  if (isCommandShown(kind) || dry_run === true) return "";
  if (session_max_seconds > 0) return `; it may live ${describeSpan(session_max_seconds)}`;
  return life_seconds > 0 ? `; its certificate lives ${describeSpan(life_seconds)}` : "";
}

/** A length of time in the largest unit that it is a whole number of: `30 minutes`, `1 hour`, `90 seconds`. */
export function describeSpan(seconds: number): string {
  const [unit, size] = seconds % 3600 === 0 && seconds > 0
    ? ["hour", 3600] as const
    : seconds % 60 === 0 && seconds > 0
    ? ["minute", 60] as const
    : ["second", 1] as const;
  const count = seconds / size;
  return `${count} ${unit}${count === 1 ? "" : "s"}`;
}
