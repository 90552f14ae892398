import { AppError } from "@gateway/shared/errors";
import { readJsonBody } from "@gateway/shared/http/body";
import type { Peer, PeerHandler } from "@gateway/shared/http/mtls_server";
import { problemResponse } from "@gateway/shared/http/problem";
import { stringifyJson } from "@gateway/shared/json";
import { sshRunRequest, type SshRunResponse } from "./ssh_run.ts";
import { Hono } from "@hono/hono";
import type { Execute, ExecuteResult } from "../execute.ts";
import { approvalRequired } from "../obtain.ts";
import { guardInput } from "../tools/input_guard.ts";

/** The largest request body, in bytes. */
const MAX_BODY_BYTES = 65536;

/** The plain HTTP frontend: `POST /v1/ssh_run` for agents with a client certificate. */
export function createHttpFrontend(execute: Execute): PeerHandler {
  const app = new Hono<{ Bindings: Peer }>();
  app.post("/v1/ssh_run", async (context) => {
    const request = await readJsonBody(context.req.raw, { maxBytes: MAX_BODY_BYTES, schema: sshRunRequest });
    for (const field of ["host", "command", "sudo_user"] as const) guardInput(field, request[field]);
    const result = await execute({
      caller: context.env.caller,
      callerGroups: null,
      host: request.host,
      command: request.command,
      ttlSeconds: request.ttl_seconds,
      sudo: request.sudo,
      sudoUser: request.sudo_user,
      pty: request.pty,
      dryRun: false,
    }, context.req.raw.signal);
    return respond(request.host, result);
  });
  app.all("/v1/ssh_run", () => {
    const error = new AppError("method_not_allowed", "method not allowed");
    return problemResponse(error, { allow: ["POST"] });
  });
  app.notFound(() => problemResponse(new AppError("not_found", "not found")));
  // The listener turns faults into answers, and logs them under a request id.
  app.onError((error) => {
    throw hideUpstream(error);
  });
  return (request, peer) => app.fetch(request, peer);
}

function respond(host: string, result: ExecuteResult): Response {
  switch (result.kind) {
    case "executed":
      return respondExecuted(result);
    case "needs_approval":
      throw approvalRequired(host, result.rule);
    case "decided":
      throw new TypeError("A dry run was not asked for");
    default:
      return result satisfies never;
  }
}

function respondExecuted(result: Extract<ExecuteResult, { kind: "executed" }>): Response {
  const body: SshRunResponse = {
    stdout: result.stdout,
    stderr: result.stderr,
    exit_code: result.exitCode,
    serial: result.serial,
    ...(result.warnings.length === 0 ? {} : { warnings: result.warnings }),
  };
  return new Response(stringifyJson(body), { headers: { "content-type": "application/json" } });
}

/** Which machine behind the broker failed, and how, is for the log (the cause). */
function hideUpstream(error: Error): Error {
  if (!(error instanceof AppError) || error.code !== "upstream_failure") return error;
  return new AppError("upstream_failure", "upstream failure", { cause: error });
}
