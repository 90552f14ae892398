/**
 * `gateway`: one program with the broker, all its frontends, and `init` of `broker-ctl`. It belongs to no member,
 * because members must not import each other and it uses two of them.
 *
 * @module
 */
import { writeAllSync } from "@gateway/shared/text";
import { runGateway } from "../broker/main.ts";

const SANDBOXED = "gateway: cannot run init: this program has only the permissions of the broker\n" +
  "  fix: broker-ctl init\n";

const out = (text: string) => writeAllSync(Deno.stdout, text);
const err = (text: string) => writeAllSync(Deno.stderr, text);

/** Runs `init` of `broker-ctl`, whose libraries are loaded only here. */
async function init(args: readonly string[]): Promise<number> {
  const { runProgram } = await import("../ctl/program.ts");
  const workingFolder = findWorkingFolder();
  const code = workingFolder === undefined
    ? 1
    : await runProgram(["init", ...args], { terminal: { out, err }, workingFolder, variables: {} });
  const needed = [{ name: "read" }, { name: "write" }, { name: "sys", kind: "uid" }] as const;
  const mayInit = needed.every((each) => Deno.permissions.querySync(each).state === "granted");
  if (code === 0 || mayInit) return code;
  err(SANDBOXED);
  return 1;
}

function findWorkingFolder(): string | undefined {
  try {
    return Deno.cwd();
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) return undefined;
    throw error;
  }
}

if (import.meta.main) Deno.exit(await runGateway(Deno.args, init));
