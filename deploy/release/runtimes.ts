import { join } from "node:path";
import { run } from "./stage.ts";

const ARCHITECTURES = ["amd64", "arm64"] as const;

export type Architecture = (typeof ARCHITECTURES)[number];

export interface Runtime {
  readonly architecture: Architecture;
  readonly path: string;
}

/** `e_machine` of an ELF header (elf(5)). */
const MACHINES: Readonly<Record<number, Architecture>> = { 62: "amd64", 183: "arm64" };
/** The npm packages of the Deno program; npm checks their hashes. */
const NPM_NAMES: Readonly<Record<Architecture, string>> = {
  amd64: "@deno/linux-x64-glibc",
  arm64: "@deno/linux-arm64-glibc",
};

/**
 * Finds the Deno programs: the named ones, or else the running program, and for the other architecture the npm package of
 * the same version.
 *
 * @param work a directory for downloads; absolute
 */
export async function findRuntimes(named: readonly string[], work: string): Promise<readonly Runtime[]> {
  const found: Runtime[] = [];
  for (const path of named.length > 0 ? named : [Deno.execPath()]) {
    const architecture = await architectureOf(path);
    if (found.some((other) => other.architecture === architecture)) {
      throw new TypeError(`Cannot release two runtimes for ${architecture}`);
    }
    found.push({ architecture, path });
  }
  if (named.length > 0) return found;
  for (const architecture of ARCHITECTURES) {
    if (found.some((other) => other.architecture === architecture)) continue;
    const folder = join(work, `runtime-${architecture}`);
    await Deno.mkdir(folder);
    const name = `${NPM_NAMES[architecture]}@${Deno.version.deno}`;
    await run("npm", ["pack", "--loglevel=error", name], { cwd: folder });
    const [archive = ""] = await Array.fromAsync(Deno.readDir(folder), (entry) => entry.name);
    await run("tar", ["-xzf", archive, "package/deno"], { cwd: folder });
    const path = join(folder, "package/deno");
    if (await architectureOf(path) !== architecture) {
      throw new TypeError(`Cannot release ${name}: wrong machine`);
    }
    found.push({ architecture, path });
  }
  return found;
}

/** The architecture that an ELF program is for. */
export async function architectureOf(path: string): Promise<Architecture> {
  using file = await Deno.open(path);
  const header = new Uint8Array(20);
  await file.read(header);
  const isElf = new TextDecoder().decode(header.subarray(0, 4)) === "\x7fELF";
  const architecture = isElf ? MACHINES[new DataView(header.buffer).getUint16(18, true)] : undefined;
  if (architecture !== undefined) return architecture;
  throw new TypeError(
    `Cannot release runtime ${JSON.stringify(path)}: it is no ELF program for amd64 or arm64`,
  );
}
