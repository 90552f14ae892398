// `POST /v1/sessions` and `GET /v1/sessions`: the open sessions of brokers, for operators. The signer never decides by
// them, because only the broker vouches for its report.
import * as z from "@zod/zod";
import { isUnsafe } from "../text.ts";
import { each, SESSION_MODES, type SessionMode } from "./sign.ts";

/** The largest report of a broker, in bytes. */
export const MAX_REPORT_BYTES: number = 512 * 1024;

/** The longest end user, host and command of a report. The broker truncates longer texts. */
export const MAX_REPORTED_CHARACTERS = 256;

/** An open session of a broker. */
export interface OpenSession {
  /** The session ID, as a freeze names it. */
  readonly id: string;
  /** The end user who opened the session. */
  readonly end_user: string;
  /** The logical name of the host. */
  readonly host: string;
  /** The mode of the session. */
  readonly mode: SessionMode;
  /** RFC 3339, UTC. */
  readonly opened_at: string;
  /** The last command, redacted and truncated; empty: none. */
  readonly last_command: string;
  /** Whether the broker records the session. */
  readonly recorded: boolean;
}

/** All open sessions of one broker process. */
export interface SessionReport {
  /** A random name of the process, because several processes can have the same certificate. */
  readonly instance: string;
  /** At most 200 sessions. An empty list removes the previous report. */
  readonly sessions: readonly OpenSession[];
}

/** A session, and the broker that reported it. */
export interface ListedSession extends OpenSession {
  /** The CN of the broker. */
  readonly caller: string;
}

/** The sessions that brokers have reported to this signer. */
export interface SessionList {
  /** The sessions, the oldest first. */
  readonly sessions: readonly ListedSession[];
  /** False if other signers share the state: brokers can have reported their sessions to those. */
  readonly complete: boolean;
}

interface SessionsReported {
  /** `ok`. */
  readonly status: string;
}

const text = z.string().max(MAX_REPORTED_CHARACTERS);
const fields = {
  id: z.string().min(1).max(64).refine((id) => !isUnsafe(id), "spaces and control characters not allowed"),
  ...each(text, "end_user", "host", "last_command"),
  mode: z.enum(SESSION_MODES),
  opened_at: z.iso.datetime().max(30),
  recorded: z.boolean(),
};

/** Decodes a {@linkcode SessionReport}; unknown fields are dropped. */
export const sessionReport: z.ZodType<SessionReport> = z.object({
  instance: z.string().regex(/^[0-9a-f]{16}$/, "not 16 hexadecimal digits"),
  sessions: z.array(z.object(fields)).max(200),
});

/** Decodes the answer to a report. */
export const sessionsReported: z.ZodType<SessionsReported> = z.object({ status: z.string() });

/** Decodes a {@linkcode SessionList}. */
export const sessionList: z.ZodType<SessionList> = z.object({
  sessions: z.array(z.object({ ...fields, caller: z.string() })),
  complete: z.boolean(),
});
