import { AppError } from "@gateway/shared/errors";
import { createRouter, routesFor } from "@gateway/shared/http/routes";
import { type Peer, type PeerHandler, readJsonBody } from "@gateway/shared/http";
import { stringifyJson } from "@gateway/shared/json";
import { checkReason, isHostIdentity, LIST_ONLY } from "@gateway/shared/wire";
import { sshRunRequest, type SshRunResponse } from "./ssh_run.ts";
import type { Events } from "../request/records.ts";
import { describeRequest, type Execute, type ExecuteResult } from "../request/execute.ts";
import { failureClassOf } from "../ssh/failures.ts";
import { markedHead, outputText } from "../ssh/output.ts";
import { guardInput } from "../tools/tool.ts";

/** The largest request body, in bytes. */
const MAX_BODY_BYTES = 65536;

const NOT_LISTED = "caller is not in run_callers of the broker's config";

/** What the plain HTTP frontend needs of a broker. */
interface HttpFrontendPorts {
  readonly execute: Execute;
  readonly events: Pick<Events, "bestEffort">;
  /** The callers that may run commands; absent: every caller. */
  readonly runCallers?: readonly string[] | undefined;
}

/** The routes of the plain HTTP frontend. */
export const BROKER_ROUTES = routesFor<HttpFrontendPorts, { readonly peer: Peer }>()({
  "/v1/ssh_run": { POST: (ports, { request, peer }) => handleRun(ports, request, peer) },
});

/** The plain HTTP frontend: `POST /v1/ssh_run` for agents with a client certificate. */
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
  const run = await readJsonBody(request, { maxBytes: MAX_BODY_BYTES, schema: sshRunRequest });
  for (const field of ["host", "command", "sudo_user"] as const) guardInput(field, run[field]);
  checkReason(run.reason, "reason");
  const asked = {
    caller,
    callerGroups: null,
    host: run.host,
    command: run.command,
    ttlSeconds: run.ttl_seconds,
    sudo: run.sudo,
    sudoUser: run.sudo_user,
    pty: run.pty,
    dryRun: false,
    reason: run.reason,
  };
  if (runCallers?.includes(caller) === false) {
    await events.bestEffort({ ...describeRequest(asked), outcome: "denied", err: NOT_LISTED });
    throw new AppError("forbidden", NOT_LISTED);
  }
  try {
    return respond(await execute(asked, request.signal));
  } catch (error) {
    // The listener turns faults into answers, and logs them under a request id.
    throw hideUpstream(error);
  }
}

function respond(result: ExecuteResult): Response {
  if (result.kind !== "executed") throw new TypeError("A dry run was not asked for");
  const body: SshRunResponse = {
    stdout: outputText(markedHead(result.stdout)),
    stderr: outputText(markedHead(result.stderr)),
    exit_code: result.exitCode,
    serial: result.serial,
    ...(result.warnings.length === 0 ? {} : { warnings: result.warnings }),
  };
  return new Response(stringifyJson(body), { headers: { "content-type": "application/json" } });
}

/** Which machine behind the broker failed, and how exactly, is for the log (the cause). */
function hideUpstream(error: unknown): unknown {
  if (!(error instanceof AppError) || error.code !== "upstream_failure") return error;
  const failureClass = failureClassOf(error);
  const text = failureClass === undefined ? "upstream failure" : `upstream failure: ${failureClass}`;
  return new AppError("upstream_failure", text, { cause: error });
}
