import { AppError, errorText } from "@gateway/shared/errors";

/** How a program ended, and what it wrote. */
interface ProgramOutput {
  readonly success: boolean;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a program of this machine to its end, without input; what it says is in English, and in UTF-8.
 *
 * @throws {AppError} `not_supported` where there is no such program
 */
export async function runToEnd(name: string, args: readonly string[]): Promise<ProgramOutput> {
  try {
    const command = new Deno.Command(name, { args: [...args], stdin: "null", env: { LC_ALL: "C.UTF-8" } });
    const { success, stdout, stderr } = await command.output();
    const decoder = new TextDecoder();
    return { success, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
  } catch (cause) {
    throw new AppError("not_supported", `Cannot start ${name}: ${errorText(cause)}`, { cause });
  }
}
