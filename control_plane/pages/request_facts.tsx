import {
  accessKind,
  accessParts,
  accessTitle,
  canonicalSudoUser,
  describeSpan,
} from "@gateway/shared/policy";
import type { ApprovalRecord, ApprovalStatus, SignedApproval } from "@gateway/shared/wire";
import { Badge, type IconName, type Tone, VisibleText } from "@gateway/shared/ui";
import { type ComponentChildren, Fragment, type JSX } from "preact";
import { BEHAVIOR_RULE, isRequester, type StoredRequest } from "../approvals/approval.ts";
import { formatUtc } from "./format.ts";
import { formatSpan } from "@gateway/shared/text";

/** The maximum length of a rule, in UTF-16 units. The list of facts shows the whole rule. */
const MOST_OF_A_RULE = 120;

export interface RequestFacts {
  readonly approval: ApprovalRecord;
  readonly asked?: StoredRequest | undefined;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** The facts that a decision depends on. */
export function KeyFacts({ approval, now }: RequestFacts): JSX.Element {
  const { account, addr, created_at, expires_at, status, joined = [], sudo, target_type } = approval;
  const { signed_approval } = approval;
  const unnamed = target_type === "k8s"
    ? "a ServiceAccount that the signer did not report"
    : "the host’s account";
  const requests = joined.length + 1;
  return (
    <dl class="facts key">
      <Fact name="Runs as">
        {account === undefined ? unnamed : <VisibleText text={account} />}
        {sudo === true && (
          <>
            {", then "}
            <Elevation {...approval} />
          </>
        )}
      </Fact>
      {addr !== undefined && (
        <Fact name="Address">
          <VisibleText text={addr} />
        </Fact>
      )}
      <Fact name="Trigger">
        <Why approval={approval} />
      </Fact>
      {signed_approval !== undefined && (
        <Fact name="Signatures">
          <Signatures {...signed_approval} />
        </Fact>
      )}
      {requests > 1 && <Fact name="Requests">{`${requests}; the decision applies to all`}</Fact>}
      <Fact name="Age">
        <Age since={Date.parse(created_at)} now={now} />
        {status === "pending" && expires_at !== undefined && (
          <>
            {"; time left: "}
            <b>
              <TimeLeft until={Date.parse(expires_at)} now={now} />
            </b>
          </>
        )}
      </Fact>
    </dl>
  );
}

function Fact(
  { name, children }: { readonly name: string; readonly children: ComponentChildren },
): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Signatures({ required, approved_by }: SignedApproval): JSX.Element {
  return (
    <>
      {`${approved_by.length} of ${required}`}
      {approved_by.length > 0 && (
        <>
          {": "}
          <Separated items={approved_by} />
        </>
      )}
    </>
  );
}

function Why({ approval: { rule, anomalies = [] } }: { readonly approval: ApprovalRecord }): JSX.Element {
  const unusual = anomalies.length === 0 ? "unusual request" : (
    <>
      {"unusual request: "}
      <Separated items={anomalies} show={showAnomaly} />
    </>
  );
  if (rule === undefined || rule === BEHAVIOR_RULE) return <>{unusual}</>;
  return (
    <>
      {"policy rule "}
      <Rule rule={rule} limit={MOST_OF_A_RULE} />
      {anomalies.length > 0 && <>{"; "}{unusual}</>}
    </>
  );
}

/** All facts as a list. */
export function AllFacts({ approval, asked, now }: RequestFacts): JSX.Element {
  const { caller, end_user, host, id, created_at, life_seconds, rule, anomalies = [], joined = [] } =
    approval;
  const created = Date.parse(created_at);
  const groups = asked?.end_user_groups ?? undefined;
  const ttlSeconds = asked?.ttl_seconds ?? 0;
  return (
    <dl class="facts">
      <Fact name="Requester">
        <VisibleText text={caller} />
      </Fact>
      <Fact name="On behalf of">
        {end_user === undefined ? "not reported by a trusted broker" : <VisibleText text={end_user} />}
      </Fact>
      {groups !== undefined && (
        <Fact name="Groups (reported by the broker)">
          {groups.length === 0 ? "none" : <Separated items={groups} />}
        </Fact>
      )}
      <Fact name={asked?.target_type === "k8s" ? "Cluster" : "Host"}>
        <VisibleText text={host} />
      </Fact>
      <Fact name="Elevation">
        <Elevation {...approval} />
      </Fact>
      {asked !== undefined && (
        <Fact name="Kind">
          <Kind {...asked} />
        </Fact>
      )}
      {ttlSeconds > 0 && <Fact name="Requested lifetime">{formatSpan(ttlSeconds * 1000)}</Fact>}
      {life_seconds !== undefined && <Fact name="Certificate lifetime">{describeSpan(life_seconds)}</Fact>}
      {rule !== undefined && (
        <Fact name="Matched rule">
          <Rule rule={rule} />
        </Fact>
      )}
      {anomalies.length > 0 && (
        <Fact name="Anomalies">
          <List items={anomalies} show={showAnomaly} />
        </Fact>
      )}
      <Fact name="Requested">
        <Age since={created} now={now} />
        {` ago, on ${formatUtc(created)}`}
      </Fact>
      <Fact name="Request ID">
        <code>
          <VisibleText text={id} />
        </code>
      </Fact>
      {joined.length > 0 && (
        <Fact name="Decided together with">
          <List items={joined} show={showCode} />
        </Fact>
      )}
    </dl>
  );
}

interface Items {
  readonly items: readonly string[];
  readonly show?: (item: string) => JSX.Element;
}

const showItem = (text: string) => <VisibleText text={text} />;
export const showCode = (text: string) => (
  <code>
    <VisibleText text={text} />
  </code>
);

export function List({ items, show = showItem }: Items): JSX.Element {
  return <ul>{items.map((item, index) => <li key={index}>{show(item)}</li>)}</ul>;
}

export function Separated(
  { items, show = showItem, separator = ", " }: Items & { readonly separator?: string },
): JSX.Element {
  return (
    <>
      {items.map((item, index) => <Fragment key={index}>{index > 0 && separator}{show(item)}</Fragment>)}
    </>
  );
}

function Kind({ role, purpose, session_mode, pty, file_transfer }: StoredRequest): JSX.Element {
  if (role === "bastion") return <>bastion, to connect to other hosts</>;
  return (
    <>
      {purpose === "session" ? "session" : "one command"}
      {session_mode !== "" && (
        <>
          {", mode "}
          <VisibleText text={session_mode} />
        </>
      )}
      {pty && ", with a terminal"}
      {file_transfer && ", transfers a file"}
    </>
  );
}

const ANOMALIES: Readonly<Record<string, string>> = {
  "new-host": "first request for host ",
  "new-command": "first request to run ",
};

function showAnomaly(anomaly: string): JSX.Element {
  const end = anomaly.indexOf(":");
  const kind = anomaly.slice(0, end);
  if (!Object.hasOwn(ANOMALIES, kind)) return <VisibleText text={anomaly} />;
  return (
    <>
      {ANOMALIES[kind]}
      <VisibleText text={anomaly.slice(end + 1)} />
    </>
  );
}

const STATUS: Readonly<
  Record<ApprovalStatus, { readonly word: string; readonly tone: Tone; readonly icon: IconName }>
> = {
  pending: { word: "Pending", tone: "warn", icon: "clock" },
  approved: { word: "Approved", tone: "good", icon: "check" },
  denied: { word: "Denied", tone: "bad", icon: "close" },
  expired: { word: "Expired", tone: "idle", icon: "clock" },
};

export function statusWord(status: ApprovalStatus): string {
  return STATUS[status].word;
}

export function Status({ status }: { readonly status: ApprovalStatus }): JSX.Element {
  const { word, tone, icon } = STATUS[status];
  return <Badge tone={tone} icon={icon}>{word}</Badge>;
}

export function Elevation({ sudo, sudo_user }: Pick<ApprovalRecord, "sudo" | "sudo_user">): JSX.Element {
  const user = canonicalSudoUser(sudo, sudo_user);
  return user === "" ? <span class="muted">none</span> : (
    <span class="elevated">
      {"sudo as "}
      <VisibleText text={user} />
    </span>
  );
}

/** The continuation of "asks …", with texts of others in bold. */
export function Asked({ approval }: { readonly approval: ApprovalRecord }): JSX.Element {
  return (
    <>
      {accessParts(approval).map((part) =>
        typeof part === "string" ? part : part.kind === "elevated"
          ? (
            <span class="elevated">
              <VisibleText text={part.text} />
            </span>
          )
          : (
            <b>
              <VisibleText text={part.text} />
            </b>
          )
      )}
    </>
  );
}

/** The truncated command, or the title of a request without one. */
export function What(
  { approval, limit }: { readonly approval: ApprovalRecord; readonly limit: number },
): JSX.Element {
  const title = accessTitle(accessKind(approval));
  return title === undefined
    ? (
      <code>
        <VisibleText text={approval.command} limit={limit} />
      </code>
    )
    : <span class="elevated">{title}</span>;
}

/** Spaces at the end of a pattern are usual and are not marked as odd. */
function Rule({ rule, limit = Infinity }: { readonly rule: string; readonly limit?: number }): JSX.Element {
  const blanks = rule.length <= limit ? /(?<! ) *$/.exec(rule)?.[0].length ?? 0 : 0;
  return (
    <code>
      <VisibleText text={rule.slice(0, rule.length - blanks)} limit={limit} />
      {blanks > 0 && <span class="muted" title="space">{"␣".repeat(Math.min(blanks, 8))}</span>}
    </code>
  );
}

export function isOwnRequest({ caller, end_user }: ApprovalRecord, reader: string): boolean {
  return isRequester({ caller, endUser: end_user ?? "" }, reader);
}

export function Age({ since, now }: { readonly since: number; readonly now: number }): JSX.Element {
  return <time {...timeData(since)} data-since={since}>{formatSpan(now - since)}</time>;
}

export function TimeLeft({ until, now }: { readonly until: number; readonly now: number }): JSX.Element {
  return <time {...timeData(until)} data-until={until}>{formatSpan(until - now)}</time>;
}

function timeData(ms: number) {
  const date = new Date(ms);
  const dateTime = Number.isNaN(date.getTime()) ? "" : date.toISOString();
  return { class: "count", dateTime, title: formatUtc(ms) };
}
