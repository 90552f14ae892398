/**
 * Makes the executables: `deno task compile [--list] [name...]`, into `dist/`.
 *
 * @module
 */
import { writeAllSync } from "@gateway/shared/text";
import { compileArguments, EXECUTABLES } from "./executables.ts";
import { findNpmExcludes } from "./npm_excludes.ts";

const NO_BASE_BINARY = `
"deno compile" puts a program onto a base binary, denort, of the very version of Deno. It could not be
downloaded. Take denort-<platform>.zip of the release v${Deno.version.deno} where that can be reached,
unpack it, and name it: DENORT_BIN=/path/to/denort deno task compile
`;

const IS_DENO = `
DENORT_BIN is Deno itself. What that makes is not the program under its permissions but a Deno that may do
everything. Name a denort of v${Deno.version.deno}, or unset DENORT_BIN to have it downloaded.
`;

if (import.meta.main) Deno.exitCode = await main(Deno.args);

async function main(args: readonly string[]): Promise<number> {
  const workspace = new URL("..", import.meta.url).pathname.replace(/\/$/, "");
  const folders = { workspace, output: `${workspace}/dist`, excludes: await findNpmExcludes() };
  const names = args.filter((arg) => !arg.startsWith("-"));
  const unknown = args.filter((arg) => arg !== "--list" && EXECUTABLES.every(({ name }) => name !== arg));
  if (unknown.length > 0) {
    return fail(`Cannot compile ${unknown.join(", ")}: expected --list, ${formatNames()}\n`, 2);
  }
  const chosen = EXECUTABLES.filter(({ name }) => names.length === 0 || names.includes(name));
  for (const executable of chosen) {
    print(
      `${executable.name}: ${executable.purpose}; permissions.${executable.permissionSet} of ${executable.member}/deno.json\n`,
    );
    const denoArguments = compileArguments(executable, folders);
    print(`  deno ${denoArguments.join(" ")}\n`);
    if (args.includes("--list")) continue;
    if (await isDenoItself(Deno.env.get("DENORT_BIN"))) return fail(IS_DENO, 1);
    if (!await compile(denoArguments)) return 1;
  }
  return 0;
}

async function compile(args: string[]): Promise<boolean> {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), { args, stdout: "inherit" }).output();
  const text = new TextDecoder().decode(stderr);
  writeAllSync(Deno.stderr, stderr);
  if (!success && /base binary/i.test(text)) fail(NO_BASE_BINARY, 1);
  return success;
}

async function isDenoItself(path: string | undefined): Promise<boolean> {
  if (path === undefined || path === "") return false;
  return await Deno.realPath(path) === await Deno.realPath(Deno.execPath());
}

function formatNames(): string {
  return EXECUTABLES.map(({ name }) => name).join(", ");
}

function print(text: string): void {
  writeAllSync(Deno.stdout, text);
}

function fail(text: string, exitCode: number): number {
  writeAllSync(Deno.stderr, text);
  return exitCode;
}
