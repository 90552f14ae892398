/**
 * The second opinion: the same text read by a full shell parser, of whose tree only an explicit list of nodes
 * is accepted. It decides nothing alone. A text is believed only where this tree and the lexer of
 * `shell_lexer.ts` name the same commands with the same words.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { readTree } from "./shell_tree.ts";
 *
 * assert.deepEqual(readTree("ps aux | head")?.commands, [["ps", "aux"], ["head"]]);
 * assert.equal(readTree("(ps)"), undefined);
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

/** The commands of a text as the parser sees them. */
export interface ShellTree {
  /** The words of each simple command, decoded, in source order. */
  readonly commands: readonly (readonly string[])[];
  /** The operators inside the statements, in source order; statements are divided by `;`. */
  readonly operators: readonly string[];
}

/** Reads a text that consists of simple commands; undefined when anything else is in it. */
export function readTree(text: string): ShellTree | undefined {
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
