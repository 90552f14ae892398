import * as z from "@zod/zod";
import type { Sessions } from "../sessions/sessions.ts";
import { defineTool, type Tool } from "./tool.ts";

export function createSshSessionCloseTool({ sessions }: { readonly sessions: Sessions }): Tool {
  return defineTool({
    name: "ssh_session_close",
    title: "Close a session",
    description: "Close a session that you opened. A command that still runs in it is interrupted.",
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
    input: z.strictObject({ session_id: z.string().describe("As ssh_session_open returned it") }),
    output: z.strictObject({ ok: z.boolean() }),
    guarded: ["session_id"],
    async handle({ session_id: sessionId }, { caller, signal }) {
      await sessions.close({ caller, sessionId }, signal);
      return { text: "closed", structured: { ok: true } };
    },
  });
}
