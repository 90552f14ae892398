import { AppError } from "@gateway/shared/errors";
import { isSameIdentity } from "@gateway/shared/text";
import { mayUseSome } from "@gateway/shared/policy";
import { formatSubject, listRevocations } from "../live/freezes.ts";
import { freezeRequest, unfreezeRequest } from "@gateway/shared/wire";
import type { FreezeFacts } from "../live/live_state.ts";
import type { Authority, Call } from "../sign/authority.ts";
import { answer, changeRecords, readAdminBody } from "./admin.ts";

/** `POST /v1/freeze`: the kill switch. */
export async function handleFreeze(authority: Authority, call: Call): Promise<Response> {
  const { caller } = call.peer;
  const denied = { command: "freeze", outcome: "policy-denied" };
  const body = await readAdminBody(authority, call, denied, freezeRequest);
  if (!authority.live.survivesRestart && !body.allow_volatile) {
    throw new AppError(
      "conflict",
      "A freeze would be gone with the process: set state_db, or send allow_volatile (broker-ctl --volatile)",
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
    const problem = "is frozen at this signer, and not yet at the others: the database could not take it";
    throw new AppError("state_stale", `${formatSubject(body)} ${problem}`, { retryAfterSeconds: 1 });
  }
  // Every instance denies now, and has stored the certificates that it has issued: all of them are revoked.
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

/** `POST /v1/unfreeze`. */
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
 * `GET /v1/revocations`: all that is frozen for forwarders, and for admins also who froze it and why. A broker receives
 * what its sessions can be about, and no other caller's freeze; a CN that may use no host or cluster receives its own.
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
