import { createHash } from "node:crypto";
import { basename, dirname, join } from "node:path";
import { ifThere } from "@gateway/shared/files";
import type { Package } from "./packages.ts";

const FOLDER_MODE = 0o755;
const FILE_MODE = 0o644;
export const PROGRAM_MODE = 0o755;

/** Copies the files of a package to their places, with their modes. */
export async function stage(
  { files, commands = [] }: Package,
  { sources, bundles, root }: {
    readonly sources: string;
    readonly bundles: string;
    readonly root: string;
  },
): Promise<void> {
  for (const { from, to, mode } of files) {
    const source = from.startsWith("bundles/")
      ? join(bundles, from.slice("bundles/".length))
      : join(sources, from);
    await copy(source, join(root, to), mode ?? FILE_MODE);
  }
  for (const { name, starts } of commands) {
    const text = `#!/bin/sh\nexec /bin/sh /usr/lib/gateway/start ${starts} "$@"\n`;
    await write(join(root, "usr/bin", name), text, PROGRAM_MODE);
  }
}

/** Writes a file with exactly this mode, and creates its directories. */
export async function write(path: string, content: string | Uint8Array, mode = FILE_MODE): Promise<void> {
  await makeFolder(dirname(path));
  await Deno.writeFile(path, typeof content === "string" ? new TextEncoder().encode(content) : content);
  await Deno.chmod(path, mode);
}

async function copy(from: string, to: string, mode: number): Promise<void> {
  // A hidden directory contains settings and packages of a generator, such as docs/.vitepress.
  if (basename(from).startsWith(".")) return;
  if ((await Deno.stat(from)).isDirectory) {
    for await (const { name } of Deno.readDir(from)) await copy(join(from, name), join(to, name), mode);
    return;
  }
  await makeFolder(dirname(to));
  await Deno.copyFile(from, to);
  await Deno.chmod(to, mode);
}

async function makeFolder(path: string): Promise<void> {
  if (await ifThere(Deno.stat(path)) !== undefined) return;
  await makeFolder(dirname(path));
  await Deno.mkdir(path);
  await Deno.chmod(path, FOLDER_MODE);
}

/** Runs a program to its end. @returns its standard output */
export async function run(
  program: string,
  args: readonly string[],
  options: Pick<Deno.CommandOptions, "env"> & { readonly cwd: string },
): Promise<string> {
  const command = new Deno.Command(program, { args: [...args], ...options, stdin: "null" });
  const { success, code, stdout, stderr } = await command.output();
  if (success) return new TextDecoder().decode(stdout);
  const errors = new TextDecoder().decode(stderr).trim();
  throw new Error(`Cannot release: ${[program, ...args].join(" ")} failed with code ${code}: ${errors}`);
}

/** Writes a tar archive of a directory. The same files always produce the same bytes. */
export async function pack(
  archive: string,
  root: string,
  { epoch, entry = ".", options = [] }: {
    readonly epoch: number;
    readonly entry?: string;
    readonly options?: readonly string[];
  },
): Promise<void> {
  const order = ["--sort=name", `--mtime=@${epoch}`, "--owner=0", "--group=0", "--numeric-owner"];
  await run("tar", [...order, ...options, "-cf", archive, "-C", root, entry], { cwd: root });
}

const CHECKSUMS = "SHA256SUMS";

/** Writes the checksums of files into their directory, for `sha256sum --check`. @returns the name of the file */
export async function writeChecksums(folder: string, files: readonly string[]): Promise<string> {
  const lines: string[] = [];
  for (const file of files.toSorted()) {
    const digest = createHash("sha256").update(await Deno.readFile(join(folder, file))).digest("hex");
    lines.push(`${digest}  ${file}\n`);
  }
  await Deno.writeTextFile(join(folder, CHECKSUMS), lines.join(""));
  return CHECKSUMS;
}
