import { dirname, join } from "node:path";
import type { Package, PackagedCommand } from "./packages.ts";

/** Where {@linkcode stage} reads and writes; absolute. */
interface StageFolders {
  readonly sources: string;
  readonly bundles: string;
  readonly root: string;
}

const FOLDER_MODE = 0o755;
const FILE_MODE = 0o644;
const PROGRAM_MODE = 0o755;

/** Puts the files of a package where they are to lie, with their modes. */
export async function stage({ files, commands = [] }: Package, folders: StageFolders): Promise<void> {
  for (const { from, to, mode } of files) {
    const source = from.startsWith("bundles/")
      ? join(folders.bundles, from.slice("bundles/".length))
      : join(folders.sources, from);
    await copy(source, join(folders.root, to), mode ?? FILE_MODE);
  }
  for (const command of commands) {
    const path = join(folders.root, "usr/bin", command.name);
    await write(path, commandText(command), PROGRAM_MODE);
  }
}

function commandText({ starts }: PackagedCommand): string {
  return `#!/bin/sh\nexec /bin/sh /usr/lib/gateway/start ${starts} "$@"\n`;
}

/** Writes a file, its mode whatever the umask, and makes the folders that lead to it. */
export async function write(path: string, content: string | Uint8Array, mode = FILE_MODE): Promise<void> {
  await makeFolder(dirname(path));
  await Deno.writeFile(path, typeof content === "string" ? new TextEncoder().encode(content) : content);
  await Deno.chmod(path, mode);
}

async function copy(from: string, to: string, mode: number): Promise<void> {
  if ((await Deno.stat(from)).isDirectory) {
    for await (const { name } of Deno.readDir(from)) await copy(join(from, name), join(to, name), mode);
    return;
  }
  await makeFolder(dirname(to));
  await Deno.copyFile(from, to);
  await Deno.chmod(to, mode);
}

async function makeFolder(path: string): Promise<void> {
  const made: string[] = [];
  for (let folder = path; !await isThere(folder); folder = dirname(folder)) made.unshift(folder);
  for (const folder of made) {
    await Deno.mkdir(folder);
    await Deno.chmod(folder, FOLDER_MODE);
  }
}

async function isThere(path: string): Promise<boolean> {
  try {
    await Deno.stat(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
