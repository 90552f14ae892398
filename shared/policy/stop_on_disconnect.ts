/**
 * The force-command of a host with `stop_on_disconnect`: it runs the command so that it ends with the connection.
 *
 * sshd obeys no signal for a command that a certificate forces, and tells such a command nothing when the
 * connection is gone: one that is silent runs on. What does reach it is the end of its standard input. So the
 * command runs beside a watcher that reads the standard input: at its end the process group gets TERM, and KILL
 * after {@linkcode STOP_GRACE_SECONDS}.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { stopOnDisconnect } from "@gateway/shared/policy";
 *
 * const text = stopOnDisconnect("sudo -n", "echo it's");
 * assert(text.startsWith("exec sudo -n -- /bin/sh -c '"));
 * assert(text.endsWith(String.raw` stop_on_disconnect 'echo it'\''s'`));
 * ```
 *
 * @module
 */
import { singleQuote } from "../text.ts";

/** How long a command may take to obey TERM before KILL, in seconds. */
export const STOP_GRACE_SECONDS = 2;

/** Signals the group of the session, which this shell leads, or sudo in front of it. Never another group. */
const signalGroup = (name: string) => `kill -s ${name} -- -$$ || kill -s ${name} -- -$PPID`;

// The command is `$1`, and never a part of this text. Its standard input is empty; the real one is 3, and its
// standard error 4, so that what a shell says of a process that was killed is not among the command's output.
// The command runs in the foreground: in the background a shell would have it ignore INT and QUIT. The watcher
// does not survive a TERM or USR1 of its group that it has not sent, and only its USR1 makes the shell wait for it:
// a command that signals its own group leaves nobody waiting for ever. For that the watcher is born before the
// shell has any trap: some shells lose a signal between the birth of a subshell and its own `trap -`.
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
 * The text that runs a command so that it ends with its connection. For the account's login shell, which has to
 * be a POSIX one; the command itself is run by `/bin/sh`, with nothing to read.
 *
 * The exit status is the command's, 128 + n when signal n killed it. When it ends by itself, what it has left
 * running stays. What has left its process group (`setsid`) is out of reach.
 *
 * @param elevationPrefix the words that elevate it, empty for none; what stops it is elevated too, for sudo
 * passes no signal of its own group on
 */
export function stopOnDisconnect(elevationPrefix: string, command: string): string {
  const elevation = elevationPrefix === "" ? "" : `${elevationPrefix} -- `;
  return `exec ${elevation}/bin/sh -c ${singleQuote(SCRIPT)}${lastWords(command)}`;
}

const lastWords = (command: string) => ` stop_on_disconnect ${singleQuote(command)}`;

/** A text of {@linkcode stopOnDisconnect}, of this version or another, without the watcher; `undefined` for others. */
export function readStopOnDisconnect(text: string, command: string): string | undefined {
  const elevation = /^exec (.+? -- )?\/bin\/sh -c '/.exec(text);
  if (elevation === null || !text.endsWith(lastWords(command))) return undefined;
  const [, prefix] = elevation;
  return prefix === undefined ? command : `${prefix}/bin/sh -c ${singleQuote(command)}`;
}
