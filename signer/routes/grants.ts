import { isSameIdentity, isUnsafe, quoteText } from "@gateway/shared/text";
import { AppError, staleError } from "@gateway/shared/errors";
import { type Grant, hasAllowlist, mayUseSome, toGrantInfo } from "@gateway/shared/policy";
import { formatSubject, listRevocations } from "../live/freezes.ts";
import { formatTimestamp, freezeRequest, grantRequest, unfreezeRequest } from "@gateway/shared/wire";
import { namesOf } from "../config/snapshot.ts";
import type { Authority, Call } from "../sign/authority.ts";
import { answer, changeRecords, readAdminBody, requireAdmin } from "./admin.ts";
import type { FreezeFacts } from "../live/live_state.ts";

/**
 * `POST /v1/policy/hosts/{host}/grants`: adds allow patterns to a host or cluster for a limited time. Callers:
 * `reload_callers`.
 *
 * @throws {AppError} `invalid_request` if a pattern is invalid, or `ttl_seconds` is above `max_grant_ttl_seconds`
 * @throws {AppError} `not_found` if the host is unknown
 * @throws {AppError} `conflict` if the host has no allowlist, or the caller or end user of the grant is frozen
 */
export async function handleCreateGrant(authority: Authority, call: Call<"host">): Promise<Response> {
  const { peer } = call;
  const host = call.param("host");
  // The trailing space precedes the ID of a grant: existing queries match it.
  const names = namesOf(authority.state.current, host);
  const about = { command: "grant ", host: isUnsafe(host) ? "" : host, ...names };
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
  // Another instance may have frozen the scope of the grant.
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

/** `GET /v1/policy/grants`: lists the active grants and waivers. Callers: `reload_callers`. */
export async function handleListGrants(authority: Authority, { peer }: Call): Promise<Response> {
  await requireAdmin(authority, peer, { command: "grants-read", outcome: "policy-read-denied" });
  authority.instances.requireFresh();
  return answer(authority.live.listGrants().map(toGrantInfo));
}

/**
 * `DELETE /v1/policy/grants/{id}`: revokes a grant or waiver. Callers: `reload_callers`.
 *
 * @throws {AppError} `invalid_request` if the ID contains spaces or control characters
 * @throws {AppError} `not_found` if no such grant is active
 */
export async function handleRevokeGrant(
  authority: Authority,
  { peer, param }: Call<"id">,
): Promise<Response> {
  const id = param("id");
  if (isUnsafe(id)) throw new AppError("invalid_request", "invalid grant id");
  const command = `grant ${id}`;
  await requireAdmin(authority, peer, { command, outcome: "grant-denied" });
  const record = { caller: peer.caller, command };
  // Another instance may have just created the grant.
  await authority.instances.caughtUp();
  const records = changeRecords(
    authority,
    ({ host }: Grant) => ({ ...record, ...namesOf(authority.state.current, host) }),
    {
      made: "grant-revoked",
      failed: "grant-failed",
      problem: () => "not revoked, still in force",
    },
  );
  const wasActive = await authority.live.revokeGrant(id, records);
  if (!wasActive) {
    const err = `unknown grant: ${quoteText(id)}`;
    await authority.gate.bestEffort({ ...record, outcome: "grant-failed", err });
    throw new AppError("not_found", err);
  }
  await authority.instances.settled();
  return answer({ status: "ok", id });
}

/**
 * `POST /v1/freeze`: freezes a caller, an end user, a session or a serial. The signer rejects their requests, revokes
 * their grants, certificates and tokens, and brokers end their sessions. Callers: `reload_callers`.
 *
 * @throws {AppError} `conflict` if a restart would undo the freeze, because there is no `state_db`; `allow_volatile` accepts that
 * @throws {AppError} `state_stale` if the subject is frozen at this signer only; send the request again
 */
export async function handleFreeze(authority: Authority, call: Call): Promise<Response> {
  const { caller } = call.peer;
  const denied = { command: "freeze", outcome: "policy-denied" };
  const body = await readAdminBody(authority, call, denied, freezeRequest);
  if (!authority.live.survivesRestart && !body.allow_volatile) {
    throw new AppError(
      "conflict",
      "A restart would undo the freeze: set state_db, or send allow_volatile (broker-ctl --volatile)",
    );
  }
  const { kind, value, reason } = body;
  const suffix = reason === "" ? "" : ` reason=${reason}`;
  const records = changeRecords(authority, ({ grantsRevoked }: FreezeFacts) => ({
    caller,
    command: `frozen kind=${kind} value=${value} grants_revoked=${grantsRevoked}${suffix}`,
  }), { made: "frozen", failed: "policy-failed", problem: () => "in force, but a restart undoes it" });
  const outcome = await authority.live.freeze({ kind, value, reason, frozenBy: caller }, records);
  if (authority.instances.isShared && outcome.kept === "memory") {
    const problem = "is frozen at this signer only: the database did not store the freeze";
    throw staleError(`${formatSubject(body)} ${problem}`);
  }
  // Every instance now denies requests of the subject and has stored its issued certificates, so that all of
  // them are revoked.
  const silent = await authority.instances.settled();
  const revocation = body.kind === "session_id"
    ? undefined
    : await authority.krl.revoke([{ kind: body.kind, value }]);
  const tokens = await authority.leases.revoke(body);
  return answer({
    status: "ok",
    newly_frozen: outcome.newlyFrozen,
    grants_revoked: outcome.grantsRevoked,
    ...(revocation !== undefined && authority.state.current.envelopeKey !== undefined &&
      { certificates_revoked: revocation.revoked, krl_version: revocation.version }),
    ...(authority.state.current.policy.clusters.size > 0 && { tokens_revoked: tokens }),
    ...(silent.length > 0 && { silent_signers: silent }),
    persisted: outcome.kept === "memory" || revocation?.persisted === false ? false : undefined,
    warning: authority.knownSubjects.warningFor(body),
  });
}

/** `POST /v1/unfreeze`: lifts a freeze. Revoked certificates and grants stay revoked. Callers: `reload_callers`. */
export async function handleUnfreeze(authority: Authority, call: Call): Promise<Response> {
  const denied = { command: "unfreeze", outcome: "policy-denied" };
  const subject = await readAdminBody(authority, call, denied, unfreezeRequest);
  const command = `unfrozen kind=${subject.kind} value=${subject.value}`;
  const records = changeRecords(authority, () => ({ caller: call.peer.caller, command }), {
    made: "unfrozen",
    failed: "policy-failed",
    problem: ({ wasFrozen }: { readonly wasFrozen: boolean }) =>
      `${wasFrozen ? "still" : "not"} frozen, nothing has changed`,
  });
  const wasFrozen = await authority.live.unfreeze(subject, records);
  return answer({ status: "ok", was_frozen: wasFrozen });
}

/**
 * `GET /v1/revocations`: lists the freezes. Admins also see who froze and why. A broker sees the freezes of itself, of
 * end users, sessions and serials; a caller without hosts and clusters sees its own. Callers: all.
 */
export function handleRevocations(authority: Authority, { peer: { caller } }: Call): Response {
  authority.instances.requireFresh();
  const { reloadCallers, trustedForwarders, policy } = authority.state.current;
  const entries = listRevocations(
    authority.live.view.freezes,
    reloadCallers.has(caller) ? "admin" : "caller",
  );
  if (reloadCallers.has(caller) || trustedForwarders.has(caller)) return answer(entries);
  const isBroker = mayUseSome(policy, caller);
  return answer(
    entries.filter(({ kind, value }) => kind === "caller" ? isSameIdentity(value, caller) : isBroker),
  );
}
