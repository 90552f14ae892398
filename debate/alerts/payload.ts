/** Alerts as monitoring systems post them. All their texts are untrusted. */
import { AppError } from "@gateway/shared/errors";
import { cutText } from "@gateway/shared/text";
import { createHash } from "node:crypto";
import { dropPartialWord, fieldsOf, isObject, oneLine, textOf } from "../engine/graph/text.ts";

type Fields = Readonly<Record<string, unknown>>;

export const SOURCES = ["alertmanager", "grafana", "pagerduty"] as const;

export interface Notice {
  readonly source: (typeof SOURCES)[number];
  /** A hash of the group key, the fingerprints or the incident ID. Notices with the same key are one alert. */
  readonly key: string;
  readonly isFiring: boolean;
  readonly title: string;
  /** The sender's own word; empty if it states none. */
  readonly severity: string;
  /** ISO 8601, UTC; empty if the sender states no valid time. */
  readonly since: string;
  /** Labels, annotations and links as lines of `name: value`. */
  readonly details: string;
}

/** The alerts of one notice that are read; the others are only counted. */
const MAX_ALERTS = 20;
/** The labels, and separately the annotations, of one alert that are read. */
const MAX_PAIRS = 64;
const MAX_VALUE = 2000;

/**
 * Reads a webhook of Alertmanager (version 4), Grafana alerting or PagerDuty (V3).
 *
 * @returns `undefined` for a PagerDuty event that changes no incident, such as a note
 * @throws {AppError} `unprocessable` for any other body
 */
export function readNotice(body: Fields): Notice | undefined {
  if (isObject(body.event)) return readPagerDuty(body.event);
  if (Array.isArray(body.alerts)) return readGroup(body, body.alerts.filter(isObject));
  return fail("it has neither alerts (Alertmanager, Grafana) nor event (PagerDuty)");
}

/** https://prometheus.io/docs/alerting/latest/configuration/#webhook_config; Grafana adds `orgId` and others. */
function readGroup(body: Fields, alerts: readonly Fields[]): Notice {
  const source = "orgId" in body ? "grafana" : "alertmanager";
  if (source === "alertmanager" && body.version !== "4") fail('version is not "4"');
  if (body.status !== "firing" && body.status !== "resolved") fail('status is not "firing" or "resolved"');
  if (alerts.length === 0) fail("alerts contains no alert");
  const fingerprints = alerts.map(({ fingerprint }) => textOf(fingerprint)).filter((each) => each !== "");
  const key = textOf(body.groupKey) || fingerprints.toSorted().join(" ");
  if (key === "") fail("it has neither groupKey nor a fingerprint");
  const find = (group: string, each: string, name: string) =>
    [body[group], ...alerts.map((alert) => alert[each])].map((pairs) => textOf(fieldsOf(pairs)[name]))
      .find((value) => value !== "") ?? "";
  const name = find("commonLabels", "labels", "alertname") || textOf(body.title) || "Unnamed alert";
  const summary = find("commonAnnotations", "annotations", "summary");
  const firing = alerts.filter(({ status }) => status !== "resolved");
  const starts = (firing.length > 0 ? firing : alerts).map(({ startsAt }) => timeOf(startsAt));
  const omitted = alerts.length - MAX_ALERTS;
  return {
    source,
    key: hash(source, key),
    isFiring: body.status === "firing",
    title: summary === "" ? name : `${name}: ${summary}`,
    severity: find("commonLabels", "labels", "severity"),
    since: starts.filter((each) => each !== "").toSorted()[0] ?? "",
    details: [
      ...alerts.slice(0, MAX_ALERTS).flatMap(({ labels, annotations, values, ...alert }, index) => [
        `Alert ${index + 1}`,
        ...pairsOf(pick(alert, ["status", "startsAt", "endsAt", "generatorURL", "dashboardURL", "panelURL"])),
        ...pairsOf(labels),
        ...pairsOf(annotations),
        ...pairsOf(values),
      ]),
      ...(omitted > 0 ? [`${omitted} more alerts omitted`] : []),
    ].join("\n"),
  };
}

/** https://developer.pagerduty.com/docs/webhooks-overview */
function readPagerDuty({ event_type, data }: Fields): Notice | undefined {
  const incident = fieldsOf(data);
  if (typeof event_type !== "string") fail("event.event_type is missing");
  if (incident.type !== "incident") return undefined;
  const { id, status, title, urgency, created_at } = incident;
  if (typeof id !== "string" || id === "") fail("event.data.id is missing");
  if (status !== "triggered" && status !== "acknowledged" && status !== "resolved") {
    fail('event.data.status is not "triggered", "acknowledged" or "resolved"');
  }
  const service = textOf(fieldsOf(incident.service).summary);
  return {
    source: "pagerduty",
    key: hash("pagerduty", id),
    isFiring: status !== "resolved",
    title: textOf(title) || "Unnamed incident",
    severity: textOf(fieldsOf(incident.priority).summary) || textOf(urgency),
    since: timeOf(created_at),
    details: pairsOf({ ...pick(incident, ["title", "urgency", "html_url", "created_at"]), service }).join(
      "\n",
    ),
  };
}

function fail(problem: string): never {
  throw new AppError("unprocessable", `Cannot read the alert: ${problem}`);
}

function hash(...parts: readonly string[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}

function pick(fields: Fields, names: readonly string[]): Fields {
  return Object.fromEntries(names.flatMap((name) => name in fields ? [[name, fields[name]]] : []));
}

/** Lines of `name: value`, each on one line, so that a value cannot look like another name. */
function pairsOf(pairs: unknown): readonly string[] {
  return Object.entries(fieldsOf(pairs)).slice(0, MAX_PAIRS).flatMap(([name, value]) => {
    if (typeof value !== "string" && typeof value !== "number") return [];
    const text = oneLine(String(value));
    const shown = text.length <= MAX_VALUE ? text : `${dropPartialWord(cutText(text, MAX_VALUE))}…`;
    return shown === "" ? [] : [`${oneLine(name.slice(0, 200))}: ${shown}`];
  });
}

/** The zero time of Go means that there is no time. */
function timeOf(value: unknown): string {
  const time = new Date(textOf(value));
  return Number.isNaN(time.getTime()) || time.getTime() <= 0 ? "" : time.toISOString();
}
