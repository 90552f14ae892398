import * as z from "@zod/zod";
import { isSecretFile } from "../context/secret_files.ts";
import type { Argument } from "./argv.ts";
import { defineTool, describeRun, refuse, timeoutArgument, type ToolServices } from "./define_tool.ts";
import { checkCommand, PROGRAM_RULES } from "./program_rules.ts";
import type { RunProgram } from "./run_program.ts";
import type { Tool } from "../engine/ports.ts";

/** The folders that may be read. */
export interface ReadableFolders {
  /** Real paths; the first is where programs run. */
  roots(): Promise<readonly string[]>;
  /** The real path, if it is within a root. */
  find(path: string): Promise<string | undefined>;
}

const schema = z.strictObject({
  command: z.string().min(1).describe(
    "one program with its arguments; there is no shell, so no pipes and no redirects",
  ),
  timeout: timeoutArgument(15),
});

export function createRunLocalCommand(
  { runProgram, folders }: { readonly runProgram: RunProgram; readonly folders: ReadableFolders },
  services: ToolServices,
): Tool {
  return defineTool({
    name: "run_local_command",
    description:
      `Runs a read-only diagnostic program on the machine of this service: ${
        Object.keys(PROGRAM_RULES).join(", ")
      }. ` +
      "Only options that read are possible, and only files in the folders that the operator allowed.",
    schema,
    async run({ command }, call) {
      const { program, args: checked } = checkCommand(command);
      const [cwd] = await folders.roots();
      if (cwd === undefined) refuse("None of the folders in ALLOWED_PROJECT_ROOTS exists");
      const args = await Promise.all(checked.map((argument) => resolveArgument(argument, cwd, folders)));
      const result = await runProgram({ program, args, cwd, signal: call.signal });
      return describeRun(command, program, result, call);
    },
  }, services);
}

async function resolveArgument(
  { kind, text }: Argument,
  cwd: string,
  folders: ReadableFolders,
): Promise<string> {
  if (kind === "word") return text;
  const path = await folders.find(text.startsWith("/") ? text : `${cwd}/${text}`);
  if (path === undefined) {
    refuse(`${JSON.stringify(text)} does not exist, or is not within the folders of ALLOWED_PROJECT_ROOTS`);
  }
  if (isSecretFile(path)) refuse(`${JSON.stringify(text)} may hold secrets and is not read`);
  return path;
}
