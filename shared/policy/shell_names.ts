/**
 * Command names that a parser of simple commands has to know: words that begin a compound command, builtins
 * that change the shell for the commands behind them, and programs whose arguments are again a command, so
 * that a rule about the text would not see what runs.
 *
 * The hiding programs are an exact table, not a promise: an interpreter that is not in it, an editor's `!`, a
 * `make` or a `tar --to-command` runs what it is told to. A denylist is a fence against accidents; only an
 * allowlist says what runs.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { findHiddenCommand } from "./shell_names.ts";
 *
 * assert.equal(findHiddenCommand(["ls", "-l"]), undefined);
 * assert.equal(findHiddenCommand(["/usr/bin/env", "rm"]), 'program "env" that runs another command');
 * ```
 *
 * @module
 */
import { quoteText } from "../quote.ts";

const RESERVED: ReadonlySet<string> = new Set(
  ("! case coproc do done elif else esac fi for function if in namespace select then time until while " +
    "[[ ]]").split(" "),
);

// Not in the list, and so ordinary candidates: `cd`, `umask`, `ulimit`, `pushd`. They change the process, not
// the environment of a command behind them beyond PWD, and a rule sees them by name.
const STATE_BUILTINS: ReadonlySet<string> = new Set(
  ("alias bind complete compopt declare enable export getopts hash history let local mapfile " +
    "nameref read readarray readonly set setenv shift shopt typeset unalias unset unsetenv").split(" "),
);

const SHELLS = "sh bash dash zsh ksh csh tcsh fish ash mksh pdksh oksh rbash rksh yash pwsh powershell";

const WRAPPERS =
  "env eval exec command nice nohup timeout stdbuf xargs busybox ionice chrt setarch linux32 linux64 " +
  "catchsegv rlwrap script watch time " +
  // Privilege.
  "sudo su doas pkexec runuser sg sudoedit run0 gosu su-exec dzdo " +
  // Text that becomes a command of this shell, now or later.
  ". source trap builtin coproc compgen fc jobs " +
  // New session, root, namespace, unit, limits or lock around a command.
  "setsid chroot unshare nsenter systemd-run systemd-inhibit start-stop-daemon flock setpriv setuidgid envdir " +
  "envuidgid softlimit chpst prlimit taskset numactl choom cpulimit bwrap firejail fakeroot proxychains torsocks " +
  "dbus-run-session xvfb-run unbuffer chronic run-parts " +
  // Tracers and multi-call programs.
  "strace ltrace gdb valgrind parallel sem toybox entr screen tmux ld.so";

const INTERPRETERS = "python python2 python3 perl ruby node nodejs php lua tclsh awk gawk nawk mawk " +
  "pypy pypy3 luajit expect wish deno bun rscript";

const HIDING: ReadonlySet<string> = new Set([SHELLS, WRAPPERS, INTERPRETERS].join(" ").split(" "));

// `python3.12`, `node18`, `perl5.36-x86_64-linux-gnu`, `zsh-5.9`; not `python3-config`, not `php-fpm`.
const VERSIONED =
  /^(?:python[23]?|pypy3?|node|nodejs|ruby|php|perl|lua|tclsh|wish|guile)\.?\d[\d.]*[a-z]?(?:-dbg|-[a-z0-9_]+-linux-gnu)?$/;
const VERSIONED_SHELL = /^(?:bash|zsh|ksh|mksh|dash|fish|gawk)[-.]?\d[\d.]*$/;
const DYNAMIC_LOADER = /^ld-(?:linux|musl)[a-z0-9_.-]*$/;

const FIND_ACTIONS: ReadonlySet<string> = new Set(["-exec", "-execdir", "-ok", "-okdir"]);

/** Whether a shell reads this unquoted word as syntax where a command's name would stand. */
export function isReservedWord(word: string): boolean {
  return RESERVED.has(word);
}

/**
 * Why the words of one command do not show what it does, or undefined when they do. Names are compared by the
 * last part of their path, without a leading `-` and in lower case (some file systems ignore case); builtins
 * by the whole name, because a path never means a builtin.
 */
export function findHiddenCommand(words: readonly string[]): string | undefined {
  const [name = "", ...rest] = words;
  if (name === "" || /\s/.test(name)) return "command name that is empty or contains a blank";
  if (STATE_BUILTINS.has(name) || assignsThroughOption(name, rest)) {
    return `builtin ${quoteText(name)} that changes the shell's environment`;
  }
  if (name.startsWith("%")) return "job control";
  const base = baseName(name);
  if (
    HIDING.has(base) || VERSIONED.test(base) || VERSIONED_SHELL.test(base) || DYNAMIC_LOADER.test(base) ||
    (base === "find" && rest.some((word) => FIND_ACTIONS.has(word)))
  ) {
    return `program ${quoteText(base)} that runs another command`;
  }
  return undefined;
}

function baseName(name: string): string {
  const path = name.toLowerCase().replace(/\/+$/, "");
  return path.slice(path.lastIndexOf("/") + 1).replace(/^-/, "");
}

/** Bash's `printf -v x`, `wait -p x`, and `test -v 'x[$(id)]'`, which even runs the command in the subscript. */
function assignsThroughOption(name: string, rest: readonly string[]): boolean {
  switch (name) {
    case "printf":
      return rest[0]?.startsWith("-v") ?? false;
    case "wait":
      return rest.some((word) => /^-[a-z]*p/.test(word));
    case "test":
    case "[":
      return rest.some((word) => word === "-v" || word === "-R");
    default:
      return false;
  }
}
