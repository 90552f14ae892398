/** The shells of this machine that the firewall is compared with. */

export interface Shell {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  readonly locale: string;
  readonly isSh?: true;
  /** Use it for one in this many batches; default: every batch. */
  readonly oneIn?: number;
  /** The index of its batch among those, from 0. */
  readonly turn?: number;
  /** How it writes words atomically, each ended by U+001F, without a program or function in the texts. */
  readonly write?: string;
}

// The `command` of zsh runs no builtin.
const ZSH = `builtin printf '%s\\037' "$@"`;
// mksh has no printf.
const MKSH = 'set -A _fw_words -- "$@"; IFS=\x1f; builtin print -rn -- "${_fw_words[*]}\x1f"; unset IFS';

// Slow shells first, so that no long run remains at the end. All shells take part in the first four batches.
// After that, the frequency of a shell depends on its cost (ksh93: three times that of bash).
const SHELLS: readonly Shell[] = [
  { name: "bash", locale: "C.UTF-8", isSh: true, command: ["/bin/bash"] },
  { name: "zsh", locale: "C.UTF-8", command: ["/bin/zsh"], oneIn: 4, turn: 0, write: ZSH },
  { name: "bash in locale C", locale: "C", isSh: true, command: ["/bin/bash"], oneIn: 4, turn: 1 },
  {
    name: "bash --posix",
    locale: "C.UTF-8",
    isSh: true,
    command: ["/bin/bash", "--posix"],
    oneIn: 2,
    turn: 0,
  },
  { name: "busybox ash", locale: "C.UTF-8", isSh: true, command: ["/bin/busybox", "ash"] },
  { name: "yash", locale: "C.UTF-8", command: ["/bin/yash"], oneIn: 4, turn: 1 },
  { name: "ksh93", locale: "C.UTF-8", command: ["/bin/ksh93"], oneIn: 8, turn: 2 },
  { name: "mksh", locale: "C.UTF-8", command: ["/bin/mksh"], oneIn: 4, turn: 3, write: MKSH },
  { name: "dash", locale: "C.UTF-8", isSh: true, command: ["/bin/dash"] },
];

/**
 * The builtins and default aliases of bash 5.2, dash, busybox ash, ksh93, mksh, yash and zsh. Excludes
 * builtins that change files or processes like the programs of the same name (`kill`, mksh's `rename`).
 */
export const BUILTINS: readonly string[] =
  (". : [ alarm alias array autoload bg bind bindkey break builtin bye caller cd chdir command compadd comparguments " +
    "compcall compctl compdescribe compfiles compgen compgroups complete compopt compound compquote compset comptags " +
    "comptry compvalues continue declare dirs disable disown echo echotc echoti emulate enable enum eval exec exit " +
    "export false fc fg float functions getln getopts global hash help hist history integer jobs let limit local log " +
    "logout mapfile nameref noglob popd print printf private pushd pushln pwd r read readarray readonly redirect " +
    "rehash return sched set setopt shift shopt sleep source stop suspend test times trap true ttyctl type typeset " +
    "ulimit umask unalias unfunction unhash unlimit unset unsetopt vared vmap vpath wait whence where which zcompile " +
    "zformat zle zmodload zparseopts zregexparse zstyle").split(" ");

/** The installed shells. Reports a missing one, or fails the run under REQUIRE_REAL_SERVERS=1. */
export async function findShells(): Promise<readonly Shell[]> {
  const found: Shell[] = [];
  for (const shell of SHELLS) {
    if (await succeeds(shell, ":")) {
      // A busybox that prefers its own applets would run them instead of the stubs.
      if (await succeeds(shell, "ls")) {
        throw new Error(`Shell runs programs that are not on PATH: ${shell.name}`);
      }
      found.push(shell);
      continue;
    }
    if (Deno.env.get("REQUIRE_REAL_SERVERS") === "1") throw new Error(`Shell not installed: ${shell.name}`);
    await Deno.stderr.write(new TextEncoder().encode(`skipped: shell not installed: ${shell.name}\n`));
  }
  return found;
}

async function succeeds({ command: [program, ...args] }: Shell, text: string): Promise<boolean> {
  const command = new Deno.Command(program, {
    args: [...args, "-c", text],
    cwd: "/",
    clearEnv: true,
    env: { PATH: "/nonexistent" },
    stdin: "null",
    stdout: "null",
    stderr: "null",
  });
  return await command.output().then(({ success }) => success, () => false);
}
