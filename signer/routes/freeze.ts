import { AppError, describeFault } from "@gateway/shared/errors";
import { type Peer, readJsonBody } from "@gateway/shared/http";
import { isSameIdentity } from "@gateway/shared/text";
import { mayUseSome } from "@gateway/shared/policy";
import { formatSubject, listRevocations } from "../live/freezes.ts";
import { type FreezeRequest, freezeRequest, unfreezeRequest } from "@gateway/shared/wire";
import type { FreezeFacts } from "../live/live_state.ts";
import type { SignerPorts } from "../sign/ports.ts";
import { answer, MAX_ADMIN_BODY_BYTES, requireAdmin } from "./admin.ts";

/** `POST /v1/freeze`: the kill switch. */
export async function handleFreeze(ports: SignerPorts, request: Request, peer: Peer): Promise<Response> {
  await requireAdmin(ports, peer, { command: "freeze", outcome: "policy-denied" });
  const body = await readJsonBody(request, { maxBytes: MAX_ADMIN_BODY_BYTES, schema: freezeRequest });
  if (!ports.live.survivesRestart && !body.allow_volatile) {
    throw new AppError(
      "conflict",
      "A freeze would be gone with the process: set state_db, or send allow_volatile (broker-ctl --volatile)",
    );
  }
  const { kind, value, reason } = body;
  const recordOf = ({ grantsRevoked }: FreezeFacts) => ({
    caller: peer.caller,
    command: describeFreeze(body, grantsRevoked),
  });
  const outcome = await ports.live.freeze({ kind, value, reason, frozenBy: peer.caller }, {
    made: (facts) => ports.gate.require({ ...recordOf(facts), outcome: "frozen" }),
    notStored: (facts, error) =>
      ports.gate.bestEffort({
        ...recordOf(facts),
        outcome: "policy-failed",
        err: `in force, but a restart undoes it: ${describeFault(error)}`,
      }),
  });
  if (ports.instances.isShared && outcome.kept === "memory") {
    throw new AppError(
      "state_stale",
      `${
        formatSubject(body)
      } is frozen at this signer, and not yet at the others: the database could not take it`,
      { retryAfterSeconds: 1 },
    );
  }
  // Every instance refuses, and has stored what it has issued: all of it is revoked.
  const silent = await ports.instances.settled();
  const revocation = body.kind === "session_id"
    ? undefined
    : await ports.krl.revoke([{ kind: body.kind, value }]);
  const tokens = await ports.leases.revoke(body);
  return answer({
    status: "ok",
    newly_frozen: outcome.newlyFrozen,
    grants_revoked: outcome.grantsRevoked,
    ...(revocation !== undefined && ports.state.current.envelopeKey !== undefined &&
      { certificates_revoked: revocation.revoked, krl_version: revocation.version }),
    ...(ports.state.current.policy.clusters.size > 0 && { tokens_revoked: tokens }),
    ...(silent.length > 0 && { silent_signers: silent }),
    persisted: outcome.kept === "memory" || revocation?.persisted === false ? false : undefined,
    warning: ports.knownSubjects.warningFor(body),
  });
}

/** `POST /v1/unfreeze`. */
export async function handleUnfreeze(ports: SignerPorts, request: Request, peer: Peer): Promise<Response> {
  await requireAdmin(ports, peer, { command: "unfreeze", outcome: "policy-denied" });
  const subject = await readJsonBody(request, { maxBytes: MAX_ADMIN_BODY_BYTES, schema: unfreezeRequest });
  const record = { caller: peer.caller, command: `unfrozen kind=${subject.kind} value=${subject.value}` };
  const wasFrozen = await ports.live.unfreeze(subject, {
    made: () => ports.gate.require({ ...record, outcome: "unfrozen" }),
    notStored: ({ wasFrozen }, error) =>
      ports.gate.bestEffort({
        ...record,
        outcome: "policy-failed",
        err: `${wasFrozen ? "still" : "not"} frozen, nothing has changed: ${describeFault(error)}`,
      }),
  });
  return answer({ status: "ok", was_frozen: wasFrozen });
}

/**
 * `GET /v1/revocations`: all that is frozen for forwarders, and for admins also who froze it and why. A broker receives
 * what its sessions can be about, and no other caller's freeze; a CN that may use no host or cluster receives its own.
 */
export function handleRevocations(ports: SignerPorts, { caller }: Peer): Response {
  ports.instances.requireFresh();
  const { reloadCallers, trustedForwarders, policy } = ports.state.current;
  const entries = listRevocations(ports.live.view.freezes, reloadCallers.has(caller) ? "admin" : "caller");
  if (reloadCallers.has(caller) || trustedForwarders.has(caller)) return answer(entries);
  const isBroker = mayUseSome(policy, caller);
  return answer(
    entries.filter(({ kind, value }) => kind === "caller" ? isSameIdentity(value, caller) : isBroker),
  );
}

function describeFreeze({ kind, value, reason }: FreezeRequest, grantsRevoked: number): string {
  const suffix = reason === "" ? "" : ` reason=${reason}`;
  return `frozen kind=${kind} value=${value} grants_revoked=${grantsRevoked}${suffix}`;
}
