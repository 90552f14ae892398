/** The shells of this machine that the firewall is held against. */

export interface Shell {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  readonly locale: string;
  readonly isSh?: true;
  /** It is given one batch in so many; without it every batch. */
  readonly oneIn?: number;
  /** Which of those, from 0. */
  readonly turn?: number;
  /** How it writes words in one piece, each ended by U+001F, without a program or a function of these texts. */
  readonly write?: string;
}

// Its `command` runs no builtin.
const ZSH = `builtin printf '%s\\037' "$@"`;
// It has no printf.
const MKSH = 'set -A _fw_words -- "$@"; IFS=\x1f; builtin print -rn -- "${_fw_words[*]}\x1f"; unset IFS';

// Slow ones first, so that no long run is left over at the end. All take part in the first four batches; how often
// a shell comes again depends on what it costs (ksh93 three times what bash does).
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
 * The builtins and default aliases of bash 5.2, dash, busybox ash, ksh93, mksh, yash and zsh. Not the ones that
 * work on files or processes as programs of their names do elsewhere (`kill`, mksh's `rename`).
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
      // A busybox built to prefer its own programs would run them instead of the stubs.
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
