import { poll } from "../stage/poll.ts";
import { post, type Stage } from "../stage/stage.ts";
import type { ToolAnswer } from "./session_client.ts";

/** Decides all approvals that a pending call causes. Returns their hosts and commands. */
export async function decideAll(
  stage: Stage,
  call: Promise<ToolAnswer>,
  approve: boolean,
): Promise<readonly string[]> {
  const approver = await stage.controlPlaneClient("approver");
  const asked: string[] = [];
  let isOver = false;
  call.finally(() => isOver = true);
  await poll(async () => {
    const { body } = await approver.request({ method: "GET", path: "/v1/approvals" });
    for (const { id, host, command, status } of body as readonly Record<string, string>[]) {
      if (status !== "pending") continue;
      await post(approver, `/v1/approvals/${id}`, { approve });
      asked.push(`${host} ${command}`.trim());
    }
    return isOver;
  }, { what: "the call to be answered" });
  return asked;
}
