import { join } from "node:path";
import { run } from "./stage.ts";

export interface Sources {
  /** A copy of the sources, with the version written into them; absolute. */
  readonly folder: string;
  /** The version without `v`, such as `0.1.0`. */
  readonly version: string;
  /** The commit, followed by `-dirty` if files differ from it. */
  readonly revision: string;
  readonly epoch: number;
}

/** The places of the version and the revision, and their texts before a release. */
const STAMPS = [
  { file: "shared/service/version.ts", before: 'VERSION: string = "', placeholder: "dev", value: "version" },
  { file: "shared/service/version.ts", before: 'REVISION: string = "', placeholder: "", value: "revision" },
  { file: "shim/gateway-shim", before: "gateway-shim ", placeholder: "dev", value: "version" },
  { file: "shim/gateway-shim-v1", before: "gateway-shim ", placeholder: "dev", value: "version" },
] as const;

/** Copies git's files of a checkout, and writes version and revision into the copy. */
export async function copySources({ workspace, folder, version, allowDirty }: {
  readonly workspace: string;
  /** Absolute, and empty. */
  readonly folder: string;
  readonly version: string;
  readonly allowDirty: boolean;
}): Promise<Sources> {
  const git = (...args: string[]) => run("git", args, { cwd: workspace });
  const changed = (await git("status", "--porcelain")).trim();
  if (changed !== "" && !allowDirty) {
    throw new Error(`Cannot make a release of a checkout with changes (--allow-dirty does):\n${changed}`);
  }
  const commit = (await git("rev-parse", "HEAD")).trim();
  const revision = changed === "" ? commit : `${commit}-dirty`;
  const epoch = Number((await git("log", "-1", "--format=%ct")).trim());
  const files = (await git("ls-files", "-z", "--cached", "--others", "--exclude-standard")).split("\0");
  await copyFiles(files.filter(isReleased), workspace, folder);
  await stamp(folder, { version, revision });
  return { folder, version, revision, epoch };
}

/**
 * Whether a file is released. Tests are not, but the workspace needs the settings of its member for tests.
 */
function isReleased(file: string): boolean {
  return file !== "" && (file === "tests/deno.json" || !/^tests\/|_(?:test|bench)\.ts$/.test(file));
}

async function copyFiles(files: readonly string[], from: string, to: string): Promise<void> {
  for (const file of files) {
    const target = join(to, file);
    await Deno.mkdir(join(target, ".."), { recursive: true });
    try {
      await Deno.copyFile(join(from, file), target);
    } catch (error) {
      // The file was deleted, but the deletion is not committed.
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
}

async function stamp(folder: string, values: Pick<Sources, "version" | "revision">): Promise<void> {
  for (const { file, before, placeholder, value } of STAMPS) {
    const path = join(folder, file);
    const from = `${before}${placeholder}`;
    const parts = (await Deno.readTextFile(path)).split(from);
    if (parts.length !== 2) throw new Error(`Cannot write the ${value} into ${file}: expected one ${from}`);
    await Deno.writeTextFile(path, parts.join(`${before}${values[value]}`));
  }
}
