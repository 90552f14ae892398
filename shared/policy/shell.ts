// The commands that a text runs in a POSIX shell, or the reason why they cannot be known without running it.
// Accepted are simple commands of words with known values, joined by `;`, `&&`, `||` and `|`, with comments
// and duplications of descriptors (`2>&1`). Everything else is rejected with the name of the construct, also
// programs that run another command (`env`, `bash -c`) and builtins that change the environment (`export`,
// `printf -v`). A strict lexer, which accepts only syntax that all shells read in the same way, and a full
// parser must agree. The account's shell is bash, dash, busybox ash, ksh93, mksh, yash or zsh; fish and csh
// read some texts differently. The table of programs that run another command is not complete: an unlisted
// interpreter, an editor's `!` or `tar --to-command` can run any command. Therefore a denylist only prevents
// accidents, and only an allowlist is a guarantee.
import { type AndOr, type Command, parse, type PipelineNode, type Redirect, type WordPart } from "unbash";
import { quoteText, shellQuote, singleQuote } from "../text.ts";
import { type LexedShell, type LexRefusal, lexShell, refuse } from "./shell_lexer.ts";

// The body limit of a sign request; a longer text can only come from a config or a test.
const MAX_LENGTH = 64 * 1024;

/**
 * The words of each command in source order, or the construct that hides them. Never throws. A lone surrogate counts
 * as U+FFFD. Linear in the length of the text.
 */
export function parseCommand(
  text: string,
): { readonly kind: "commands"; readonly commands: readonly (readonly string[])[] } | LexRefusal {
  const lexed = parseScript(text, (words) => findHiddenCommand(words));
  return lexed.kind === "refused"
    ? lexed
    : { kind: "commands", commands: lexed.commands.map(({ words }) => words) };
}

/**
 * Parses only the structure: the simple commands, even if their names hide their effect.
 *
 * @param findFault the reason to reject the words of a command
 */
export function parseScript(
  text: string,
  findFault: (words: readonly string[]) => string | undefined = () => undefined,
): LexedShell | LexRefusal {
  const wellFormed = text.toWellFormed();
  if (wellFormed.length > MAX_LENGTH) return refuse("command too long");
  if (/[\n\r]/.test(wellFormed)) return refuse("newline");
  if (/[^\P{Cc}\t]/u.test(wellFormed)) return refuse("control character");
  // sshd starts `$SHELL -c <text>`, and the shell reads a text like `-x` as one more option.
  if (/^[-+]/.test(wellFormed)) return refuse("leading option sign");
  try {
    const lexed = lexShell(wellFormed);
    if (lexed.kind === "refused") return lexed;
    for (const { words } of lexed.commands) {
      const fault = findFault(words);
      if (fault !== undefined) return refuse(fault);
    }
    return treeAgrees(wellFormed, lexed) ? lexed : refuse("ambiguous syntax");
  } catch {
    // If the parser fails, for example by a stack overflow, the text is not known to be valid.
    return refuse("syntax error");
  }
}

/**
 * Whether the full parser reads the same commands and operators. A tree with a node that is not on an
 * explicit list is rejected. The text has passed the lexer and so has no nesting, which limits the tree's recursion.
 */
function treeAgrees(text: string, lexed: LexedShell): boolean {
  const script = parse(text);
  if (script.errors !== undefined && script.errors.length > 0) return false;
  const tree: ShellTree = { commands: [], operators: [] };
  for (const statement of script.commands) {
    if (statement.background === true) return false;
    if (tree.commands.length > 0) tree.operators.push(";");
    if (!readNode(statement.command, tree)) return false;
  }
  return isSameList(tree.operators, lexed.operators) &&
    tree.commands.length === lexed.commands.length &&
    tree.commands.every((words, index) => isSameList(words, lexed.commands[index]?.words ?? []));
}

function isSameList(left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((item, index) => item === right[index]);
}

/** Decoded commands, and the operators between them. */
interface ShellTree {
  readonly commands: string[][];
  readonly operators: string[];
}

/** Appends the commands of a node to the tree. Returns false if the node contains anything else. */
function readNode(node: PipelineNode | AndOr, into: ShellTree): boolean {
  if (node.type === "Command") return readCommand(node, into);
  const isPipeline = node.type === "Pipeline";
  if (!isPipeline && node.type !== "AndOr" || isPipeline && node.prefixes.length > 0) return false;
  return node.commands.every((command, index) => {
    const operator = node.operators[index - 1];
    if (operator !== undefined) into.operators.push(operator);
    if (isPipeline && (operator === "|&" || command.type !== "Command")) return false;
    return readNode(command, into);
  });
}

function readCommand(command: Command, into: ShellTree): boolean {
  if (command.name === undefined) return false;
  const words: string[] = [];
  for (const part of [...command.prefix, command.name, ...command.suffix]) {
    if (part.type === "Word" && (part.parts ?? []).every(isStatic)) words.push(part.value);
    else if (part.type !== "Redirect" || !isDuplication(part)) return false;
  }
  into.commands.push(words);
  return true;
}

