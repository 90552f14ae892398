/**
 * A lexer for the part of the shell language on which every shell agrees: words, quotes, `;`, `&&`, `||`, `|`,
 * comments and the duplication of a file descriptor. Whatever a shell would expand, run apart, or read
 * otherwise than its sibling is refused here with its name; see `shell.ts` for the whole check.
 *
 * Each rule was tried in dash, bash, bash --posix and busybox ash. Where they differ the text is refused:
 * `$'…'` (dash keeps the `$`), `10>&1` (dash passes the word `10`), `a=~` (bash expands it), `"$[1]"` (bash
 * computes it), `2>&1>&2` (dash reads the second `1` as a descriptor).
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { lexShell } from "./shell_lexer.ts";
 *
 * const lexed = lexShell("ps 'a x' 2>&1 | head");
 * assert.equal(lexed.kind, "lexed");
 * assert.deepEqual(lexShell("ps > out"), { kind: "refused", reason: "file redirect" });
 * ```
 *
 * @module
 */
import { isReservedWord } from "./shell_names.ts";
import { type LexRefusal, nextToken, refuse } from "./shell_token.ts";

/** What stands between two commands. */
export type CommandOperator = ";" | "&&" | "||" | "|";

/** One simple command: its words with the quotes removed. */
export interface SimpleCommand {
  /** At least one; the first is the command's name. */
  readonly words: readonly string[];
  /** How many descriptor duplications (`2>&1`, `>&-`) belong to it. */
  readonly duplications: number;
}

/** A text that consists of simple commands only. */
export interface LexedShell {
  readonly kind: "lexed";
  /** In source order, at least one. */
  readonly commands: readonly SimpleCommand[];
  /** `operators[i]` stands between `commands[i]` and `commands[i + 1]`. A trailing `;` is not kept. */
  readonly operators: readonly CommandOperator[];
}

// `name=` or `name+=`. Decided on the decoded word, so a quoted one is refused too: nobody needs a program of
// that name, and sudo and env would read it as an assignment.
const ASSIGNMENT = /^[A-Za-z_][A-Za-z0-9_]*\+?=/;

/** Cuts a text into simple commands, or says which construct is not one. Linear in the length of the text. */
export function lexShell(text: string): LexedShell | LexRefusal {
  const commands: SimpleCommand[] = [];
  const operators: CommandOperator[] = [];
  let words: string[] = [];
  let duplications = 0;
  let at = 0;
  while (true) {
    const atName = words.length === 0;
    const token = nextToken(text, at, atName);
    switch (token.kind) {
      case "refused":
        return token;
      case "word":
        if (atName && !token.quoted && isReservedWord(token.text)) {
          return refuse(token.text === "!" ? "negation" : `reserved word "${token.text}"`);
        }
        if (atName && ASSIGNMENT.test(token.text)) return refuse("environment assignment");
        words.push(token.text);
        break;
      case "duplication":
        duplications += 1;
        break;
      case "operator":
        if (atName) return refuse(duplications > 0 ? "no command found" : "syntax error");
        commands.push({ words, duplications });
        operators.push(token.operator);
        words = [];
        duplications = 0;
        break;
      case "end":
        if (!atName) return { kind: "lexed", commands: [...commands, { words, duplications }], operators };
        if (commands.length === 0 || duplications > 0) return refuse("no command found");
        if (operators.at(-1) !== ";") return refuse("syntax error");
        return { kind: "lexed", commands, operators: operators.slice(0, -1) };
      default:
        token satisfies never;
    }
    at = token.next;
  }
}
