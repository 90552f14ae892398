import assert from "node:assert/strict";

/** A program that writes to one file and prints a line for each durable write. */
export interface Writer {
  readonly module: string;
  /** The only path that the program may access. */
  readonly path: string;
  readonly args: readonly string[];
}

/** Runs a writer, kills it after this number of lines, and returns every complete line. */
export async function runUntilKilled(
  { module, path, args }: Writer,
  count: number,
): Promise<readonly string[]> {
  const permissions = ["--ignore-env", `--allow-read=${path}`, `--allow-write=${path}`];
  const writer = new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "--quiet", "--cached-only", ...permissions, module, ...args],
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  let text = "";
  let lines = 0;
  let killed = false;
  for await (const chunk of writer.stdout.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    lines += chunk.split("\n").length - 1;
    if (!killed && lines >= count) {
      writer.kill("SIGKILL");
      killed = true;
    }
  }
  assert.equal((await writer.status).signal, "SIGKILL");
  return text.split("\n").slice(0, -1);
}
