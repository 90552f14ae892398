/** How {@linkcode run} runs a program. */
interface RunOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
}

/**
 * Runs a program to its end.
 *
 * @returns what it wrote
 * @throws when it fails, with what it said
 */
export async function run(program: string, args: readonly string[], options: RunOptions): Promise<string> {
  const { success, code, stdout, stderr } = await new Deno.Command(program, {
    args: [...args],
    ...options,
    stdin: "null",
  }).output();
  if (success) return new TextDecoder().decode(stdout);
  const said = new TextDecoder().decode(stderr).trim();
  throw new Error(`Cannot make the release: ${[program, ...args].join(" ")} ended with ${code}: ${said}`);
}
