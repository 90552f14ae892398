import { join } from "node:path";
import { ifThere } from "@gateway/shared/files";
import { parseStandardJson } from "@gateway/shared/json";

/**
 * Folders of packages that must stay out of executables. `bintrees` (prom-client > tdigest > bintrees) ships
 * samples of its tests, a file of 2 MB that is one expression: `deno compile` 2.9.6 takes it for a module and
 * overflows its stack.
 */
const UNWANTED = [{ package: "bintrees", folder: "test" }] as const;

/** The folders in Deno's package cache to exclude, absolute; none for packages that are not there. */
export async function findNpmExcludes(): Promise<readonly string[]> {
  const cache = await npmCache();
  const found: string[] = [];
  for (const { package: name, folder } of UNWANTED) {
    for (const registry of await folders(cache)) {
      for (const version of await folders(join(registry, name))) found.push(join(version, folder));
    }
  }
  return found;
}

async function npmCache(): Promise<string> {
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["info", "--json"], stderr: "null" })
    .output();
  const info = parseStandardJson(new TextDecoder().decode(stdout)) as { readonly npmCache: string };
  return info.npmCache;
}

async function folders(parent: string): Promise<readonly string[]> {
  const entries = await ifThere(Array.fromAsync(Deno.readDir(parent))) ?? [];
  return entries.filter(({ isDirectory }) => isDirectory).map(({ name }) => join(parent, name));
}
