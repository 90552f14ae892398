import { shellQuote } from "@gateway/shared/shell_quote";
import type { Random } from "@gateway/shared/random";

/** The words around the output of one command. */
export interface Frame {
  readonly begin: string;
  /** Told to nobody before the command has ended: who knew it could end the output early, or hide what follows. */
  readonly end: string;
}

/** 128 bits: not to be guessed. */
const WORD_BYTES = 16;

/**
 * Functions of these names would stand in the way of the next line. No function hides `unset` in `/bin/sh`, because it is
 * a special builtin.
 */
const FORGET = "\\unset -f command read 2>/dev/null";

/** Makes a frame for one command. */
export function createFrame(random: Random): Frame {
  const word = () => `__BRK_${random.bytes(WORD_BYTES).toHex()}__`;
  return { begin: word(), end: word() };
}

/**
 * The first line for a fresh `/bin/sh`. From then on it evaluates one line after the other and reads nothing
 * else from its input, so that no command can swallow or see what belongs to the next one. A terminal gets
 * neither echo nor a limit to its lines.
 *
 * The shell answers with an empty frame, on stdout alone, and must not be sent anything before: some shells read
 * ahead, and what they have read the loop does not get.
 */
export function encodeStart(frame: Frame, mode: "shell" | "pty"): string {
  const terminal = mode === "pty" ? "stty -echo -icanon -ixon 2>/dev/null; PS1=; PS2=; " : "";
  const loop = `while IFS= read -r gateway_line; do \\command \\eval "$gateway_line"; done`;
  return `${terminal}${print(frame.begin, "0")}; ${print(frame.end, "0")}; ${loop}\n`;
}

/**
 * One command as a line for the shell. Its output is framed, on each stream, by `<begin>:0` and
 * `<end>:<exit code>`, each with its newline.
 *
 * The command is one quoted word, so an open quote or here-document in it ends with it; `command` keeps a syntax
 * error from ending the shell; its input is empty, or the terminal. The end is in no variable, environment or
 * argument while the command runs, and the paths and backslashes, and that functions named `command` and `read` are
 * forgotten, keep functions and aliases of earlier commands out of the frame. What replaces the shell itself (`exec`)
 * can forge frames: only the agent whose session it is sees them.
 *
 * @param command without CR and LF
 */
export function encodeCommand(command: string, frame: Frame, mode: "shell" | "pty"): string {
  const streams = mode === "pty" ? [""] : ["", " >&2"];
  const input = mode === "pty" ? "" : " </dev/null";
  const begin = streams.map((stream) => `${print(frame.begin, "0")}${stream}; `).join("");
  const end = streams.map((stream) => `${print(frame.end, '"$gateway_code"')}${stream}`).join("; ");
  return `gateway_line=; ${begin}\\command \\eval ${
    shellQuote(command)
  }${input}; gateway_code=$?; ${FORGET}; ${end}\n`;
}

function print(word: string, value: string): string {
  const words = `'%s:%s\\n' '${word}' ${value}`;
  return `{ '/usr/bin/printf' ${words} 2>/dev/null || '/bin/printf' ${words}; }`;
}
