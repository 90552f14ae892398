import { type Clock, every, type Random } from "@gateway/shared/clock";
import type { ServiceLogger } from "@gateway/shared/service";
import { cutText } from "@gateway/shared/text";
import { formatTimestamp, MAX_REPORTED_CHARACTERS, type OpenSession } from "@gateway/shared/wire";
import type { SignerClient } from "../authority/authority.ts";
import type { SessionRegistry } from "./registry.ts";
import type { Session } from "./session.ts";

const REPORT_SECONDS = 5;
/** The time until the next report after a failure, for example of a signer without the route. */
const RETRY_MS = 30_000;

/** Reports the open sessions to the signer until the signal is aborted. A failed report affects nothing else. */
export async function reportSessions(
  { signer, registry, clock, random, logger }: {
    readonly signer: SignerClient;
    readonly registry: Pick<SessionRegistry, "open">;
    readonly clock: Clock;
    readonly random: Random;
    readonly logger: Pick<ServiceLogger, "warn">;
  },
  signal: AbortSignal,
): Promise<void> {
  const instance = random.bytes(8).toHex();
  let isListed = false;
  let retryAt: number | undefined;
  await every({ clock, seconds: REPORT_SECONDS, signal }, async () => {
    const sessions = registry.open.map(describe);
    if (clock.now() < (retryAt ?? 0) || sessions.length === 0 && !isListed) return;
    const request = { method: "POST", path: "/v1/sessions", body: { instance, sessions }, signal } as const;
    const { status } = await signer.request(request).catch(() => ({ status: "no answer" }));
    if (status !== 200 && retryAt === undefined && !signal.aborted) {
      logger.warn("open sessions not reported, broker-ctl session list lacks them", { status });
    }
    if (status === 200) isListed = sessions.length > 0;
    retryAt = status === 200 ? undefined : clock.now() + RETRY_MS;
  });
}

function describe({ info, openedAt, lastCommand, recorder }: Session): OpenSession {
  const { id, caller, host, mode } = info;
  const cut = (text: string) => cutText(text, MAX_REPORTED_CHARACTERS);
  const opened_at = formatTimestamp(openedAt);
  const facts = { id, end_user: cut(caller), host: cut(host), mode, opened_at };
  return { ...facts, last_command: lastCommand, recorded: recorder !== undefined };
}
