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
 * account's shell is taken to be bash, dash, busybox ash, ksh93, mksh, yash or zsh; fish and csh read some texts
 * otherwise.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { parseCommand } from "@gateway/shared/policy";
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
import {
  type AndOr,
  type Command,
  parse,
  type PipelineNode,
  type Redirection,
  type Word,
  type WordPart,
} from "unbash";
import { type LexedShell, type LexRefusal, lexShell, refuse } from "./shell_lexer.ts";
import { findHiddenCommand } from "./shell_names.ts";

export type { CommandOperator, LexedShell, LexRefusal, SimpleCommand } from "./shell_lexer.ts";

/** The words of every command that the text runs, in source order, or the construct that hides them. */
type ParsedCommand =
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

/** The commands of a text as the parser sees them. */
interface ShellTree {
  /** The words of each simple command, decoded, in source order. */
  readonly commands: readonly (readonly string[])[];
  /** The operators inside the statements, in source order; statements are divided by `;`. */
  readonly operators: readonly string[];
}

/**
 * Reads a text that consists of simple commands; undefined when anything else is in it. The second opinion, of
 * whose tree only an explicit list of nodes is accepted: it decides nothing alone.
 */
function readTree(text: string): ShellTree | undefined {
  const script = parse(text);
  if (script.errors !== undefined && script.errors.length > 0) return undefined;
  const commands: string[][] = [];
  const operators: string[] = [];
  for (const statement of script.commands) {
    if (statement.background === true) return undefined;
    if (commands.length > 0) operators.push(";");
    if (!readStatement(statement.command, { commands, operators })) return undefined;
  }
  return { commands, operators };
}

interface Growing {
  readonly commands: string[][];
  readonly operators: string[];
}

function readStatement(node: PipelineNode | AndOr, into: Growing): boolean {
  if (node.type !== "AndOr") return readPipeline(node, into);
  return node.commands.every((command, index) => {
    const operator = node.operators[index - 1];
    if (operator !== undefined) into.operators.push(operator);
    return readPipeline(command, into);
  });
}

function readPipeline(node: PipelineNode, into: Growing): boolean {
  if (node.type === "Command") return readCommand(node, into);
  if (node.type !== "Pipeline" || node.prefixes.length > 0) return false;
  return node.commands.every((command, index) => {
    const operator = node.operators[index - 1];
    if (operator !== undefined) into.operators.push(operator);
    return operator !== "|&" && command.type === "Command" && readCommand(command, into);
  });
}

function readCommand(command: Command, into: Growing): boolean {
  if (command.name === undefined) return false;
  const words: string[] = [];
  for (const part of [...command.prefix, command.name, ...command.suffix]) {
    if (part.type === "Word") {
      if (!isStatic(part)) return false;
      words.push(part.value);
    } else if (part.type === "Assignment" || !isDuplication(part)) {
      return false;
    }
  }
  into.commands.push(words);
  return true;
}

function isDuplication(redirection: Redirection): boolean {
  return redirection.type === "Redirect" &&
    (redirection.operator === ">&" || redirection.operator === "<&") &&
    redirection.descriptor?.type !== "FileDescriptorVariable" &&
    /^[0-9-]$/.test(redirection.target?.text ?? "");
}

function isStatic(word: Word): boolean {
  return (word.parts ?? []).every(isStaticPart);
}

function isStaticPart(part: WordPart): boolean {
  switch (part.type) {
    case "Literal":
    case "SingleQuoted":
      return true;
    case "DoubleQuoted":
      return part.parts.every((child) => child.type === "Literal");
    default:
      return false;
  }
}
