import { AppError } from "@gateway/shared/errors";
import { type Peer, type PeerHandler, readJsonBody } from "@gateway/shared/http";
import { createRouter, routesFor } from "@gateway/shared/http/routes";
import { stringifyJson } from "@gateway/shared/json";
import { checkReason, isHostIdentity, LIST_ONLY } from "@gateway/shared/wire";
import * as z from "@zod/zod";
import { describeRequest, type Execute } from "../request/execute.ts";
import { markedHead, outputText } from "../ssh/output.ts";
import type { Events } from "../request/records.ts";
import { failureClassOf } from "../ssh/failures.ts";
import { guardInput } from "../tools/tool.ts";

const MAX_BODY_BYTES = 65536;

const NOT_LISTED = "caller is not in run_callers of the broker's config";

/** The body of `POST /v1/ssh_run`. `ttl_seconds` 0 means the host's maximum. Unknown fields are dropped. */
const SSH_RUN = z.object({
  host: z.string(),
  command: z.string(),
  ttl_seconds: z.int().default(0),
  sudo: z.boolean().default(false),
  sudo_user: z.string().default(""),
  pty: z.boolean().default(false),
  reason: z.string().default(""),
});

interface HttpFrontendPorts {
  readonly execute: Execute;
  readonly events: Pick<Events, "bestEffort">;
  /** The callers that may run commands; absent: every caller. */
  readonly runCallers?: readonly string[] | undefined;
}

export const BROKER_ROUTES = routesFor<HttpFrontendPorts, { readonly peer: Peer }>()({
  "/v1/ssh_run": { POST: (ports, { request, peer }) => handleRun(ports, request, peer) },
});

export function createHttpFrontend(ports: HttpFrontendPorts): PeerHandler {
  const answer = createRouter(BROKER_ROUTES, ports, { noRoute: "not found" });
  return (request, peer) => {
    if (isHostIdentity(peer.caller)) throw new AppError("forbidden", LIST_ONLY);
    return answer(request, { peer });
  };
}

async function handleRun(
  { execute, events, runCallers }: HttpFrontendPorts,
  request: Request,
  { caller }: Peer,
): Promise<Response> {
  const run = await readJsonBody(request, { maxBytes: MAX_BODY_BYTES, schema: SSH_RUN });
  for (const field of ["host", "command", "sudo_user"] as const) guardInput(field, run[field]);
  checkReason(run.reason, "reason");
  const { ttl_seconds: ttlSeconds, sudo_user: sudoUser, ...same } = run;
  const asked = { ...same, caller, callerGroups: null, ttlSeconds, sudoUser, dryRun: false };
  if (runCallers?.includes(caller) === false) {
    await events.bestEffort({ ...describeRequest(asked), outcome: "denied", err: NOT_LISTED });
    throw new AppError("forbidden", NOT_LISTED);
  }
  const result = await execute(asked, request.signal).catch((error) => {
    throw hideUpstream(error);
  });
  if (result.kind !== "executed") throw new TypeError("A dry run was not asked for");
  const { stdout, stderr, exitCode, serial, warnings } = result;
  // A command that ends with another status than 0 is still a 200.
  const body = {
    stdout: outputText(markedHead(stdout)),
    stderr: outputText(markedHead(stderr)),
    exit_code: exitCode,
    serial,
    ...(warnings.length === 0 ? {} : { warnings }),
  };
  return new Response(stringifyJson(body), { headers: { "content-type": "application/json" } });
}

/** Keeps the failed machine and the details for the log (the cause). */
function hideUpstream(error: unknown): unknown {
  if (!(error instanceof AppError) || error.code !== "upstream_failure") return error;
  const failureClass = failureClassOf(error);
  const text = failureClass === undefined ? "upstream failure" : `upstream failure: ${failureClass}`;
  return new AppError("upstream_failure", text, { cause: error });
}
