/** The shells of this machine that the firewall is held against. */

/** A shell of this machine. */
export interface Shell {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  readonly locale: string;
  /** It is given one batch in so many; without it every batch. */
  readonly oneIn?: number;
}

// Slow ones first, so that no long run is left over at the end.
const SHELLS: readonly Shell[] = [
  { name: "bash", locale: "C.UTF-8", command: ["/bin/bash"] },
  { name: "bash in locale C", locale: "C", command: ["/bin/bash"], oneIn: 4 },
  { name: "bash --posix", locale: "C.UTF-8", command: ["/bin/bash", "--posix"] },
  { name: "busybox ash", locale: "C.UTF-8", command: ["/bin/busybox", "ash"] },
  { name: "dash", locale: "C.UTF-8", command: ["/bin/dash"] },
];

/** The shells that are installed; a missing one is told, or fails the run under REQUIRE_REAL_SERVERS=1. */
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
