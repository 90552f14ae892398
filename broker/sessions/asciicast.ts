/**
 * The asciicast v2 format (docs.asciinema.org/manual/asciicast/v2): one JSON value a line, first the header, then
 * the events.
 */
import { stringifyJson } from "@gateway/shared/json";

/** The terminal that sessions have, in characters. */
const RECORDED_TERMINAL = { width: 220, height: 40 } as const;

/** What a recording says of its session. */
export interface RecordingHeader {
  readonly sessionId: string;
  readonly caller: string;
  readonly host: string;
  readonly serial: bigint;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
}

/** `i` what was typed, `o` what the terminal showed, `e` what came on the error stream. */
export type RecordingEvent = "i" | "o" | "e";

/** The first line of a recording, with its newline. */
export function encodeHeader({ sessionId, caller, host, serial, startedAt }: RecordingHeader): string {
  return stringifyJson({
    version: 2,
    ...RECORDED_TERMINAL,
    timestamp: Math.floor(startedAt / 1000),
    title: `session ${sessionId} — ${caller}@${host}`,
    env: { TERM: "xterm-256color" },
    gateway: {
      session_id: sessionId,
      caller,
      host,
      serial,
      started_at: new Date(startedAt).toISOString().replace(/\.\d{3}Z$/, "Z"),
    },
  }) + "\n";
}

export function encodeEvent(elapsedMs: number, type: RecordingEvent, data: string): string {
  const seconds = Math.round(elapsedMs * 1000) / 1e6;
  // Players write to a raw terminal, where a line feed alone does not go back to the start of the line.
  const shown = type === "i" ? data : data.replace(/\r?\n/g, "\r\n");
  // A lone surrogate has no place in UTF-8.
  return `[${seconds}, "${type}", ${stringifyJson(shown.toWellFormed())}]\n`;
}
