import { describeSpan } from "@gateway/shared/policy";
import type { ApprovalRecord, SignRequest } from "@gateway/shared/wire";
import { BEHAVIOR_RULE } from "../approvals/approval.ts";
import { type Html, markup } from "./html.ts";
import { parseTime, showAge, showElevation, showRule, showTimeLeft } from "./request_text.ts";
import { showText } from "./shown_text.ts";
import { formatDuration, formatUtc } from "./text_format.ts";

/** What the certificate is to be good for, beside what the record says. */
export type AskedFor = Pick<
  SignRequest,
  | "role"
  | "purpose"
  | "session_mode"
  | "ttl_seconds"
  | "pty"
  | "file_transfer"
  | "end_user_groups"
  | "target_type"
>;

/** UTF-16 units of a rule where room is scarce; the whole is in the list below. */
const MOST_OF_A_RULE = 120;

/** What there is to know of a request. */
export interface RequestFacts {
  readonly approval: ApprovalRecord;
  readonly asked?: AskedFor | undefined;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** What to decide upon, beside what is asked: as whom, where, for how long, why it waits, and since when. */
export function renderKeyFacts({ approval, now }: RequestFacts): Html {
  const { account, addr, created_at, expires_at, status, joined = [], sudo, target_type } = approval;
  const isElevated = sudo === true;
  return markup`<dl class="facts key">
${
    fact(
      "Runs as",
      markup`${
        account !== undefined
          ? showText(account)
          : target_type === "k8s"
          ? "a ServiceAccount that the signer does not name"
          : "the host’s account"
      }${isElevated && markup`, then ${showElevation(approval)}`}`,
    )
  }
${addr !== undefined && fact("Address", showText(addr))}
${fact("Why it waits", showWhy(approval))}
${
    joined.length > 0 &&
    fact("Asked for", `${joined.length + 1} times; the decision is for these ${joined.length + 1} requests`)
  }
${
    fact(
      "Age",
      markup`${showAge(parseTime(created_at), now)}${
        status === "pending" && expires_at !== undefined &&
        markup`; time left: <b>${showTimeLeft(parseTime(expires_at), now)}</b>`
      }`,
    )
  }
</dl>`;
}

function showWhy({ rule, anomalies = [] }: ApprovalRecord): Html {
  const unusual = anomalies.map((each, index) => [index > 0 && ", ", showAnomaly(each)]);
  const isRule = rule !== undefined && rule !== BEHAVIOR_RULE;
  return markup`${
    isRule &&
    markup`policy rule ${showRule(rule, MOST_OF_A_RULE)}`
  }${isRule && anomalies.length > 0 && "; "}${anomalies.length > 0 && markup`it is unusual: ${unusual}`}${
    !isRule && anomalies.length === 0 && "it is unusual"
  }`;
}

/** Who asks for what, and why somebody has to decide, as a list. */
export function renderFacts({ approval, asked, now }: RequestFacts): Html {
  const { caller, end_user, host, id, created_at, life_seconds, rule, anomalies = [], joined = [] } =
    approval;
  const created = parseTime(created_at);
  const groups = asked?.end_user_groups ?? undefined;
  const ttlSeconds = asked?.ttl_seconds ?? 0;
  return markup`<dl class="facts">
${fact("Asked by", showText(caller))}
${fact("On behalf of", end_user === undefined ? "nobody whom a trusted broker names" : showText(end_user))}
${groups !== undefined && fact("Groups, as the broker says", showList(groups))}
${fact(asked?.target_type === "k8s" ? "Cluster" : "Host", showText(host))}
${fact("Elevation", showElevation(approval))}
${asked !== undefined && fact("Kind", showKind(asked))}
${ttlSeconds > 0 && fact("Wants access for", formatDuration(ttlSeconds * 1000))}
${life_seconds !== undefined && fact("Certificate", `lives ${describeSpan(life_seconds)}`)}
${rule !== undefined && fact("Matched rule", showRule(rule))}
${
    anomalies.length > 0 &&
    fact("Unusual", markup`<ul>${anomalies.map((each) => markup`<li>${showAnomaly(each)}</li>`)}</ul>`)
  }
${fact("Asked", markup`${showAge(created, now)} ago, on ${formatUtc(created)}`)}
${fact("Request", markup`<code>${showText(id)}</code>`)}
${
    joined.length > 0 &&
    fact(
      "Decided with it",
      markup`<ul>${joined.map((each) => markup`<li><code>${showText(each)}</code></li>`)}</ul>`,
    )
  }
</dl>`;
}

function fact(name: string, value: Html | string): Html {
  return markup`<div><dt>${name}</dt><dd>${value}</dd></div>`;
}

function showList(names: readonly string[]): Html | string {
  if (names.length === 0) return "none";
  return markup`${names.map((name, index) => [index > 0 && ", ", showText(name)])}`;
}

function showKind({ role, purpose, session_mode, pty, file_transfer }: AskedFor): Html | string {
  if (role === "bastion") return "to connect through it to other hosts";
  const mode = session_mode === "" ? undefined : markup`, mode ${showText(session_mode)}`;
  return markup`${purpose === "session" ? "session" : "one command"}${mode}${pty && ", with a terminal"}${
    file_transfer && ", transfers a file"
  }`;
}

const ANOMALIES: Readonly<Record<string, string>> = {
  "new-host": "first request for host ",
  "new-command": "first request to run ",
};

function showAnomaly(anomaly: string): Html {
  const end = anomaly.indexOf(":");
  const kind = anomaly.slice(0, end);
  if (!Object.hasOwn(ANOMALIES, kind)) return showText(anomaly);
  return markup`${ANOMALIES[kind]}${showText(anomaly.slice(end + 1))}`;
}
