import { shortenText } from "../shorten.ts";
import { EMPTY_CELL, INDENT } from "../table.ts";
import type { ApiEvent } from "./api_event.ts";
import type { RecordedToken } from "./recorded_token.ts";
import type { TokenUses } from "./token_uses.ts";

/** What became of a token, for people. */
export function formatUses(token: RecordedToken, { issued, used, isCut }: TokenUses): readonly string[] {
  const times = issued.map(({ time }) => shortTime(time)).join(" and ");
  const origin = times === "" ? "the cluster's log does not say when it was issued" : `issued ${times}`;
  const uses = used.length === 0
    ? "never used"
    : used.length === 1
    ? "used once"
    : `used ${used.length} times`;
  return [
    `${INDENT}token ${token.jti}: ${origin}; ${uses}`,
    ...used.map(({ event, asRecorded }) =>
      `${INDENT}  ${formatRequest(event)}${asRecorded ? "" : "  NOT WHAT IT WAS ISSUED FOR"}`
    ),
    ...(isCut ? [`${INDENT}  and more`] : []),
  ];
}

/** What no record tells of, for people. */
export function formatUnexplained(events: readonly ApiEvent[], isCut: boolean): readonly string[] {
  if (events.length === 0) return [];
  return [
    "",
    "Of these no record tells:",
    ...events.map((event) => `${INDENT}${formatRequest(event)} ${describeUser(event)}`),
    ...(isCut ? [`${INDENT}and more of them`] : []),
  ];
}

function formatRequest({ time, verb, status, uri, addresses }: ApiEvent): string {
  const from = addresses.length === 0 ? "" : ` from ${addresses.join(", ")}`;
  return `${shortTime(time)}  ${verb} ${status ?? EMPTY_CELL} ${shortenText(uri)}${from}`;
}

function describeUser({ user, impersonated, jti, issuedJti }: ApiEvent): string {
  return [
    `by ${user}`,
    ...(impersonated === undefined ? [] : [`as ${impersonated}`]),
    ...(jti === undefined ? [] : [`with token ${jti}`]),
    ...(issuedJti === undefined ? [] : [`issued token ${issuedJti}`]),
  ].join(" ");
}

/** Without fractions of a second, as in the table of records. */
function shortTime(time: string): string {
  return time.replace(/\.\d+Z$/, "Z");
}
