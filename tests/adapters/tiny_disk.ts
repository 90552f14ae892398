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
    // Unmount lazily, because a failed test may still hold a file open.
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

// Only root can mount. A run that must be complete fails instead of skipping these tests.
export const mayNotMount: boolean = Deno.env.get("REQUIRE_REAL_SERVERS") !== "1" && !(await mayMount());

export function diskTest(name: string, fn: () => Promise<void>): void {
  Deno.test({ name: `${name} (needs root)`, ignore: mayNotMount, fn });
}

/** Fills the disk completely and returns the number of written bytes. */
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
 * Removes the file that {@linkcode fill} has written, after truncating it. A program that another test starts
 * holds a copy of the descriptor until its exec, which would keep a file that is only removed on the disk.
 */
export function makeRoom(path: string): void {
  Deno.truncateSync(path, 0);
  Deno.removeSync(path);
}
