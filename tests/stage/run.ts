import assert from "node:assert/strict";

/** Runs a program, throws if it fails, and returns its output. */
export async function run(
  program: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args: [...args], env, stdin: "null" })
    .output();
  const decoder = new TextDecoder();
  assert.ok(success, `${program}: ${decoder.decode(stderr)}`);
  return decoder.decode(stdout);
}
