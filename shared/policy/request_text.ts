// Describes requests for approval in words. Pages, notifications and the command line use the same words, so
// that no approver mistakes a shell for a command.
import { canonicalSudoUser } from "./shell.ts";
import type { ApprovalRecord } from "../wire/approval.ts";
import { visibleText } from "../text.ts";
import type { K8sDiff, K8sFieldChange } from "../wire/sign.ts";

/**
 * The kinds of access. `passage`: a connection through the host. `shell`, `session`: commands that are sent
 * later. `question`: a dry run. `transfer`: a command that transfers a file. `action`: an action on a
 * cluster.
 */
type AccessKind = keyof typeof PHRASES;

/** The fields of an approval that its description depends on. */
export type ApprovalFacts =
  & Pick<ApprovalRecord, "host" | "command" | "access" | "dry_run" | "target_type" | "sudo" | "sudo_user">
  & Pick<ApprovalRecord, "account" | "life_seconds" | "session_max_seconds">;

/**
 * A part of a sentence: our own words, or text from a request. `elevated` is the account that sudo changes
 * to.
 */
type SentencePart =
  | string
  | { readonly kind: "name" | "elevated"; readonly text: string };

const PHRASES = {
  passage: {
    what: "to connect through ",
    hidden: "; what passes through is not shown to you",
    title: "Connect through it",
  },
  shell: {
    what: "for an interactive shell",
    hidden: "; what is typed there is not shown to you",
    title: "Interactive shell",
  },
  session: {
    what: "for a session of commands",
    hidden: "; the commands come later and are not shown to you",
    title: "Session of commands",
  },
  question: { what: "whether this command may run", hidden: "", title: undefined },
  transfer: { what: "to move a file with this command", hidden: "", title: undefined },
  action: { what: "to do this on the cluster ", hidden: "", title: undefined },
  command: { what: "to run this command", hidden: "", title: undefined },
} as const;

/** The kind of the requested access. A session that may not take single commands counts as a shell. */
export function accessKind(
  { access = [], dry_run, target_type }: Pick<ApprovalFacts, "access" | "dry_run" | "target_type">,
): AccessKind {
  // A broker may send any fields, but no token opens a session or a connection through a host.
  if (target_type === "k8s") return dry_run === true ? "question" : "action";
  if (access.includes("bastion")) return "passage";
  if (dry_run === true) return "question";
  const session = access.find((each) => each === "session" || each.startsWith("session:"));
  // The certificate of a session is locked to no command, even if the request names a command.
  if (session !== undefined) return session === "session:exec" ? "session" : "shell";
  return access.includes("file_transfer") ? "transfer" : "command";
}

/** Whether the request shows everything that will run. A session or a passage does not show its commands. */
export function isCommandShown(kind: AccessKind): boolean {
  return PHRASES[kind].hidden === "";
}

/** The sentence after "asks …". */
export function accessParts(facts: ApprovalFacts): readonly SentencePart[] {
  const kind = accessKind(facts);
  const { what, hidden } = PHRASES[kind];
  const host = { kind: "name", text: facts.host } as const;
  const place: readonly SentencePart[] = kind === "passage"
    ? [host, " to other hosts"]
    : kind === "action"
    ? [host]
    : [...accountParts(facts), " on ", host];
  return [what, ...place, hidden, describeLife(kind, facts)];
}

/** The sentence of {@linkcode accessParts} in one line without invisible characters. */
export function describeAccess(facts: ApprovalFacts): string {
  return accessParts(facts).map((part) => typeof part === "string" ? part : visibleText(part.text)).join("");
}

/** A title for a list, instead of a command; `undefined` if there is a command. */
export function accessTitle(kind: AccessKind): string | undefined {
  return PHRASES[kind].title;
}

function accountParts({ sudo, sudo_user, account = "" }: ApprovalFacts): readonly SentencePart[] {
  const user = canonicalSudoUser(sudo, sudo_user);
  if (user !== "") return [", as ", { kind: "elevated", text: user }, ","];
  return account === "" ? [] : [", as ", { kind: "name", text: account }, ","];
}

function describeLife(
  kind: AccessKind,
  { life_seconds = 0, session_max_seconds = 0, dry_run }: ApprovalFacts,
): string {
  if (isCommandShown(kind) || dry_run === true) return "";
  if (session_max_seconds > 0) return `; it may live ${describeSpan(session_max_seconds)}`;
  return life_seconds > 0 ? `; its certificate is valid for ${describeSpan(life_seconds)}` : "";
}

/** A duration in the largest unit that divides it: `30 minutes`, `1 hour`, `90 seconds`. */
export function describeSpan(seconds: number): string {
  const sizes = [["hour", 3600], ["minute", 60]] as const;
  const [unit, size] = sizes.find(([, size]) => seconds > 0 && seconds % size === 0) ??
    ["second", 1] as const;
  const count = seconds / size;
  return `${count} ${unit}${count === 1 ? "" : "s"}`;
}

/** A diff in one line, without the fields. */
export function describeDiff({ kind, reason, changes = [], omitted = 0 }: K8sDiff): string {
  const count = changes.length + omitted;
  const fields = `${count} field${count === 1 ? "" : "s"}`;
  const why = reason === undefined ? "" : `: ${visibleText(reason)}`;
  return {
    created: `creates the object, with ${fields}`,
    changed: `changes ${fields}`,
    unchanged: "changes nothing",
    unknown: `the changes could not be determined${why}`,
  }[kind];
}

/** A changed field in one line without invisible characters. */
export function describeChange({ path, before, after }: K8sFieldChange): string {
  return `${visibleText(path)}: ${visibleText(before ?? "(not there)")} → ${visibleText(after ?? "(goes)")}`;
}
