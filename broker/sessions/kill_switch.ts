import { type Clock, every } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { readProblem } from "@gateway/shared/http";
import type { Metrics, ServiceLogger } from "@gateway/shared/service";
import { isSameIdentity } from "@gateway/shared/text";
import { MAX_REVOKED, type RevocationEntry, revocationList } from "@gateway/shared/wire";
import type { SignerClient } from "../authority/authority.ts";
import { readList } from "../authority/remote.ts";
import type { SessionRegistry } from "./registry.ts";
import { serialsOf, type SessionInfo } from "./session.ts";

interface KillSwitchPorts {
  readonly signer: SignerClient;
  readonly registry: Pick<SessionRegistry, "kill" | "reject">;
  readonly clock: Clock;
  readonly seconds: number;
  /** The signer's name of this broker. A freeze of it ends every session. */
  readonly brokerCn: string;
  readonly metrics: Pick<Metrics, "counter" | "gauge">;
  readonly logger: Pick<ServiceLogger, "warn">;
}

/**
 * After this number of consecutive failed polls, sessions accept no command, because a freeze may have been
 * missed.
 */
const MAX_FAILED_POLLS = 6;

/** Polls the freezes and kills frozen sessions until the signal is aborted and all killed sessions have ended. */
export async function watchRevocations(
  { signer, registry, clock, seconds, brokerCn, metrics, logger }: KillSwitchPorts,
  signal: AbortSignal,
): Promise<void> {
  const failures = metrics.counter("broker_revocation_poll_errors_total", "Failed polls of the freezes");
  const success = metrics.gauge(
    "broker_revocation_poll_last_success_timestamp_seconds",
    "Time of the last successful poll of the freezes, or of the start",
  );
  const mark = () => success.set(Math.floor(clock.now() / 1000));
  mark();
  const onError = (error: unknown) => {
    failures.inc();
    logger.warn("freeze poll failed, or a frozen session could not be killed; polling continues", { error });
  };
  const kills = new Set<Promise<void>>();
  const unrevoked = new Set<bigint>();
  let failed = 0;
  let isUnsupported = false;
  await every({ clock, seconds, signal }, async () => {
    try {
      const frozen = await fetchFrozen(signer, signal);
      failed = 0;
      registry.reject(undefined);
      if (frozen === undefined) {
        if (!isUnsupported) {
          logger.warn(
            "control plane without /v1/revocations: freezes do not end running sessions; the signer still rejects " +
              "each new command of a frozen caller or end user",
          );
        }
        isUnsupported = true;
        return;
      }
      const ids = new Set(frozen.flatMap(({ kind, value }) => kind === "session_id" ? [value] : []));
      const isFrozen = (session: SessionInfo) => {
        // The signer does not know which certificates belong to a session, so revoke them. Hosts would
        // otherwise accept them until they expire.
        if (ids.has(session.id)) { for (const serial of serialsOf(session)) unrevoked.add(serial); }
        return frozen.some((entry) => concerns(entry, session, brokerCn));
      };
      // Do not await this, because a connection or a recording that hangs must not delay the next poll.
      const kill = registry.kill(isFrozen, "frozen (kill switch)")
        .catch(onError)
        .finally(() => kills.delete(kill));
      kills.add(kill);
      mark();
      const refused = await revokeSerials(signer, unrevoked, signal);
      if (refused !== undefined) onError(refused);
    } catch (error) {
      if (signal.aborted) return;
      failed += 1;
      if (failed === MAX_FAILED_POLLS) {
        registry.reject(
          `freezes unknown after ${failed} failed polls: sessions accept no commands until a poll succeeds`,
        );
      }
      onError(error);
    }
  });
  await Promise.all(kills);
}

/** Revokes the certificates of ended sessions at the signer. After a failure the next poll tries again. */
async function revokeSerials(
  signer: SignerClient,
  unrevoked: Set<bigint>,
  signal: AbortSignal,
): Promise<AppError | undefined> {
  const serials = [...unrevoked].slice(0, MAX_REVOKED);
  if (serials.length === 0) return undefined;
  const body = { serials, reason: "session-frozen" };
  const reply = await signer.request({ method: "POST", path: "/v1/revocations/serials", body, signal });
  if (reply.status >= 500 || reply.status === 429) throw failure("revocation failed", reply);
  for (const serial of serials) unrevoked.delete(serial);
  // A signer or control plane without the route would give the same answer again, so do not retry.
  return reply.status === 200 ? undefined : failure("revocation refused", reply);
}

async function fetchFrozen(
  signer: SignerClient,
  signal: AbortSignal,
): Promise<readonly RevocationEntry[] | undefined> {
  const reply = await signer.request({ method: "GET", path: "/v1/revocations", signal });
  return reply.status === 404 ? undefined : readList(reply, revocationList, "list of revocations");
}

function failure(what: string, reply: Awaited<ReturnType<SignerClient["request"]>>): AppError {
  return new AppError("upstream_failure", `${what} (${reply.status}): ${readProblem(reply).detail}`);
}

export function concerns(
  { kind, value }: Pick<RevocationEntry, "kind" | "value">,
  session: Pick<SessionInfo, "caller" | "id" | "serial" | "otherSerials">,
  brokerCn: string,
): boolean {
  const isMeant: Readonly<Record<typeof kind, () => boolean>> = {
    caller: () => isSameIdentity(value, brokerCn),
    end_user: () => isSameIdentity(value, session.caller),
    session_id: () => value === session.id,
    serial: () => serialsOf(session).some((serial) => value === serial.toString()),
  };
  return isMeant[kind]();
}
