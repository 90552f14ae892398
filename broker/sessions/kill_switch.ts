import { type Clock, every } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { type RevocationEntry, revocationList } from "@gateway/shared/wire/freeze";
import { detailOf, type SignerClient } from "../authority/signer_client.ts";
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
  /** Told of each list that came, and has been acted upon. */
  readonly onPolled: () => void;
  /** Told of each poll that failed: nothing is killed then. */
  readonly onError: (error: unknown) => void;
}

const WHY = "frozen (kill switch)";

/** Asks the signer again and again what is frozen, and kills the sessions of that, until the signal is aborted. */
export function watchRevocations(ports: KillSwitchPorts, signal: AbortSignal): Promise<void> {
  const { clock, seconds } = ports;
  return every({ clock, seconds, signal }, async () => {
    try {
      await poll(ports, signal);
      ports.onPolled();
    } catch (error) {
      if (!signal.aborted) ports.onError(error);
    }
  });
}

async function poll({ signer, registry, brokerCn }: KillSwitchPorts, signal: AbortSignal): Promise<void> {
  const reply = await signer.request({ method: "GET", path: "/v1/revocations", signal });
  if (reply.status !== 200) {
    throw new AppError("upstream_failure", `revocations refused (${reply.status}): ${detailOf(reply)}`);
  }
  const list = revocationList.safeParse(reply.body);
  if (!list.success) {
    throw new AppError("upstream_failure", "signer returned something that is not a list of revocations", {
      cause: list.error,
    });
  }
  const frozen = list.data;
  await registry.kill((session) => frozen.some((entry) => concerns(entry, session, brokerCn)), WHY);
}

/** Whether a session is one of what is frozen. */
export function concerns(
  { kind, value }: Pick<RevocationEntry, "kind" | "value">,
  { caller, id, serial }: Pick<SessionInfo, "caller" | "id" | "serial">,
  brokerCn: string,
): boolean {
  switch (kind) {
    case "caller":
      return value === brokerCn;
    case "end_user":
      return value === caller;
    case "session_id":
      return value === id;
    case "serial":
      return value === serial.toString();
    default:
      return kind satisfies never;
  }
}
