import { join } from "node:path";
import { type Program, programsByFolder } from "./programs.ts";
import { run } from "./run.ts";

/** Native code that `ssh2` would use where it is there, and does not need: it would end the sandbox. */
const OPTIONAL_NATIVE = ["cpu-features", "*.node"] as const;

/** Where {@linkcode bundleAll} reads and writes. */
export interface BundleFolders {
  /** The sources to release; absolute. */
  readonly sources: string;
  /** Where `signer/main.js` and the others go; absolute. */
  readonly output: string;
}

/** Bundles every program. What is loaded only on demand stays in files of its own. */
export async function bundleAll({ sources, output }: BundleFolders): Promise<void> {
  for (const [folder, programs] of programsByFolder()) {
    await run(Deno.execPath(), bundleArguments(programs, join(output, folder)), { cwd: sources });
  }
}

function bundleArguments(programs: readonly Program[], outdir: string): readonly string[] {
  const config = programs[0]?.member ?? "";
  return [
    "bundle",
    "--quiet",
    "--platform=deno",
    "--code-splitting",
    ...OPTIONAL_NATIVE.map((name) => `--external=${name}`),
    `--config=${config}/deno.json`,
    `--outdir=${outdir}`,
    ...programs.map(({ entry }) => entry),
  ];
}
