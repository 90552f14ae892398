import { join } from "node:path";
import { mendCommonJs } from "./common_js.ts";
import { narrowComments } from "./narrow.ts";
import { type Program, programsByFolder } from "./programs.ts";
import { run } from "./run.ts";

/** Native code that `ssh2` would use where it is there, and does not need: it would end the sandbox. */
const OPTIONAL_NATIVE = ["cpu-features", "*.node"] as const;

/** Where bundles come from and go to. */
interface BundleFolders {
  readonly sources: string;
  /** The folder where `signer/main.js` and the others go, or the one file; absolute. */
  readonly output: string;
}

/** Bundles every program, or those of some folders. What is loaded only on demand stays in files of its own. */
export async function bundleAll({ sources, output }: BundleFolders, only?: readonly string[]): Promise<void> {
  for (const [folder, programs] of programsByFolder()) {
    if (only !== undefined && !only.includes(folder)) continue;
    const target = join(output, folder);
    await run(Deno.execPath(), bundleArguments(programs, target), { cwd: sources });
    await mend(await Array.fromAsync(Deno.readDir(target), ({ name }) => join(target, name)));
  }
}

/** Bundles a program into one file. */
export async function bundleOne(
  { entry, member }: Pick<Program, "entry" | "member">,
  { sources, output }: BundleFolders,
): Promise<void> {
  await run(Deno.execPath(), [...options(member), `--output=${output}`, entry], { cwd: sources });
  await mend([output]);
}

/** A bundle is ES modules, also where what is in it is not; and it is as small in memory as in its file. */
async function mend(paths: readonly string[]): Promise<void> {
  const files = new Map<string, string>();
  for (const path of paths) files.set(path, await Deno.readTextFile(path));
  for (const [path, mended] of mendCommonJs(files)) {
    const text = narrowComments(mended);
    if (text !== files.get(path)) await Deno.writeTextFile(path, text);
  }
}

function bundleArguments(programs: readonly Program[], outdir: string): readonly string[] {
  const entries = programs.map(({ entry }) => entry);
  return [...options(programs[0]?.member ?? ""), "--code-splitting", `--outdir=${outdir}`, ...entries];
}

function options(member: string): readonly string[] {
  return [
    "bundle",
    "--quiet",
    "--platform=deno",
    ...OPTIONAL_NATIVE.map((name) => `--external=${name}`),
    `--config=${member}/deno.json`,
  ];
}
