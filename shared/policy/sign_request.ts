/**
 * What policy and audit log make of a sign request.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { describeSignRequest, intentOf } from "@gateway/shared/policy";
 * import { signRequest } from "@gateway/shared/wire";
 *
 * const request = signRequest.parse({ host: "web01", role: "target", purpose: "oneshot", command: "uptime" });
 * assert.equal(intentOf(request, "broker-1").caller, "broker-1");
 * assert.equal(describeSignRequest(request), "role=target purpose=oneshot");
 * ```
 *
 * @module
 */
import type { SignRequest } from "../wire/sign.ts";
import type { SshIntent } from "./ssh_decision.ts";
import { elevationLabel } from "./elevation.ts";

/** The intent that is decided about, of the effective caller. */
export function intentOf(request: SignRequest, caller: string): SshIntent {
  return {
    caller,
    endUser: request.end_user,
    endUserGroups: request.end_user_groups,
    host: request.host,
    role: request.role,
    purpose: request.purpose,
    sessionMode: request.session_mode,
    command: request.command,
    ttlSeconds: request.ttl_seconds,
    sudo: request.sudo,
    sudoUser: request.sudo_user,
    pty: request.pty,
    fileTransfer: request.file_transfer,
    contentSha256: request.content_sha256,
  };
}

/** The record's `command`, exactly as the reference writes it: never the command itself. */
export function describeSignRequest(request: SignRequest): string {
  const tokens = [`role=${request.role}`, `purpose=${request.purpose}`];
  if (request.session_mode !== "") tokens.push(`session_mode=${request.session_mode}`);
  if (request.end_user !== "") tokens.push(`user=${request.end_user}`);
  if (request.sudo) tokens.push(`elev=${elevationLabel(request.sudo, request.sudo_user)}`);
  if (request.pty) tokens.push("pty=1");
  if (request.file_transfer) tokens.push("ft=1");
  return tokens.join(" ");
}

/** What the records of a request have in `ext`. */
export function factsOfRequest(
  { command, content_sha256, host, reason, session_id }: SignRequest,
):
  & Pick<SignRequest, "content_sha256" | "reason" | "session_id">
  & Record<"command_line" | "host_name", string> {
  return { command_line: command, content_sha256, host_name: host, reason, session_id };
}

/** The record's `command` for a cluster, exactly as the reference writes it: from the request's fields. */
export function describeClusterRequest(request: SignRequest): string {
  const { k8s_verb, k8s_resource, k8s_group, k8s_namespace, k8s_name } = request;
  const tokens = [
    "target=k8s",
    `verb=${k8s_verb}`,
    `resource=${k8s_group === "" ? k8s_resource : `${k8s_resource}.${k8s_group}`}`,
    `ns=${k8s_namespace || "-"}`,
    `name=${k8s_name || "-"}`,
  ];
  if (request.end_user !== "") tokens.push(`user=${request.end_user}`);
  return tokens.join(" ");
}
