// The force-command of a host with `stop_on_disconnect`: the command ends with its connection. sshd forwards
// no signal to a command that a certificate forces, and does not report the end of the connection: a silent
// command continues. Only the end of its standard input reaches it. Therefore a watcher reads the standard
// input. At its end the process group gets TERM, and KILL after {@linkcode STOP_GRACE_SECONDS}.
import { singleQuote } from "../text.ts";

/** The time between TERM and KILL, in seconds. */
export const STOP_GRACE_SECONDS = 2;

/** Signals the group of the session, which this shell leads, or sudo before it. Never another group. */
const signalGroup = (name: string) => `kill -s ${name} -- -$$ || kill -s ${name} -- -$PPID`;

// The command is `$1`, and never a part of this text. Its standard input is empty. Descriptor 3 is the real one, and 4
// the standard error, so that the shell's messages about killed processes are not in the command's output.
// The command runs in the foreground, because a background command would ignore INT and QUIT. The watcher does not
// survive a foreign TERM or USR1 to its group, and only its own USR1 makes the shell wait for it: a command that
// signals its own group does not leave the shell waiting forever. Therefore the watcher starts before the shell has a
// trap: some shells lose a signal between the start of a subshell and its own `trap -`.
const SCRIPT = [
  "exec 3<&0 4>&2 </dev/null 2>/dev/null",
  "g=",
  `(while read -r x; do :; done; trap "" TERM; kill -s USR1 $$; ${signalGroup("TERM")}; ` +
  `sleep ${STOP_GRACE_SECONDS}; ${signalGroup("KILL")}) <&3 3<&- 4>&- >/dev/null & w=$!`,
  "trap : TERM",
  "trap g=1 USR1",
  '(exec /bin/sh -c -- "$1" 2>&4 3<&- 4>&-)',
  's=$?; if [ "$g" ]; then wait $w; else kill -s KILL $w; wait $w; fi',
  "exit $s",
].join("; ");

/**
 * The text that runs a command so that it ends with its connection. The account's login shell must be a POSIX shell.
 * `/bin/sh` runs the command, with nothing to read.
 *
 * The exit status is the command's, 128 + n if signal n killed it. Background processes of a command that ends by
 * itself continue. A process that leaves the process group (`setsid`) is out of reach.
 *
 * @param elevationPrefix the words that elevate the command and its watcher, because sudo does not pass on signals of
 *   its own group; empty for none
 */
export function stopOnDisconnect(elevationPrefix: string, command: string): string {
  const elevation = elevationPrefix === "" ? "" : `${elevationPrefix} -- `;
  return `exec ${elevation}/bin/sh -c ${singleQuote(SCRIPT)}${lastWords(command)}`;
}

const lastWords = (command: string) => ` stop_on_disconnect ${singleQuote(command)}`;

/** A text of {@linkcode stopOnDisconnect}, of any version, without the watcher; `undefined` for other texts. */
export function readStopOnDisconnect(text: string, command: string): string | undefined {
  const elevation = /^exec (.+? -- )?\/bin\/sh -c '/.exec(text);
  if (elevation === null || !text.endsWith(lastWords(command))) return undefined;
  const [, prefix] = elevation;
  return prefix === undefined ? command : `${prefix}/bin/sh -c ${singleQuote(command)}`;
}
