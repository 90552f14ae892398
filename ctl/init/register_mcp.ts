import { errorText } from "@gateway/shared/errors";
import { shellQuote, visibleText } from "@gateway/shared/text";
import { runToEnd } from "../run_program.ts";
import type { CommandLine } from "./guide.ts";

/** Whether a client knows the broker now, and what to say of it. */
interface Registration {
  readonly registered: boolean;
  readonly lines: readonly string[];
}

/** Has the `claude` of this machine take up the broker as an MCP server; a failure leaves the set-up as it is. */
export async function registerMcp({ command, args }: CommandLine): Promise<Registration> {
  const words = ["mcp", "add", "gateway", "--", command, ...args];
  const failure = await tryToRegister(words);
  if (failure === undefined) {
    return { registered: true, lines: ["claude has the broker as the MCP server gateway now."] };
  }
  return {
    registered: false,
    lines: [
      `claude did not take the broker as an MCP server: ${visibleText(failure)}`,
      "When that is mended:",
      `   claude ${words.map(shellQuote).join(" ")}`,
    ],
  };
}

async function tryToRegister(words: readonly string[]): Promise<string | undefined> {
  try {
    const { success, stdout, stderr } = await runToEnd("claude", words);
    return success ? undefined : `${stdout}${stderr}`.trim().split("\n").at(-1);
  } catch (error) {
    return errorText(error);
  }
}
