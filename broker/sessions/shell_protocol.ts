import { shellQuote } from "@gateway/shared/text";
import type { Random } from "@gateway/shared/clock";

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
 * The shell's own output streams, so that a frame comes whatever a command does to 1 and 2. Commands don't have
 * these: what they do to them ends with them.
 */
const FRAME_FD = { stdout: 6, stderr: 7 } as const;
const NO_FRAME_FD = `${FRAME_FD.stdout}>&- ${FRAME_FD.stderr}>&-`;

/** The exit code of a shell whose loop was left by a `break` or `continue`; a command can exit with it too. */
export const LEFT_LOOP = 213;

/**
 * The first line for a fresh `/bin/sh`. From then on it evaluates one line after the other and reads nothing
 * else from its input, so that no command can swallow or see what belongs to the next one. A terminal gets
 * neither echo nor a limit to its lines.
 *
 * The shell answers with an empty frame, on stdout alone, and must not be sent anything before: some shells read
 * ahead, and what they have read the loop does not get.
 */
export function encodeStart(frame: Frame, mode: "shell" | "pty"): string {
  const terminal = mode === "pty" ? "stty -echo -icanon -ixon -onlcr 2>/dev/null; PS1=; PS2=; " : "";
  const save = `exec ${FRAME_FD.stdout}>&1 ${FRAME_FD.stderr}>&2; gateway_busy=; `;
  // A `continue` for this loop has left a line unfinished, and nobody would be told.
  const next = `case $gateway_busy in ?*) \\exit ${LEFT_LOOP};; esac; IFS= read -r gateway_line`;
  const loop = `while ${next}; do gateway_busy=1; \\command \\eval "$gateway_line"; done`;
  const left = `case $gateway_busy in ?*) \\exit ${LEFT_LOOP};; esac; \\exit`;
  return `${terminal}${save}${print(frame.begin, "0")}; ${print(frame.end, "0")}; ${loop}; ${left}\n`;
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
  const streams = mode === "pty" ? [FRAME_FD.stdout] : [FRAME_FD.stdout, FRAME_FD.stderr];
  const input = mode === "pty" ? "" : " </dev/null";
  const onEach = (word: string, value: string) =>
    streams.map((stream) => `${print(word, value)} >&${stream}`).join(" && ");
  // In a loop of its own, `break` and `continue` end the command alone.
  const run = `for gateway_once in 1; do \\command \\eval ${
    shellQuote(command)
  }${input} ${NO_FRAME_FD}; gateway_code=$?; done`;
  return `gateway_line=; gateway_code=0; ${onEach(frame.begin, "0")}; ${run}; ${FORGET}; gateway_busy=; ` +
    `{ ${onEach(frame.end, '"$gateway_code"')}; } 2>/dev/null || \\exit\n`;
}

function print(word: string, value: string): string {
  const words = `'%s:%s\\n' '${word}' ${value}`;
  return `{ '/usr/bin/printf' ${words} 2>/dev/null || '/bin/printf' ${words}; }`;
}
