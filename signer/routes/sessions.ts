import { AppError } from "@gateway/shared/errors";
import { readJsonBody } from "@gateway/shared/http";
import { mayUseSome } from "@gateway/shared/policy";
import { MAX_REPORT_BYTES, type SessionList, sessionReport } from "@gateway/shared/wire";
import { type Authority, type Call, requireTaken } from "../sign/authority.ts";
import { answer, requireAdmin } from "./admin.ts";
import { identifyReader } from "./hosts.ts";

/**
 * `POST /v1/sessions`: replaces the list of open sessions of one broker process. Callers: brokers, and
 * `trusted_forwarders` for them.
 *
 * @throws {AppError} `frozen` if the caller is frozen
 * @throws {AppError} `denied` if the caller may send requests only through a control plane (`only_via`)
 * @throws {AppError} `rate_limited` if the caller has sent too many reports
 */
export async function handleReportSessions(authority: Authority, call: Call): Promise<Response> {
  const { clock, signLimit, sessionReports, state: { current } } = authority;
  const caller = await identifyReader(authority, call);
  if (!mayUseSome(current.policy, caller)) throw new AppError("forbidden", "host not authorised");
  const { sign_rate_limit_per_min: perMinute } = current.config;
  requireTaken(signLimit.takeOf("report", caller, perMinute), `reports exceed ${perMinute} a minute`);
  const report = await readJsonBody(call.request, { maxBytes: MAX_REPORT_BYTES, schema: sessionReport });
  sessionReports.put(caller, report, clock.now());
  return answer({ status: "ok" });
}

/** `GET /v1/sessions`: lists the open sessions that brokers have reported to this signer. Callers: `reload_callers`. */
export async function handleListSessions(authority: Authority, { peer }: Call): Promise<Response> {
  await requireAdmin(authority, peer, { command: "sessions", outcome: "policy-denied" });
  const { sessionReports, clock, instances } = authority;
  const body: SessionList = { sessions: sessionReports.list(clock.now()), complete: !instances.isShared };
  return answer(body);
}
