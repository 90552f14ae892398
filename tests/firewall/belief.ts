/** What the firewall believes of a text, as something a shell can be held to. */
import assert from "node:assert/strict";
import { compilePattern, composePolicies, decideCommand, parseCommand } from "@gateway/shared/policy";
import { type CommandOperator, isReservedWord, lexShell } from "../../shared/policy/shell_lexer.ts";

/** A text that the firewall lets pass. */
export interface Accepted {
  readonly text: string;
  /** The words of each command, in source order. */
  readonly commands: readonly (readonly string[])[];
  readonly operators: readonly CommandOperator[];
}

/** The outcome for one text: what it runs, or the reason of the refusal. */
export type Belief =
  | { readonly kind: "accepted"; readonly accepted: Accepted }
  | { readonly kind: "refused"; readonly reason: string };

// Allows whatever can be read at all: what is left is the structure.
const EVERYTHING = composePolicies([{
  mode: "allowlist",
  enforcement: "enforce",
  allow: [compilePattern("(?s)^.*$")],
  deny: [],
  requireApproval: [],
  shellParse: true,
}]);

/** Asks the policy and the parser, which have to be of one opinion. */
export function believe(text: string): Belief {
  const verdict = decideCommand(EVERYTHING, text);
  const parsed = parseCommand(text);
  if (parsed.kind === "refused") {
    assert.equal(verdict.kind, "denied", JSON.stringify(text));
    return parsed;
  }
  assert.equal(verdict.kind, "allowed", JSON.stringify(text));
  const lexed = lexShell(text.toWellFormed());
  assert(lexed.kind === "lexed");
  return { kind: "accepted", accepted: { text, commands: parsed.commands, operators: lexed.operators } };
}

// No stub can stand in for them, so they run for real (or are a folder), each text in a subshell of its own.
const SPECIAL: ReadonlySet<string> = new Set(": [ [[ .. break continue exit return times".split(" "));

/** Whether a text runs a name that no stub can replace, most of them builtins that end or leave the shell. */
export function runsForReal({ commands }: Accepted): boolean {
  return commands.some(([name = ""]) => SPECIAL.has(name));
}

/** Whether a stub of this name can be found on a PATH; an executable of a path is never run in a test. */
export function isStubName(name: string): boolean {
  return !SPECIAL.has(name) && !name.includes("/") &&
    new TextEncoder().encode(name).length < 256;
}

/** Whether every shell lets a function have this name; other stubs are executables. */
export function isFunctionName(name: string): boolean {
  return /^[A-Za-z_]\w*$/.test(name) && !isReservedWord(name);
}

/** The stubs that end with 1, so that both sides of `||` and `&&` are seen. */
export const FAILING: readonly string[] = ["pc", "false"];

/** The stubs that are there for every text: programs of the corpus, and what must never run for real. */
export const COMMON: readonly string[] = "pa pb pc ps id rm x false true echo printf test cd kill".split(" ");

/** The names of the commands that a text runs and a stub can stand in for. */
export function findStubNames({ commands }: Accepted): readonly string[] {
  return commands.map(([name = ""]) => name).filter(isStubName);
}

/**
 * Whether a shell did what is believed: exactly the commands that run when each ends as its stub does, in
 * their order (of a pipe in any order). Where a command may fail for a reason of its own (a descriptor that is
 * not open, a builtin that ends the shell) it may run fewer of the believed commands, never another one.
 */
export function isAsBelieved(accepted: Accepted, executed: readonly (readonly string[])[]): boolean {
  const [done, all] = [executed, accepted.commands].map((list) => list.map((words) => JSON.stringify(words)));
  if (mayFail(accepted)) return isWithin(done!, all!);
  const due = findDue(accepted).map((words) => JSON.stringify(words));
  if (accepted.operators.includes("|")) {
    done!.sort();
    due.sort();
  }
  return done!.length === due.length && due.every((words, index) => words === done![index]);
}

function mayFail(accepted: Accepted): boolean {
  return /[3-9][<>]&|[<>]&[ \t]*[3-9-]/.test(accepted.text) || runsForReal(accepted);
}

/** The commands whose turn comes and that a stub stands in for. */
export function findDue({ commands, operators }: Accepted): readonly (readonly string[])[] {
  let runs = true;
  let succeeded = true;
  return commands.filter(([name = ""], index) => {
    const operator = operators[index - 1];
    if (operator === "||") runs = !succeeded;
    else if (operator === "&&") runs = succeeded;
    else if (operator === ";") runs = true;
    const isStub = isStubName(name);
    if (runs) succeeded = isStub && !FAILING.includes(name);
    return runs && isStub;
  });
}

function isWithin(few: readonly string[], many: readonly string[]): boolean {
  const left = [...many];
  return few.every((item) => {
    const index = left.indexOf(item);
    if (index >= 0) left.splice(index, 1);
    return index >= 0;
  });
}
