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

/** The body of `POST /v1/ssh_run`. Unknown fields are dropped. */
export const SSH_RUN = z.object({
  host: z.string().describe("The logical name of the host"),
  command: z.string().describe("One line of POSIX shell"),
  ttl_seconds: z.int().default(0).describe("The lifetime of the certificate; 0 means the host's maximum"),
  sudo: z.boolean().default(false).describe("Run the command with sudo -n"),
  sudo_user: z.string().default("").describe("The account for sudo; empty means root"),
  pty: z.boolean().default(false).describe("Run the command in a terminal; stderr is part of stdout"),
  reason: z.string().default("").describe("For the human approver, at most 500 characters"),
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

/**
 * `POST /v1/ssh_run`: runs one command on a host and returns its output. A command that fails is still a 200, with its
 * exit code. Callers: `run_callers`; without this list all callers.
 *
 * @throws {AppError} `invalid_request` if a field is invalid or too long
 * @throws {AppError} `denied` if the policy or an approver denies the command
 * @throws {AppError} `approval_required` if a human has to approve, and has not decided in time
 * @throws {AppError} `frozen` if the broker or the caller is frozen
 * @throws {AppError} `unknown_host` if the broker has no host of this name
 * @throws {AppError} `rate_limited` if the signer limits the broker, or too many calls wait for approval
 * @throws {AppError} `upstream_failure` if the signer, the control plane or the host could not be reached
 * @throws {AppError} `canceled` if the client disconnected
 */
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
