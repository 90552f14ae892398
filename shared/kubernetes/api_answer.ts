/**
 * What an API server answers, and how a failure is told: never with an address, and with what to mend.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { faultOf } from "@gateway/shared/kubernetes";
 *
 * const fault = faultOf({ kind: "timed_out" }, 'minting token for gateway/reader on "prod"');
 * assert.equal(fault.code, "upstream_failure");
 * assert.equal(fault.message, 'minting token for gateway/reader on "prod": the API server did not answer in time');
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";
import { AppError } from "../errors.ts";
import { parseJson } from "../json.ts";
import type { ApiOutcome } from "./api_server.ts";
import { shortenText, visibleText } from "../text.ts";

/** What became of a request to an API server, with a credential from a file. */
export type ApiAnswer =
  | ApiOutcome
  /** The file can't be read, or holds no token; the message says which and why, for the operator alone. */
  | { readonly kind: "no_credential"; readonly cause: unknown };

const status = z.object({ kind: z.literal("Status"), message: z.string() });

const fieldConflicts = z.object({
  details: z.object({
    causes: z.array(z.object({ reason: z.literal("FieldManagerConflict"), field: z.string() })),
  }),
});

const MAX_MESSAGE_LENGTH = 400;
const ADDRESS =
  /\bhttps?:\/\/[^\s"']+|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\[[0-9a-f.]*:[0-9a-f:.]*\](?::\d+)?/gi;

/**
 * A failure as the caller and the audit log are told.
 *
 * @param doing for people, before a colon
 */
export function faultOf(answer: ApiAnswer, doing: string): AppError {
  const broken = (what: string, cause?: unknown) =>
    new AppError("upstream_failure", `${doing}: ${what}`, { cause });
  switch (answer.kind) {
    case "no_credential":
      return broken("the signer can't read its token_file", answer.cause);
    case "timed_out":
      return broken("the API server did not answer in time");
    case "too_large":
      return broken("the API server's answer is too large");
    case "unreachable":
      return broken("could not reach the API server", answer.cause);
    case "untrusted":
      return broken("the API server's certificate does not come from ca_cert", answer.cause);
    case "canceled":
      return new AppError("canceled", `${doing}: canceled`);
    case "answered":
      return faultOfStatus(answer, doing);
    default:
      return answer satisfies never;
  }
}

function faultOfStatus({ status, text }: Extract<ApiAnswer, { kind: "answered" }>, doing: string): AppError {
  if (status === 401) {
    return new AppError("denied", `${doing}: the API server refuses the credential in token_file; renew it`);
  }
  const message = readMessage(text);
  const told = `${doing}: ${status}${message === "" ? "" : ` ${message}`}`;
  // 429 is about the moment, and not about what was asked.
  const isRefusal = status >= 400 && status < 500 && status !== 408 && status !== 429;
  return isRefusal ? new AppError("denied", told) : new AppError("upstream_failure", told);
}

/**
 * The fields of other managers that an apply would change, as in `.spec.replicas`; empty where an answer tells of
 * anything else.
 */
export function readConflicts(text: string): readonly string[] {
  try {
    return fieldConflicts.parse(parseJson(text)).details.causes.map(({ field }) => field);
  } catch {
    return [];
  }
}

/** What an API server says in an answer that is no success; empty where it says nothing that can be read. */
export function readMessage(text: string): string {
  try {
    const { message } = status.parse(parseJson(text));
    return shortenText(visibleText(message.replace(ADDRESS, "[address]")), MAX_MESSAGE_LENGTH);
  } catch {
    // A page of a balancer, say: its text is nobody's message.
    return "";
  }
}
