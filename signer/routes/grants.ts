import { isUnsafe, quoteText } from "@gateway/shared/text";
import { AppError } from "@gateway/shared/errors";
import { type Grant, hasAllowlist, toGrantInfo } from "@gateway/shared/policy";
import { formatSubject } from "../live/freezes.ts";
import { formatTimestamp, grantRequest } from "@gateway/shared/wire";
import type { Authority, Call } from "../sign/authority.ts";
import { answer, changeRecords, readAdminBody, requireAdmin } from "./admin.ts";

/** `POST /v1/policy/hosts/{host}/grants`: more allow patterns on one host, for a time. */
export async function handleCreateGrant(authority: Authority, call: Call<"host">): Promise<Response> {
  const { peer } = call;
  const host = call.param("host");
  // The trailing space stands for the id of a grant: existing queries look for it.
  const about = { command: "grant ", host: isUnsafe(host) ? "" : host };
  const body = await readAdminBody(authority, call, { ...about, outcome: "grant-denied" }, grantRequest);
  const record = { ...about, caller: peer.caller, policy_rule: `allow:${body.allow.join(",")}` };
  const refuse = async (error: AppError, outcome = "grant-failed"): Promise<never> => {
    await authority.gate.bestEffort({ ...record, outcome, err: error.message });
    throw error;
  };
  const { config, policy } = authority.state.current;
  const cap = config.max_grant_ttl_seconds;
  if (cap > 0 && body.ttl_seconds > cap) {
    await refuse(new AppError("invalid_request", `ttl_seconds is above the cap of ${cap}`));
  }
  const target = policy.hosts.get(host) ?? policy.clusters.get(host);
  if (target === undefined) {
    return await refuse(new AppError("not_found", `unknown host: ${quoteText(host)}`));
  }
  if (!hasAllowlist(target.commands)) {
    const problem = `host ${quoteText(host)} has no allowlist that a grant could add to`;
    await refuse(new AppError("conflict", problem));
  }
  // Another instance may have frozen its scope.
  authority.instances.requireFresh();
  const { allow, caller, end_user: endUser, ttl_seconds: ttlSeconds } = body;
  const records = changeRecords(authority, ({ id }: Grant) => ({ ...record, command: `grant ${id}` }), {
    made: "grant-created",
    failed: "grant-failed",
    problem: () => "not granted",
  });
  const draft = { host, allow, caller, endUser, ttlSeconds, approver: peer.caller };
  const outcome = await authority.live.createGrant(draft, records);
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
export async function handleListGrants(authority: Authority, { peer }: Call): Promise<Response> {
  await requireAdmin(authority, peer, { command: "grants-read", outcome: "policy-read-denied" });
  authority.instances.requireFresh();
  return answer(authority.live.listGrants().map(toGrantInfo));
}

/** `DELETE /v1/policy/grants/{id}`. */
export async function handleRevokeGrant(
  authority: Authority,
  { peer, param }: Call<"id">,
): Promise<Response> {
  const id = param("id");
  if (isUnsafe(id)) throw new AppError("invalid_request", "invalid grant id");
  const command = `grant ${id}`;
  await requireAdmin(authority, peer, { command, outcome: "grant-denied" });
  const record = { caller: peer.caller, command };
  // Another instance may have made the grant a moment ago.
  await authority.instances.caughtUp();
  const records = changeRecords(authority, () => record, {
    made: "grant-revoked",
    failed: "grant-failed",
    problem: () => "not revoked, still in force",
  });
  const wasActive = await authority.live.revokeGrant(id, records);
  if (!wasActive) {
    const err = `unknown grant: ${quoteText(id)}`;
    await authority.gate.bestEffort({ ...record, outcome: "grant-failed", err });
    throw new AppError("not_found", err);
  }
  await authority.instances.settled();
  return answer({ status: "ok", id });
}
