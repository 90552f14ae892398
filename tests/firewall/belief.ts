/** The commands that the firewall expects a text to run, in a form that can be compared with a shell. */
import assert from "node:assert/strict";
import { compilePattern, composePolicies, decideCommand, parseCommand } from "@gateway/shared/policy";
import { type CommandOperator, isReservedWord, lexShell } from "../../shared/policy/shell_lexer.ts";

/** A text that the firewall accepts. */
export interface Accepted {
  readonly text: string;
  /** The words of each command, in source order. */
  readonly commands: readonly (readonly string[])[];
  readonly operators: readonly CommandOperator[];
}

/** The outcome for one text: its commands, or the reason for the rejection. */
export type Belief =
  | { readonly kind: "accepted"; readonly accepted: Accepted }
  | { readonly kind: "refused"; readonly reason: string };

// Allows all commands, so that only the structure of a text is checked.
const EVERYTHING = composePolicies([{
  mode: "allowlist",
  enforcement: "enforce",
  allow: [compilePattern("(?s)^.*$")],
  deny: [],
  requireApproval: [],
  shellParse: true,
}]);

/** Evaluates the policy and the parser. Their results must agree. */
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

// These names cannot be stubs, so they run for real, each text in a separate subshell. `..` is a directory.
const SPECIAL: ReadonlySet<string> = new Set(": [ [[ .. break continue exit return times".split(" "));

/** Whether a text runs a name that no stub can replace. Most of these builtins end or leave the shell. */
export function runsForReal({ commands }: Accepted): boolean {
  return commands.some(([name = ""]) => SPECIAL.has(name));
}

/** Whether PATH can contain a stub of this name. Tests never run an executable by its path. */
export function isStubName(name: string): boolean {
  return !SPECIAL.has(name) && !name.includes("/") &&
    new TextEncoder().encode(name).length < 256;
}

/** Whether every shell allows a function with this name. Other stubs are executables. */
export function isFunctionName(name: string): boolean {
  return /^[A-Za-z_]\w*$/.test(name) && !isReservedWord(name);
}

/** The stubs that return status 1, so that both sides of `||` and `&&` are covered. */
export const FAILING: readonly string[] = ["pc", "false"];

/** The stubs that exist for every text: programs of the corpus, and programs that must never run for real. */
export const COMMON: readonly string[] = "pa pb pc ps id rm x false true echo printf test cd kill".split(" ");

/** The names of the commands of a text that can be replaced by stubs. */
export function findStubNames({ commands }: Accepted): readonly string[] {
  return commands.map(([name = ""]) => name).filter(isStubName);
}

/**
 * Whether a shell ran exactly the commands that the firewall expects if each ends like its stub, in order (in
 * a pipe: any order). A command may fail for another reason (a closed descriptor, a builtin that ends the
 * shell). Then the shell may run fewer of the expected commands, but no other command.
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

/** The commands that must run and have a stub. */
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
