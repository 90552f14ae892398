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
import { quoteText } from "../text.ts";

// The last line: zsh's.
const RESERVED: ReadonlySet<string> = new Set(
  ("! case coproc do done elif else esac fi for function if in namespace select then time until while " +
    "[[ ]] end foreach nocorrect repeat").split(" "),
);

// Not in the list, and so ordinary candidates: `cd`, `umask`, `pushd`. They change the process, not the
// environment of a command behind them beyond PWD, and a rule sees them by name.
const STATE_BUILTINS: ReadonlySet<string> = new Set(
  ("alias bind complete compopt declare enable export getopts hash history let local mapfile " +
    "nameref read readarray readonly set setenv shift shopt typeset unalias unset unsetenv " +
    // ksh93, mksh and yash.
    "alarm array bindkey compound enum float global integer print vmap vpath " +
    // zsh.
    "disable getln private pushln rehash setopt ttyctl unfunction unhash unsetopt vared zcompile zformat " +
    "zparseopts zstyle").split(" "),
);

const JOB_CONTROL: ReadonlySet<string> = new Set("bg disown fg stop suspend".split(" "));

const SHELLS = "sh bash dash zsh ksh csh tcsh fish ash mksh pdksh oksh rbash rksh yash pwsh powershell " +
  "hush lksh posh rksh93 rzsh bash-static mksh-static zsh-static login newgrp";

const WRAPPERS =
  "env eval exec command nice nohup timeout stdbuf xargs busybox ionice chrt setarch linux32 linux64 " +
  "catchsegv rlwrap script watch time " +
  // Privilege.
  "sudo su doas pkexec runuser sg sudoedit run0 gosu su-exec dzdo " +
  // Text that becomes a command of this shell, now or later.
  ". source trap builtin coproc compgen fc jobs " +
  // The same of ksh93 and mksh, and of zsh, where `-` runs the words behind it.
  "autoload functions hist r redirect - emulate noglob run-help sched which-command zle zmodload zregexparse " +
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
 * by the whole name, because a path never means a builtin (only in ksh93 `/opt/ast/bin/cat` and eight such).
 */
export function findHiddenCommand(words: readonly string[]): string | undefined {
  const [name = "", ...rest] = words;
  if (name === "" || /\s/.test(name)) return "command name that is empty or contains a blank";
  if (STATE_BUILTINS.has(name) || assignsThroughOption(name, rest)) {
    return `builtin ${quoteText(name)} that changes the shell's environment`;
  }
  if (name.startsWith("%") || JOB_CONTROL.has(name)) return "job control";
  if (someShellComputes(name, rest)) {
    return `builtin ${quoteText(name)} with an argument that some shells compute`;
  }
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
  const last = name.toLowerCase().split("/").findLast((part) => part !== "") ?? "";
  return last.replace(/^-(?=.)/, "");
}

/** `printf -v x`, bash's `wait -p x`, and `test -v 'x[$(id)]'`, which even runs the command in the subscript. */
function assignsThroughOption(name: string, rest: readonly string[]): boolean {
  switch (name) {
    case "printf":
      return /^-./.test(rest[0] ?? "") && rest[0] !== "--";
    case "wait":
      return rest.some((word) => /^-[a-z]*p/.test(word));
    case "test":
    case "[":
      return rest.some((word) => word === "-v" || word === "-R");
    default:
      return false;
  }
}

const INTEGER = /^[-+]?\d+$/;

/**
 * Whether an argument that should be a number is not one. Where bash and dash complain, ksh93, mksh and zsh compute
 * it as an expression, and an expression assigns (`PATH=1`) and runs commands (`x[$(id)]`, in its own text or in
 * a variable that it names).
 */
function someShellComputes(name: string, rest: readonly string[]): boolean {
  switch (name) {
    case "printf":
      return printfComputes(rest[0] === "--" ? rest.slice(1) : rest);
    case "test":
    case "[":
      return testComputes(rest);
    case "exit":
    case "return":
    case "break":
    case "continue":
    case "logout":
    case "bye":
      return !rest.every((word) => word === "--" || INTEGER.test(word));
    case "ulimit":
      return !rest.every((word) => /^(?:-[A-Za-z]+\d*|\d+|unlimited)$/.test(word));
    default:
      return false;
  }
}

const COMPARISON = /^-(?:eq|ne|lt|le|gt|ge)$/;

function testComputes(rest: readonly string[]): boolean {
  return rest.some((word, index) => {
    const [before = "", after = ""] = [rest[index - 1], rest[index + 1]];
    if (COMPARISON.test(word)) return !INTEGER.test(before) || !INTEGER.test(after);
    return word === "-t" && !/^(?:\d*|\])$/.test(after);
  });
}

// Of a format what every shell reads alike: text, `%s`, and numbers. Not `%n`, which assigns, nor a width `*`.
const CONVERSION = /%(?:%|[-+ 0#']*(?:[1-9]\d*)?(?:\.\d*)?([sbcqdiouxXeEfFgGaA])|\([^()]*\)T)/g;
// ksh93 and zsh decode `\u0025` before they look for `%`. Octal and hexadecimal ones overflow.
const SAFE_ESCAPE = /\\(?:[\\abefnrtv"']|(?![0-7]*45)[0-7]|x(?![0-9a-fA-F]*25)[0-9a-fA-F])/g;

function printfComputes([format = "", ...values]: readonly string[]): boolean {
  const read = format.replace(SAFE_ESCAPE, "\n");
  if (/[\\%]/.test(read.replace(CONVERSION, "\n"))) return true;
  const kinds = [...read.matchAll(CONVERSION)].filter(([text]) => text !== "%%").map(([, kind = "s"]) =>
    kind
  );
  return values.some((value, index) =>
    /[diouxXeEfFgGaA]/.test(kinds[index % kinds.length] ?? "") &&
    !NUMBER.test(value)
  );
}

// `'a` is the number of the character.
const NUMBER = /^(?:[-+]?(?:\d+(?:\.\d*)?|0[xX][0-9a-fA-F]+)|['"].)$/u;
