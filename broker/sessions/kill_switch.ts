import { type Clock, every } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { readProblem } from "@gateway/shared/http/problem";
import { isSameIdentity } from "@gateway/shared/identity";
import { type RevocationEntry, revocationList } from "@gateway/shared/wire/freeze";
import type { SignerClient } from "../authority/signer_client.ts";
import type { SessionRegistry } from "./registry.ts";
import type { SessionInfo } from "./session.ts";

/** What the kill switch works with. */
export interface KillSwitchPorts {
  readonly signer: SignerClient;
  readonly registry: Pick<SessionRegistry, "kill">;
  readonly clock: Clock;
  /** The pause between two polls. */
  readonly seconds: number;
  /** This broker's own name to the signer: its freezing ends every session. */
  readonly brokerCn: string;
  /** Told of each list that came, when the killing of its sessions has begun. */
  readonly onPolled: () => void;
  /** Told of each poll that failed, which kills nothing, and of what went wrong in killing. */
  readonly onError: (error: unknown) => void;
}

const WHY = "frozen (kill switch)";

/**
 * Asks the signer again and again what is frozen, and kills the sessions of that, until the signal is aborted.
 * Resolves when the sessions that are being killed then have ended as well.
 */
export async function watchRevocations(ports: KillSwitchPorts, signal: AbortSignal): Promise<void> {
  const { clock, seconds, registry, brokerCn } = ports;
  const kills = new Set<Promise<void>>();
  await every({ clock, seconds, signal }, async () => {
    try {
      const frozen = await fetchFrozen(ports, signal);
      // Not awaited: a connection or a recording that hangs must not keep the next freeze from being seen.
      const kill = registry.kill((session) => frozen.some((entry) => concerns(entry, session, brokerCn)), WHY)
        .then(() => {}, ports.onError)
        .finally(() => kills.delete(kill));
      kills.add(kill);
      ports.onPolled();
    } catch (error) {
      if (!signal.aborted) ports.onError(error);
    }
  });
  await Promise.all(kills);
}

/** What is frozen now. */
async function fetchFrozen(
  { signer }: KillSwitchPorts,
  signal: AbortSignal,
): Promise<readonly RevocationEntry[]> {
  const reply = await signer.request({ method: "GET", path: "/v1/revocations", signal });
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
  { caller, id, serial }: Pick<SessionInfo, "caller" | "id" | "serial">,
  brokerCn: string,
): boolean {
  switch (kind) {
    case "caller":
      return isSameIdentity(value, brokerCn);
    case "end_user":
      return isSameIdentity(value, caller);
    case "session_id":
      return value === id;
    case "serial":
      return value === serial.toString();
    default:
      return kind satisfies never;
  }
}
