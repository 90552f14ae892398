import { isUnsafe, quoteText } from "@gateway/shared/text";
import { AppError, describeFault } from "@gateway/shared/errors";
import { type Peer, readJsonBody } from "@gateway/shared/http";
import { hasAllowlist, toGrantInfo } from "@gateway/shared/policy";
import { formatSubject } from "../live/freezes.ts";
import { formatTimestamp, grantRequest } from "@gateway/shared/wire";
import type { SignerPorts } from "../sign/ports.ts";
import { answer, MAX_ADMIN_BODY_BYTES, requireAdmin } from "./admin.ts";

/** `POST /v1/policy/hosts/{host}/grants`: more allow patterns on one host, for a time. */
export async function handleCreateGrant(
  ports: SignerPorts,
  request: Request,
  peer: Peer,
  host: string,
): Promise<Response> {
  // The trailing blank stands where the id of a grant would: existing queries look for it.
  const about = { command: "grant ", host: isUnsafe(host) ? "" : host };
  await requireAdmin(ports, peer, { ...about, outcome: "grant-denied" });
  const body = await readJsonBody(request, { maxBytes: MAX_ADMIN_BODY_BYTES, schema: grantRequest });
  const record = { ...about, caller: peer.caller, policy_rule: `allow:${body.allow.join(",")}` };
  const refuse = async (error: AppError, outcome = "grant-failed"): Promise<never> => {
    await ports.gate.bestEffort({ ...record, outcome, err: error.message });
    throw error;
  };
  const { config, policy } = ports.state.current;
  const cap = config.max_grant_ttl_seconds;
  if (cap > 0 && body.ttl_seconds > cap) {
    await refuse(new AppError("invalid_request", `ttl_seconds is above the cap of ${cap}`));
  }
  const target = policy.hosts.get(host) ?? policy.clusters.get(host);
  if (target === undefined) {
    return await refuse(new AppError("not_found", `unknown host: ${quoteText(host)}`));
  }
  if (!hasAllowlist(target.commands)) {
    await refuse(
      new AppError("conflict", `host ${quoteText(host)} has no allowlist that a grant could add to`),
    );
  }
  // Its scope may be frozen elsewhere.
  ports.instances.requireFresh();
  const outcome = await ports.live.createGrant({
    host,
    allow: body.allow,
    caller: body.caller,
    endUser: body.end_user,
    ttlSeconds: body.ttl_seconds,
    approver: peer.caller,
  }, {
    made: ({ id }) => ports.gate.require({ ...record, command: `grant ${id}`, outcome: "grant-created" }),
    notStored: ({ id }, error) =>
      ports.gate.bestEffort({
        ...record,
        command: `grant ${id}`,
        outcome: "grant-failed",
        err: `not granted: ${describeFault(error)}`,
      }),
  });
  switch (outcome.kind) {
    case "frozen":
      return await refuse(
        new AppError("conflict", `subject is frozen: ${formatSubject(outcome.freeze)}`),
        "grant-denied",
      );
    case "invalid_pattern":
      return await refuse(new AppError("invalid_request", `invalid regex: ${outcome.problem}`));
    case "created":
      return answer(
        { id: outcome.grant.id, host, expires_at: formatTimestamp(outcome.grant.expiresAt) },
        201,
      );
    default:
      return outcome satisfies never;
  }
}

/** `GET /v1/policy/grants`: the active grants and waivers. */
export async function handleListGrants(ports: SignerPorts, peer: Peer): Promise<Response> {
  await requireAdmin(ports, peer, { command: "grants-read", outcome: "policy-read-denied" });
  ports.instances.requireFresh();
  return answer(ports.live.listGrants().map(toGrantInfo));
}

/** `DELETE /v1/policy/grants/{id}`: takes a grant or waiver back at once. */
export async function handleRevokeGrant(ports: SignerPorts, peer: Peer, id: string): Promise<Response> {
  if (isUnsafe(id)) throw new AppError("invalid_request", "invalid grant id");
  const command = `grant ${id}`;
  await requireAdmin(ports, peer, { command, outcome: "grant-denied" });
  const record = { caller: peer.caller, command };
  // It may have been made elsewhere a moment ago.
  await ports.instances.caughtUp();
  const wasActive = await ports.live.revokeGrant(id, {
    made: () => ports.gate.require({ ...record, outcome: "grant-revoked" }),
    notStored: (_, error) =>
      ports.gate.bestEffort({
        ...record,
        outcome: "grant-failed",
        err: `not revoked, still in force: ${describeFault(error)}`,
      }),
  });
  if (!wasActive) {
    const err = `unknown grant: ${quoteText(id)}`;
    await ports.gate.bestEffort({ ...record, outcome: "grant-failed", err });
    throw new AppError("not_found", err);
  }
  await ports.instances.settled();
  return answer({ status: "ok", id });
}
