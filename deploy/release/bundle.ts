import { basename, join } from "node:path";
import { run } from "./stage.ts";

/** The modules that packages start with, and the directories of their bundles below `usr/lib/gateway/node_modules/gateway`. */
export const PROGRAMS = [
  { entry: "signer/main.ts", folder: "signer", member: "signer" },
  { entry: "control_plane/main.ts", folder: "control_plane", member: "control_plane" },
  { entry: "broker/main.ts", folder: "broker", member: "broker" },
  { entry: "ctl/main.ts", folder: "broker_ctl", member: "ctl" },
  { entry: "ctl/start.ts", folder: "ctl", member: "ctl" },
  { entry: "ctl/bridge/main.ts", folder: "approval_bridge", member: "ctl" },
  { entry: "ctl/bridge/start.ts", folder: "approval_bridge", member: "ctl" },
  { entry: "debate/main.ts", folder: "debate", member: "debate" },
  { entry: "debate/start.ts", folder: "debate", member: "debate" },
] as const;

/** Optional native code of `ssh2`, which is left out because it would run outside of Deno's sandbox. */
const OPTIONAL_NATIVE = ["cpu-features", "*.node"] as const;

interface BundleFolders {
  readonly sources: string;
  /** The absolute path of the directory of the bundles. */
  readonly output: string;
}

/** Bundles all programs, or those of some directories, and the pages that they serve. */
export async function bundleAll({ sources, output }: BundleFolders, only?: readonly string[]): Promise<void> {
  await run(Deno.execPath(), ["task", "--quiet", "pages"], { cwd: sources });
  for (const [folder, programs] of Map.groupBy(PROGRAMS, ({ folder }) => folder)) {
    if (only !== undefined && !only.includes(folder)) continue;
    const entries = programs.map(({ entry }) => entry);
    await bundle(programs[0]?.member ?? "", entries, { sources, output: join(output, folder) });
  }
}

/**
 * Bundles modules of one member. Modules that are loaded on demand stay separate files: in one file, the bundler does
 * not run the start of a library that is needed both on demand and at once.
 */
export async function bundle(
  member: string,
  entries: readonly string[],
  { sources, output }: BundleFolders,
): Promise<void> {
  const external = OPTIONAL_NATIVE.map((name) => `--external=${name}`);
  const options = [
    "--quiet",
    "--platform=deno",
    "--code-splitting",
    ...external,
    `--config=${member}/deno.json`,
  ];
  await run(Deno.execPath(), ["bundle", ...options, `--outdir=${output}`, ...entries], { cwd: sources });
  await mend(await Array.fromAsync(Deno.readDir(output), ({ name }) => join(output, name)));
}

async function mend(paths: readonly string[]): Promise<void> {
  const files = new Map<string, string>();
  for (const path of paths) files.set(path, await Deno.readTextFile(path));
  for (const [path, mended] of mendCommonJs(files)) {
    const text = narrowComments(mended);
    if (text !== files.get(path)) await Deno.writeTextFile(path, text);
  }
}

const WHOLLY_COMMON_JS = /^export default require_\w+\(\);?$/m;
const IMPORT = /\bimport\("\.\/([^"/]+)"\)/g;

/**
 * Adds definitions to CommonJS code in bundles, such as `ssh2`, that Deno provides only outside of bundles:
 * `__dirname`, and the names of exports that are loaded on demand. Without them, a broker exits at its first
 * connection to a host.
 *
 * @param files the files of one bundle, text by path
 */
export function mendCommonJs(files: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const wholly = new Set(
    [...files].filter(([, text]) => WHOLLY_COMMON_JS.test(text)).map(([path]) => basename(path)),
  );
  const named = (text: string) =>
    text.replaceAll(
      IMPORT,
      (found, name: string) => wholly.has(name) ? `${found}.then((module) => module.default)` : found,
    );
  return new Map([...files].map(([path, text]) => [path, withDirname(named(text))]));
}

function withDirname(text: string): string {
  const isFree = /\b__dirname\b/.test(text) && !/^(?:let|const) __dirname\b/m.test(text);
  // A package may declare the name in the same scope, so use `var`, which may be repeated.
  return isFree ? `var __dirname = import.meta.dirname;\n${text}` : text;
}

const WIDE = /[\u{100}-\u{10ffff}]/u;
const WIDE_ALL = /[\u{100}-\u{10ffff}]/gu;
const COMMENT = /^\s*(?:\/\/|\/\*|\*)/;

/**
 * Replaces characters beyond Latin-1 in comments: a single such character makes V8 store the whole text with
 * two bytes per character.
 */
export function narrowComments(text: string): string {
  const lines = text.split("\n");
  if (lines.some((line) => WIDE.test(line) && !COMMENT.test(line))) return text;
  return lines.map((line) => WIDE.test(line) ? line.replaceAll(WIDE_ALL, "?") : line).join("\n");
}
