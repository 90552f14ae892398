/** Reads a file in `/proc` with another program, because Deno reads such files only with all permissions. */
export async function readProcFile(path: string): Promise<string> {
  const { success, stdout } = await new Deno.Command("cat", { args: [path], stderr: "null" }).output();
  if (!success) throw new Error(`cannot read ${path}`);
  return new TextDecoder().decode(stdout);
}

/** Returns the command line of a process as words. */
export async function commandOf(pid: number): Promise<readonly string[]> {
  return (await readProcFile(`/proc/${pid}/cmdline`)).replace(/\0$/, "").split("\0");
}

/** Returns the resident memory of a process in bytes (`VmRSS` of proc(5)). */
export async function residentBytes(pid: number): Promise<number> {
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(await readProcFile(`/proc/${pid}/status`)) ?? [];
  return Number(kib) * 1024;
}
