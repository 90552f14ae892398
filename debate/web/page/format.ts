import { LANGUAGE, t } from "./language.ts";

export { formatDuration } from "../../engine/graph/text.ts";

/** A time of the server for the user; empty if it is unknown. */
export function formatTime(text: string | null | undefined): string {
  const time = new Date(text ?? "");
  return Number.isNaN(time.getTime())
    ? ""
    : time.toLocaleString(LANGUAGE, { dateStyle: "medium", timeStyle: "short" });
}

const UNITS = [["day", 86_400], ["hour", 3600], ["minute", 60]] as const;

/** `2 minutes ago`; empty if the time is unknown. */
export function formatAge(text: string | null | undefined, now: number): string {
  const seconds = Math.round((now - new Date(text ?? "").getTime()) / 1000);
  if (Number.isNaN(seconds)) return "";
  const [unit, length] = UNITS.find(([, length]) => seconds >= length) ?? ["second", 1];
  const count = Math.floor(Math.max(0, seconds) / length);
  return new Intl.RelativeTimeFormat(LANGUAGE, { numeric: "auto" }).format(-count, unit);
}

/** `93%` */
export function percent(share: unknown): string {
  return typeof share === "number" ? `${Math.round(share * 100)}%` : t("unknown");
}

/** `4:07` */
export function formatClock(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}