function isDuplication({ operator, descriptor, target }: Redirect): boolean {
  return (operator === ">&" || operator === "<&") && descriptor?.type !== "FileDescriptorVariable" &&
    /^[0-9-]$/.test(target?.text ?? "");
}

function isStatic(part: WordPart): boolean {
  return part.type === "Literal" || part.type === "SingleQuoted" ||
    (part.type === "DoubleQuoted" && part.parts.every((child) => child.type === "Literal"));
}

// `cd`, `umask` and `pushd` are ordinary candidates: of the environment of later commands they change only PWD, and a
// rule sees them by name.
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
  // The same in ksh93, mksh and zsh, where `-` runs the words after it.
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

/**
 * Why the words of one command hide its effect, or undefined. Programs are compared by the last part of their path,
 * without a leading `-` and in lower case (some file systems ignore case). Builtins are compared by the whole name,
 * because a path never means a builtin (only in ksh93 `/opt/ast/bin/cat` and eight others).
 */
function findHiddenCommand(words: readonly string[]): string | undefined {
  const [name = "", ...rest] = words;
  if (name === "" || /\s/.test(name)) return "command name that is empty or contains a space";
  if (STATE_BUILTINS.has(name) || ASSIGNS.get(name)?.(rest) === true) {
    return `builtin ${quoteText(name)} that changes the shell's environment`;
  }
  if (name.startsWith("%") || JOB_CONTROL.has(name)) return "job control";
  if (COMPUTES.get(name)?.(rest) === true) {
    return `builtin ${quoteText(name)} with an argument that some shells compute`;
  }
  const base = (name.toLowerCase().split("/").findLast((part) => part !== "") ?? "").replace(/^-(?=.)/, "");
  if (
    HIDING.has(base) || VERSIONED.test(base) || VERSIONED_SHELL.test(base) || DYNAMIC_LOADER.test(base) ||
    (base === "find" && rest.some((word) => FIND_ACTIONS.has(word)))
  ) {
    return `program ${quoteText(base)} that runs another command`;
  }
  return undefined;
}

type Check = (rest: readonly string[]) => boolean;

const testsVariable: Check = (rest) => rest.some((word) => word === "-v" || word === "-R");

// `printf -v x`, `wait -p x` of bash, and `test -v 'x[$(id)]'`, which runs the command in the subscript.
const ASSIGNS: ReadonlyMap<string, Check> = new Map([
  ["printf", ([first = ""]) => /^-./.test(first) && first !== "--"],
  ["wait", (rest) => rest.some((word) => /^-[a-z]*p/.test(word))],
  ["test", testsVariable],
  ["[", testsVariable],
]);

const INTEGER = /^[-+]?\d+$/;

const hasOther: Check = (rest) => !rest.every((word) => word === "--" || INTEGER.test(word));

/**
 * Detects builtins whose numeric argument is not a number. bash and dash report an error, but ksh93, mksh and
 * zsh compute it as an expression, which can assign (`PATH=1`) and run commands (`x[$(id)]`, in its own text
 * or in a variable that it names).
 */
const COMPUTES: ReadonlyMap<string, Check> = new Map([
  ["printf", (rest) => printfComputes(rest[0] === "--" ? rest.slice(1) : rest)],
  ["test", testComputes],
  ["[", testComputes],
  ...["exit", "return", "break", "continue", "logout", "bye"].map((name) => [name, hasOther] as const),
  ["ulimit", (rest) => !rest.every((word) => /^(?:-[A-Za-z]+\d*|\d+|unlimited)$/.test(word))],
]);

const COMPARISON = /^-(?:eq|ne|lt|le|gt|ge)$/;

function testComputes(rest: readonly string[]): boolean {
  return rest.some((word, index) => {
    const [before = "", after = ""] = [rest[index - 1], rest[index + 1]];
    if (COMPARISON.test(word)) return !INTEGER.test(before) || !INTEGER.test(after);
    return word === "-t" && !/^(?:\d*|\])$/.test(after);
  });
}

