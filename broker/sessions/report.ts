import { type Clock, every, type Random } from "@gateway/shared/clock";
import type { ServiceLogger } from "@gateway/shared/service";
import { cutText } from "@gateway/shared/text";
import {
  formatTimestamp,
  MAX_REPORTED_CHARACTERS,
  type OpenSession,
  REPORT_SECONDS,
  type SessionReport,
} from "@gateway/shared/wire";
import type { SignerClient } from "../authority/authority.ts";
import type { SessionRegistry } from "./registry.ts";
import type { Session } from "./session.ts";

interface ReportPorts {
  readonly signer: SignerClient;
  readonly registry: Pick<SessionRegistry, "open">;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Pick<ServiceLogger, "warn">;
}

/** The time between two comparisons of the open sessions with the last report. */
const CHECK_SECONDS = 1;
/** The time until the next report after a final rejection, for example by a signer without the route. */
const REJECTED_SECONDS = 600;

/** Reports the open sessions to the signer until the signal is aborted. A failed report affects nothing else. */
export async function reportSessions(
  { signer, registry, clock, random, logger }: ReportPorts,
  signal: AbortSignal,
): Promise<void> {
  const instance = random.bytes(8).toHex();
  let reported = "";
  let next = 0;
  let failed = false;
  await every({ clock, seconds: CHECK_SECONDS, signal }, async () => {
    const sessions = registry.open.map(describe);
    const ids = sessions.map(({ id }) => id).join();
    const isDue = clock.now() >= next;
    const isChanged = ids !== reported && !failed;
    if (!isChanged && (!isDue || ids === "" && reported === "")) return;
    const body: SessionReport = { instance, sessions };
    let seconds = REPORT_SECONDS;
    let problem: unknown;
    try {
      const { status } = await signer.request({ method: "POST", path: "/v1/sessions", body, signal });
      if (status !== 200) problem = `status ${status}`;
      if (status >= 400 && status < 500 && status !== 429) seconds = REJECTED_SECONDS;
    } catch (error) {
      problem = error;
    }
    if (signal.aborted) return;
    next = clock.now() + seconds * 1000;
    if (problem === undefined) reported = ids;
    else if (!failed) {
      logger.warn("open sessions not reported, broker-ctl session list lacks them", { error: problem });
    }
    failed = problem !== undefined;
  });
}

function describe(
  { info: { id, caller, host, mode }, openedAt, lastCommand, recorder }: Session,
): OpenSession {
  const cut = (text: string) => cutText(text, MAX_REPORTED_CHARACTERS);
  return {
    ...{ id, end_user: cut(caller), host: cut(host), mode, opened_at: formatTimestamp(openedAt) },
    ...{ last_command: lastCommand, recorded: recorder !== undefined },
  };
}
