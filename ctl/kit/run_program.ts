import { AppError, errorText } from "@gateway/shared/errors";

/** Runs a program without input, with output in English. */
export async function runToEnd(name: string, args: readonly string[]) {
  try {
    const command = new Deno.Command(name, { args: [...args], stdin: "null", env: { LC_ALL: "C.UTF-8" } });
    const { success, stdout, stderr } = await command.output();
    const decoder = new TextDecoder();
    return { success, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
  } catch (cause) {
    throw new AppError("not_supported", `Cannot start ${name}: ${errorText(cause)}`, { cause });
  }
}