// The conversions that every shell reads alike. Not `%n`, which assigns, and no width `*`.
const CONVERSION = /%(?:%|[-+ 0#']*(?:[1-9]\d*)?(?:\.\d*)?([sbcqdiouxXeEfFgGaA])|\([^()]*\)T)/g;
// ksh93 and zsh decode `\u0025` before they search for `%`. Octal and hexadecimal escapes overflow.
const SAFE_ESCAPE = /\\(?:[\\abefnrtv"']|(?![0-7]*45)[0-7]|x(?![0-9a-fA-F]*25)[0-9a-fA-F])/g;

function printfComputes([format = "", ...values]: readonly string[]): boolean {
  const read = format.replace(SAFE_ESCAPE, "\n");
  if (/[\\%]/.test(read.replace(CONVERSION, "\n"))) return true;
  const kinds = [...read.matchAll(CONVERSION)].filter(([text]) => text !== "%%");
  return values.some((value, index) =>
    /[diouxXeEfFgGaA]/.test(kinds[index % kinds.length]?.[1] ?? "") && !NUMBER.test(value)
  );
}

// `'a` is the number of the character.
const NUMBER = /^(?:[-+]?(?:\d+(?:\.\d*)?|0[xX][0-9a-fA-F]+)|['"].)$/u;

const SUDO_USER = /^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,31}$/;

const SHELL_ONLY: ReadonlySet<string> = new Set(
  (". : alias bg break builtin cd command continue declare dirs disown eval exec exit export fc fg getopts hash " +
    "jobs let local logout popd pushd read readonly return set shift shopt source suspend times trap type typeset " +
    "ulimit umask unalias unset wait").split(" "),
);

/** Whether a text can name an account for sudo: no option, no second word, at most 32 characters. */
export function isSudoUser(user: string): boolean {
  return SUDO_USER.test(user);
}

/** Decides the sudo request of an intent on a host; `undefined` if sudo is not requested. */
export function resolveElevation(
  { name, allow_sudo, allowed_sudo_users = [] }: {
    readonly name: string;
    readonly allow_sudo?: boolean;
    /** The accounts that sudo may change to, in addition to root. */
    readonly allowed_sudo_users?: readonly string[];
  },
  { sudo, sudoUser }: { readonly sudo: boolean; readonly sudoUser: string },
) {
  if (!sudo) return undefined;
  const deny = (reason: string) => ({ kind: "denied", reason }) as const;
  if (allow_sudo !== true) return deny(`host ${quoteText(name)} does not allow elevation (allow_sudo=false)`);
  const user = canonicalSudoUser(sudo, sudoUser);
  if (!isSudoUser(user)) return deny(`invalid sudo_user: ${quoteText(user)}`);
  return user === "root" || allowed_sudo_users.includes(user)
    ? { kind: "elevated", user, prefix: elevationPrefix(user) } as const
    : deny(`sudo_user ${quoteText(user)} is not allowed on ${quoteText(name)}`);
}

/**
 * The words that elevate a command to an account; an empty name is root.
 *
 * @throws {RangeError} if the name is not that of an account
 */
export function elevationPrefix(sudoUser: string): string {
  const user = canonicalSudoUser(true, sudoUser);
  if (!isSudoUser(user)) throw new RangeError("Cannot elevate to an account of this name");
  return user === "root" ? "sudo -n" : `sudo -n -u ${user}`;
}

/**
 * The text that runs a command elevated. One simple command of known words becomes `<prefix> -- word…`, which a
 * narrow sudoers rule can name. Everything else, and shell builtins (`cd`, `umask`), becomes
 * `<prefix> -- /bin/sh -c '<command>'`.
 */
export function elevateCommand(prefix: string, command: string): string {
  const wellFormed = command.toWellFormed();
  const words = findPlainWords(wellFormed);
  return words === undefined
    ? `${prefix} -- /bin/sh -c ${singleQuote(wellFormed)}`
    : `${prefix} -- ${words.map(shellQuote).join(" ")}`;
}

function findPlainWords(command: string): readonly string[] | undefined {
  const parsed = parseScript(command);
  if (parsed.kind === "refused" || parsed.commands.length !== 1) return undefined;
  const [only] = parsed.commands;
  if (only === undefined || only.duplications > 0) return undefined;
  const [name = ""] = only.words;
  // sudo reads a leading word with `=` as an environment assignment.
  return name === "" || name.includes("=") || SHELL_ONLY.has(name) ? undefined : only.words;
}

/** The account for sudo in one spelling: empty without sudo, `root` if the request names no account. */
export function canonicalSudoUser(sudo: boolean | undefined, sudoUser: string | undefined): string {
  return sudo === true ? sudoUser || "root" : "";
}

/** The elevation of a request in records: `sudo:<account>`, or empty. */
export function elevationLabel(sudo: boolean | undefined, sudoUser: string | undefined): string {
  const user = canonicalSudoUser(sudo, sudoUser);
  return user === "" ? "" : `sudo:${user}`;
}

// The force-command of a host with `stop_on_disconnect`, which ends a command when its connection ends. sshd
// forwards no signal to a command that a certificate forces, and does not report the end of the connection to
// it, so a silent command would continue. Only the end of its standard input reaches the command. Therefore a
// watcher reads the standard input. At its end the process group gets TERM, and KILL after {@linkcode
// STOP_GRACE_SECONDS}.

/** The time between TERM and KILL, in seconds. */
export const STOP_GRACE_SECONDS = 2;

/**
 * Sends a signal to the process group of the session, whose leader is this shell or the sudo before it. Never
 * to another group.
 */
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

/**
 * Extracts the command from a text of any version of {@linkcode stopOnDisconnect}; `undefined` for other
 * texts.
 */
export function readStopOnDisconnect(text: string, command: string): string | undefined {
  const elevation = /^exec (.+? -- )?\/bin\/sh -c '/.exec(text);
  if (elevation === null || !text.endsWith(lastWords(command))) return undefined;
  const [, prefix] = elevation;
  return prefix === undefined ? command : `${prefix}/bin/sh -c ${singleQuote(command)}`;
}
