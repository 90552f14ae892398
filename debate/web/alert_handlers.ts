import { AppError } from "@gateway/shared/errors";
import type { Alert } from "../alerts/desk.ts";
import { readNotice } from "../alerts/payload.ts";
import { alertBody } from "./bodies.ts";
import type { Routed, WebPorts } from "./ports.ts";
import { readJson, startRun } from "./run_handlers.ts";

/** The only text of an alert run that agents read as an instruction, so it contains nothing of the alert. */
const TOPIC = "A monitoring system reports an incident. The context contains its alert as received.";

/** Starts the run of an alert. The alert is an incident file, which agents get as data to evaluate. */
export function startAlertRun(
  ports: Omit<WebPorts, "alerts">,
  { title, severity, since, source, details }: Alert,
): Promise<string> {
  const text = [`Source: ${source}`, `Title: ${title}`, `Severity: ${severity}`, `Since: ${since}`, details]
    .join("\n");
  const incident = { name: "alert.txt", bytes: new TextEncoder().encode(text) };
  const form = {
    fields: new Map([["topic", TOPIC], ["pause_between_rounds", "false"], ["require_approval", "true"]]),
    files: new Map([["incident_file", [incident]]]),
  };
  return startRun(ports, form, { title, operator: ports.settings.ALERT_APPROVALS ? "called" : "absent" });
}

/** Room for about 100 alerts of a group, because senders do not repeat a rejected body. Only the first 20 are read. */
const MAX_ALERT_BYTES = 1024 * 1024;

/** Called only after the secret of the sender was checked. */
export async function handlePostAlert(
  ports: Pick<WebPorts, "alerts" | "settings">,
  { request }: Pick<Routed, "request">,
): Promise<Response> {
  const notice = readNotice(await readJson(request, alertBody, MAX_ALERT_BYTES));
  const alert = notice && await ports.alerts.receive(notice);
  void ports.alerts.work();
  const status = alert === undefined
    ? "ignored"
    : alert.resolved_at !== null
    ? "closed"
    : alert.count > 1
    ? "joined"
    : "accepted";
  return Response.json({ status, alert_id: alert?.id ?? null, ...linkOf(ports, alert?.run_id ?? null) }, {
    status: 202,
  });
}

/** A request that the check of the secret did not let through, because the route is off or the path is unusual. */
export function refuseAlert(): never {
  const fix = "set ALERT_SECRET on the server, and post to /api/alerts";
  throw new AppError("not_found", `Cannot receive an alert on this path\nfix: ${fix}`);
}

export async function handleListAlerts(ports: WebPorts): Promise<Response> {
  const runs = await ports.store.list();
  const alerts = ports.alerts.list().map((alert) => {
    const { id, source, title, severity, since, received_at, count, answer, run_id } = alert;
    const { status = null, conclusion } = runs.find((run) => run.run_id === run_id) ?? {};
    const state = { status, outcome: conclusion?.outcome ?? null };
    const received = new Date(received_at).toISOString();
    const times = { since: since || received, received_at: received };
    return { id, source, title, severity, ...times, count, answer, ...state, ...linkOf(ports, run_id) };
  });
  return Response.json({ alerts });
}

function linkOf({ settings }: Pick<WebPorts, "settings">, run_id: string | null) {
  return { run_id, url: run_id === null ? null : pageUrl(settings, run_id) };
}

/** The URL of the page of a run, or of the start page. */
export function pageUrl(
  { WEB_URL, WEB_HOST, WEB_PORT }: WebPorts["settings"],
  runId: string | null,
): string {
  const isAny = WEB_HOST === "0.0.0.0" || WEB_HOST === "::"; // only for listening
  const host = isAny ? "localhost" : WEB_HOST.includes(":") ? `[${WEB_HOST}]` : WEB_HOST;
  const base = (WEB_URL || `http://${host}:${WEB_PORT}`).replace(/\/$/, "");
  return `${base}/#/${runId === null ? "" : `runs/${runId}`}`;
}
