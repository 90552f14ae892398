/**
 * Which commands a text runs when a POSIX shell is given it, or why that cannot be said without running it.
 *
 * Accepted are simple commands of words whose value is known, joined by `;`, `&&`, `||` and `|`, with comments
 * and duplications of descriptors (`2>&1`). Everything else is refused with the construct's name: expansions
 * of any kind, redirects to files, subshells, compound commands, functions, background jobs, negation,
 * assignments, here-documents, control characters, programs that run another command (`env`, `bash -c`) and
 * builtins that change the environment (`export`, `read`, `printf -v`).
 *
 * Two readers have to agree: a strict lexer that knows only what all shells read alike, and a full parser. The
 * account's shell is taken to be a POSIX shell; zsh (`=ls`) and fish read some accepted texts otherwise.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { parseCommand } from "@gateway/shared/policy/shell";
 *
 * assert.deepEqual(parseCommand("ps aux | grep 'x y'"), {
 *   kind: "commands",
 *   commands: [["ps", "aux"], ["grep", "x y"]],
 * });
 * assert.deepEqual(parseCommand("ps; $(rm x)"), { kind: "refused", reason: "command substitution" });
 * ```
 *
 * @module
 */
import { type LexedShell, lexShell } from "./shell_lexer.ts";
import { findHiddenCommand } from "./shell_names.ts";
import { type LexRefusal, refuse } from "./shell_token.ts";
import { readTree } from "./shell_tree.ts";

/** The words of every command that the text runs, in source order, or the construct that hides them. */
export type ParsedCommand =
  | { readonly kind: "commands"; readonly commands: readonly (readonly string[])[] }
  | LexRefusal;

// The body limit of a sign request; a longer text can only come from a config or a test.
const MAX_LENGTH = 64 * 1024;

/**
 * Parses a command for the policy. Total: any text gives a value, none an exception. A lone surrogate counts
 * as U+FFFD. Linear in the length of the text.
 */
export function parseCommand(text: string): ParsedCommand {
  return guard(text, (wellFormed) => {
    const lexed = lexShell(wellFormed);
    if (lexed.kind === "refused") return lexed;
    const commands = lexed.commands.map((command) => command.words);
    for (const words of commands) {
      const hidden = findHiddenCommand(words);
      if (hidden !== undefined) return refuse(hidden);
    }
    return treeAgrees(wellFormed, lexed) ? { kind: "commands", commands } : refuse("ambiguous syntax");
  });
}

/** Parses the structure alone: which simple commands there are, whatever their names hide. */
export function parseScript(text: string): LexedShell | LexRefusal {
  return guard(text, (wellFormed) => {
    const lexed = lexShell(wellFormed);
    return lexed.kind === "lexed" && !treeAgrees(wellFormed, lexed) ? refuse("ambiguous syntax") : lexed;
  });
}

function guard<T>(text: string, read: (wellFormed: string) => T): T | LexRefusal {
  const wellFormed = text.toWellFormed();
  if (wellFormed.length > MAX_LENGTH) return refuse("command too long");
  if (/[\n\r]/.test(wellFormed)) return refuse("newline");
  if (/[^\P{Cc}\t]/u.test(wellFormed)) return refuse("control character");
  // sshd starts `$SHELL -c <text>`, and there a text like `-x` is one more option.
  if (/^[-+]/.test(wellFormed)) return refuse("leading option sign");
  try {
    return read(wellFormed);
  } catch {
    // A parser that gives up (a stack overflow) has not said what runs: refuse.
    return refuse("syntax error");
  }
}

// Asked only about text that the lexer took and so has no nesting: the tree's recursion has nothing to follow.
function treeAgrees(text: string, lexed: LexedShell): boolean {
  const tree = readTree(text);
  return tree !== undefined &&
    isSameList(tree.operators, lexed.operators) &&
    tree.commands.length === lexed.commands.length &&
    tree.commands.every((words, index) => isSameList(words, lexed.commands[index]?.words ?? []));
}

function isSameList(left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((item, index) => item === right[index]);
}
