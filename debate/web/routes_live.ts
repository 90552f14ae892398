import { AppError } from "@gateway/shared/errors";
import { z } from "@zod/zod";
import type { LiveRun } from "../runs/live_run.ts";
import { readJson } from "./json_body.ts";
import type { WebPorts } from "./ports.ts";

const MAX_COMMENT = 20_000;

const approvalBody = z.object({ call_id: z.string(), approved: z.boolean() });
const commentBody = z.object({
  comment: z.string().max(MAX_COMMENT, `must not be longer than ${MAX_COMMENT} characters`).default(""),
});
const optionsBody = z.object({
  require_approval: z.boolean().nullish(),
  pause_between_rounds: z.boolean().nullish(),
});

/** `POST /api/runs/{run_id}/approval`: the operator's word about a tool call. */
export async function handleApproval(ports: WebPorts, request: Request, runId: string): Promise<Response> {
  const { call_id, approved } = await readJson(request, approvalBody);
  liveRun(ports, runId).decide(call_id, approved);
  return Response.json({ status: "ok" });
}

/** `POST /api/runs/{run_id}/comment`: what the operator has to say between two rounds. */
export async function handleComment(ports: WebPorts, request: Request, runId: string): Promise<Response> {
  const { comment } = await readJson(request, commentBody);
  liveRun(ports, runId).comment(comment.trim());
  return Response.json({ status: "ok" });
}

/** `POST /api/runs/{run_id}/options`: what is left out stays as it is. */
export async function handleOptions(ports: WebPorts, request: Request, runId: string): Promise<Response> {
  const body = await readJson(request, optionsBody);
  const { requireApproval, pauseBetweenRounds } = liveRun(ports, runId).change({
    ...(typeof body.require_approval === "boolean" && { requireApproval: body.require_approval }),
    ...(typeof body.pause_between_rounds === "boolean" && { pauseBetweenRounds: body.pause_between_rounds }),
  });
  return Response.json({
    status: "ok",
    require_approval: requireApproval,
    pause_between_rounds: pauseBetweenRounds,
  });
}

function liveRun({ manager }: WebPorts, runId: string): LiveRun {
  const run = manager.find(runId);
  if (run === undefined) throw new AppError("not_found", "There is no such run going on");
  return run;
}
