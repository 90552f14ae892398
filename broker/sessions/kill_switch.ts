import { type Clock, every } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { readProblem } from "@gateway/shared/http";
import { isSameIdentity } from "@gateway/shared/text";
import { MAX_REVOKED, type RevocationEntry, revocationList } from "@gateway/shared/wire";
import type { SignerClient } from "../authority/authority.ts";
import type { SessionRegistry } from "./registry.ts";
import { serialsOf, type SessionInfo } from "./session.ts";

/** What the kill switch works with. */
interface KillSwitchPorts {
  readonly signer: SignerClient;
  readonly registry: Pick<SessionRegistry, "kill" | "reject">;
  readonly clock: Clock;
  readonly seconds: number;
  /** This broker's own name to the signer: its freezing ends every session. */
  readonly brokerCn: string;
  /** Told of each list that came, when the killing of its sessions has begun. */
  readonly onPolled: () => void;
  /** Called once if the upstream has no `/v1/revocations`, as the reference's control plane. */
  readonly onUnsupported: () => void;
  /** Told of each poll that failed, which kills nothing, and of what went wrong in killing. */
  readonly onError: (error: unknown) => void;
}

const WHY = "frozen (kill switch)";
/** After so many failed polls in a row, sessions take no new command: a freeze may have been missed. */
const MAX_FAILED_POLLS = 6;

/**
 * Asks the signer again and again what is frozen, and kills the sessions of that, until the signal is aborted.
 * Resolves when the sessions that are being killed then have ended as well.
 */
export async function watchRevocations(ports: KillSwitchPorts, signal: AbortSignal): Promise<void> {
  const { clock, seconds, registry, brokerCn } = ports;
  const kills = new Set<Promise<void>>();
  const untold = new Set<bigint>();
  let failed = 0;
  let isUnsupported = false;
  await every({ clock, seconds, signal }, async () => {
    try {
      const frozen = await fetchFrozen(ports, signal);
      failed = 0;
      registry.reject(undefined);
      if (frozen === undefined) {
        if (!isUnsupported) ports.onUnsupported();
        isUnsupported = true;
        return;
      }
      const ids = new Set(frozen.flatMap(({ kind, value }) => kind === "session_id" ? [value] : []));
      // Not awaited: a connection or a recording that hangs must not keep the next freeze from being seen.
      const isFrozen = (session: SessionInfo) => {
        // Whose certificate it is, the signer does not know: hosts would believe it until its end.
        if (ids.has(session.id)) { for (const serial of serialsOf(session)) untold.add(serial); }
        return frozen.some((entry) => concerns(entry, session, brokerCn));
      };
      const kill = registry.kill(isFrozen, WHY)
        .then(() => {}, ports.onError)
        .finally(() => kills.delete(kill));
      kills.add(kill);
      ports.onPolled();
      await tellSigner(ports, untold, signal);
    } catch (error) {
      if (signal.aborted) return;
      failed += 1;
      if (failed === MAX_FAILED_POLLS) {
        const reason =
          `freezes could not be read ${failed} times in a row: sessions take no commands until they can be`;
        registry.reject(reason);
      }
      ports.onError(error);
    }
  });
  await Promise.all(kills);
}

/** Has the signer revoke the certificates of sessions that were ended; what it was not told is told next time. */
async function tellSigner(
  { signer, onError }: KillSwitchPorts,
  untold: Set<bigint>,
  signal: AbortSignal,
): Promise<void> {
  const serials = [...untold].slice(0, MAX_REVOKED);
  if (serials.length === 0) return;
  const body = { serials, reason: "session-frozen" };
  const reply = await signer.request({ method: "POST", path: "/v1/revocations/serials", body, signal });
  if (reply.status >= 500 || reply.status === 429) {
    throw new AppError(
      "upstream_failure",
      `revocation failed (${reply.status}): ${readProblem(reply).detail}`,
    );
  }
  for (const serial of serials) untold.delete(serial);
  // A signer, or a control plane before it, that knows no such route; asking again changes nothing.
  if (reply.status !== 200) {
    onError(
      new AppError("upstream_failure", `revocation refused (${reply.status}): ${readProblem(reply).detail}`),
    );
  }
}

/** What is frozen; `undefined` if the upstream does not know the route. */
async function fetchFrozen(
  { signer }: KillSwitchPorts,
  signal: AbortSignal,
): Promise<readonly RevocationEntry[] | undefined> {
  const reply = await signer.request({ method: "GET", path: "/v1/revocations", signal });
  if (reply.status === 404) return undefined;
  if (reply.status !== 200) {
    throw new AppError(
      "upstream_failure",
      `revocations refused (${reply.status}): ${readProblem(reply).detail}`,
    );
  }
  const list = revocationList.safeParse(reply.body);
  if (list.success) return list.data;
  throw new AppError("upstream_failure", "signer returned something that is not a list of revocations", {
    cause: list.error,
  });
}

/** Whether a session is one of what is frozen. */
export function concerns(
  { kind, value }: Pick<RevocationEntry, "kind" | "value">,
  session: Pick<SessionInfo, "caller" | "id" | "serial" | "otherSerials">,
  brokerCn: string,
): boolean {
  switch (kind) {
    case "caller":
      return isSameIdentity(value, brokerCn);
    case "end_user":
      return isSameIdentity(value, session.caller);
    case "session_id":
      return value === session.id;
    case "serial":
      return serialsOf(session).some((serial) => value === serial.toString());
    default:
      return kind satisfies never;
  }
}
