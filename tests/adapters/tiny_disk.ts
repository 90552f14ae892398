import assert from "node:assert/strict";

async function run(program: string, ...args: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(program, { args: [...args] }).output();
  if (!success) throw new Error(`${program}: ${new TextDecoder().decode(stderr).trim()}`);
}

export class TinyDisk implements AsyncDisposable {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async mount(options: string): Promise<TinyDisk> {
    const folder = await Deno.makeTempDir({ prefix: "audit-disk-" });
    try {
      await run("mount", "-t", "tmpfs", "-o", options, "tmpfs", folder);
    } catch (error) {
      await Deno.remove(folder);
      throw error;
    }
    return new TinyDisk(folder);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Lazily: a test that failed half-way may hold a file open.
    await run("umount", "--lazy", this.folder);
    await Deno.remove(this.folder);
  }
}

async function mayMount(): Promise<boolean> {
  try {
    await using _disk = await TinyDisk.mount("size=64k");
    return true;
  } catch {
    return false;
  }
}

// Only root may mount. A run that has to be complete fails instead of passing over these tests.
export const mayNotMount: boolean = Deno.env.get("REQUIRE_REAL_SERVERS") !== "1" && !(await mayMount());

export function diskTest(name: string, fn: () => Promise<void>): void {
  Deno.test({ name: `${name} (needs root)`, ignore: mayNotMount, fn });
}

/** Fills the disk until nothing more goes in, then gives the number of bytes that went in. */
export function fill(path: string): number {
  using file = Deno.openSync(path, { write: true, create: true });
  const bytes = new Uint8Array(1024);
  let total = 0;
  try {
    while (true) total += file.writeSync(bytes);
  } catch (error) {
    assert.match(String(error), /No space left/);
    return total;
  }
}

/**
 * Takes away what {@linkcode fill} has written. Emptied first: a program that another test is just starting holds a
 * copy of the descriptor until its exec, and with it what a mere removal would leave on the disk.
 */
export function makeRoom(path: string): void {
  Deno.truncateSync(path, 0);
  Deno.removeSync(path);
}
