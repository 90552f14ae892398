/**
 * Compiles the executables into `dist/`: `deno task compile [--list] [name...]`.
 *
 * @module
 */
import { join } from "node:path";
import { ifThere } from "@gateway/shared/files";
import { parseStandardJson } from "@gateway/shared/json";
import { writeAllSync } from "@gateway/shared/text";
import { compileArguments, EXECUTABLES } from "./release/executables.ts";

const NO_BASE_BINARY = `
Cannot compile: "deno compile" needs denort ${Deno.version.deno}, which could not be downloaded.
Download denort-<platform>.zip of the Deno release v${Deno.version.deno} on another machine and unpack it.
fix: DENORT_BIN=/path/to/denort deno task compile
`;

const IS_DENO = `
Cannot compile: DENORT_BIN is Deno itself, and the executable would be a Deno without permission limits.
fix: env -u DENORT_BIN deno task compile
`;

if (import.meta.main) Deno.exitCode = await main(Deno.args);

async function main(args: readonly string[]): Promise<number> {
  const workspace = new URL("..", import.meta.url).pathname.replace(/\/$/, "");
  const folders = { workspace, output: `${workspace}/dist`, excludes: await findNpmExcludes() };
  if (args.includes("--help")) {
    const known = EXECUTABLES.map(({ name, purpose }) => `  ${name.padEnd(20)} ${purpose}\n`).join("");
    writeAllSync(
      Deno.stdout,
      `deno task compile [--list] [name...]   (--list only prints the commands)\n${known}`,
    );
    return 0;
  }
  const names = args.filter((arg) => !arg.startsWith("-"));
  const unknown = args.filter((arg) => arg !== "--list" && EXECUTABLES.every(({ name }) => name !== arg));
  if (unknown.length > 0) {
    const known = EXECUTABLES.map(({ name }) => name).join(", ");
    return fail(`Cannot compile ${unknown.join(", ")}: expected --list, ${known}\n`, 2);
  }
  for (const executable of EXECUTABLES) {
    const { name, purpose, permissionSet, member } = executable;
    if (names.length > 0 && !names.includes(name)) continue;
    const denoArguments = compileArguments(executable, folders);
    const source = `permissions.${permissionSet} of ${member}/deno.json`;
    writeAllSync(Deno.stdout, `${name}: ${purpose}; ${source}\n  deno ${denoArguments.join(" ")}\n`);
    if (args.includes("--list")) continue;
    if (await isDenoItself(Deno.env.get("DENORT_BIN"))) return fail(IS_DENO, 1);
    const command = new Deno.Command(Deno.execPath(), { args: denoArguments, stdout: "inherit" });
    const { success, stderr } = await command.output();
    writeAllSync(Deno.stderr, stderr);
    if (success) continue;
    const isWithoutBase = /base binary/i.test(new TextDecoder().decode(stderr));
    return isWithoutBase ? fail(NO_BASE_BINARY, 1) : 1;
  }
  return 0;
}

async function isDenoItself(path: string | undefined): Promise<boolean> {
  if (path === undefined || path === "") return false;
  return await Deno.realPath(path) === await Deno.realPath(Deno.execPath());
}

function fail(text: string, exitCode: number): number {
  writeAllSync(Deno.stderr, text);
  return exitCode;
}

/**
 * The directories in Deno's package cache to exclude, absolute. `bintrees` (prom-client > tdigest > bintrees) has a file
 * of 2 MB with one expression among its tests: `deno compile` 2.9.6 reads it as a module and overflows its stack.
 */
export async function findNpmExcludes(): Promise<readonly string[]> {
  const command = new Deno.Command(Deno.execPath(), { args: ["info", "--json"], stderr: "null" });
  const { stdout } = await command.output();
  const { npmCache } = parseStandardJson(new TextDecoder().decode(stdout)) as { readonly npmCache: string };
  const found: string[] = [];
  for (const registry of await folders(npmCache)) {
    for (const version of await folders(join(registry, "bintrees"))) found.push(join(version, "test"));
  }
  return found;
}

async function folders(parent: string): Promise<readonly string[]> {
  const entries = await ifThere(Array.fromAsync(Deno.readDir(parent))) ?? [];
  return entries.filter(({ isDirectory }) => isDirectory).map(({ name }) => join(parent, name));
}
