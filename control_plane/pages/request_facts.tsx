import {
  accessKind,
  accessParts,
  accessTitle,
  canonicalSudoUser,
  describeDiff,
  describeSpan,
  isCommandShown,
} from "@gateway/shared/policy";
import type { ApprovalRecord, ApprovalStatus, K8sDiff, SignedApproval } from "@gateway/shared/wire";
import {
  Badge,
  Card,
  findSuspiciousCharacters,
  type IconName,
  type Tone,
  VisibleText,
} from "@gateway/shared/ui";
import { type ComponentChildren, Fragment, type JSX } from "preact";
import { BEHAVIOR_RULE, isRequester, type StoredRequest } from "../approvals/approval.ts";
import { formatCount, formatUtc } from "./format.ts";
import { formatSpan } from "@gateway/shared/text";
import { parseJson, parseStandardJson, stringifyJson } from "@gateway/shared/json";

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
        <Age since={parseTime(created_at)} now={now} />
        {status === "pending" && expires_at !== undefined && (
          <>
            {"; time left: "}
            <b>
              <TimeLeft until={parseTime(expires_at)} now={now} />
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
  const created = parseTime(created_at);
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
const showCode = (text: string) => (
  <code>
    <VisibleText text={text} />
  </code>
);

function List({ items, show = showItem }: Items): JSX.Element {
  return <ul>{items.map((item, index) => <li key={index}>{show(item)}</li>)}</ul>;
}

function Separated({ items, show = showItem, separator = ", " }: Items & { readonly separator?: string }) {
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

/** The approximate number of UTF-16 units that fit into the box without scrolling. */
const FITS = 800;
/** The maximum number of listed kinds of characters. Further kinds are counted together. */
const MOST_KINDS = 12;

/** The exact command, with a warning about characters that a reader could overlook. */
export function Command({ approval }: { readonly approval: ApprovalRecord }): JSX.Element {
  const { command } = approval;
  return (
    <Card
      class="brief"
      id="command"
      title={approval.target_type === "k8s" ? "Action on the cluster" : "Command"}
    >
      <Suspicious command={command} />
      {command === ""
        ? <p class="muted">None. The request is for access, not for a command.</p>
        : (
          <Box label="Exact command">
            <VisibleText text={command} />
          </Box>
        )}
      {command.length > FITS && <Length command={command} />}
      {command !== "" && !isCommandShown(accessKind(approval)) && (
        <p class="warning">This text is informational. The access is not limited to this command.</p>
      )}
    </Card>
  );
}

/** Text in a fixed-width font that scrolls. */
function Box(
  { label, isHead = false, children }: {
    readonly label: string;
    readonly isHead?: boolean;
    readonly children: ComponentChildren;
  },
): JSX.Element {
  return (
    <code class={`code command ${isHead ? "head" : ""}`} tabIndex={0} role="region" aria-label={label}>
      {children}
    </code>
  );
}

export function Content({ content_sha256, content_bytes = 0, content_head }: ApprovalRecord): JSX.Element {
  const isCut = content_head !== undefined && new TextEncoder().encode(content_head).length < content_bytes;
  return (
    <Card class="brief" id="content" title="Content to write (reported by the broker)">
      {content_head === undefined
        ? <p class="muted">{content_bytes === 0 ? "Empty: the file is truncated." : "Not text."}</p>
        : (
          <Box label="First lines of the content" isHead>
            <Lines text={content_head} maxIndent={40} />
          </Box>
        )}
      <p class="note">
        {`${isCut ? "First lines of " : ""}${formatCount(content_bytes)} bytes, SHA-256 `}
        <code>{content_sha256}</code>
      </p>
    </Card>
  );
}

/** The lines of a file. Indentation is usual and is not marked. */
function Lines({ text, maxIndent }: { readonly text: string; readonly maxIndent: number }): JSX.Element {
  const showLine = (line: string) => {
    const indent = /^[ \t]*/.exec(line)?.[0].slice(0, maxIndent) ?? "";
    return (
      <>
        {indent}
        <VisibleText text={line.slice(indent.length)} />
      </>
    );
  };
  return <Separated items={text.split("\n")} show={showLine} separator={LINE_END} />;
}

const LINE_END = "\n";

function Length({ command }: { readonly command: string }): JSX.Element {
  const lines = command.split("\n").length;
  const count = lines > 1 ? ` in ${formatCount(lines)} lines` : "";
  return <p class="note">{`${formatCount(command.length)} characters${count}. Scroll to read all of it.`}</p>;
}

function Suspicious({ command }: { readonly command: string }): JSX.Element | null {
  const { odd, foreign } = findSuspiciousCharacters(command);
  if (odd.length === 0 && foreign === 0) return null;
  const others = odd.length - MOST_KINDS;
  const kinds = odd.slice(0, MOST_KINDS).map(({ name, count }) => `${name}, ${times(count)}`);
  return (
    <div class="warning">
      {odd.length > 0 && (
        <>
          <p>This command contains invisible characters, shown in boxes:</p>
          <List items={others > 0 ? [...kinds, `${others} more kinds`] : kinds} />
        </>
      )}
      {foreign > 0 && (
        <p>
          {`Underlined with dots: ${formatCount(foreign)} non-ASCII ${
            foreign === 1 ? "character that may look like another" : "characters that may look like others"
          }.`}
        </p>
      )}
    </div>
  );
}

function times(count: number): string {
  return count === 1 ? "once" : `${formatCount(count)} times`;
}

export function Manifest(
  { k8s_manifest, k8s_manifest_sha256, k8s_diff, k8s_force_fields = [] }: ApprovalRecord,
): JSX.Element | null {
  if (k8s_manifest === undefined) return null;
  return (
    <Card class="brief" id="change" title="Changes">
      {k8s_diff === undefined
        ? <p class="warning">The signer did not report the changes.</p>
        : <Diff diff={k8s_diff} />}
      {k8s_force_fields.length > 0 && (
        <p class="warning">
          {"Takes over these fields of other managers: "}
          <Separated items={k8s_force_fields} show={showCode} />
        </p>
      )}
      <details open={k8s_diff?.kind !== "changed" && k8s_diff?.kind !== "unchanged"}>
        <summary>Manifest</summary>
        <Box label="Manifest" isHead>
          <Lines text={layOut(k8s_manifest)} maxIndent={80} />
        </Box>
        <p class="note">
          {"The broker sends exactly this manifest, with the values of Secrets. Any other manifest needs its own " +
            "approval. SHA-256 "}
          <code>{k8s_manifest_sha256}</code>
        </p>
      </details>
    </Card>
  );
}

function Diff({ diff }: { readonly diff: K8sDiff }): JSX.Element {
  const { kind, changes = [], omitted = 0 } = diff;
  const said = describeDiff(diff);
  return (
    <>
      {kind === "unknown"
        ? (
          <p class="warning">
            At the time of the request, it is not known: <VisibleText text={said} />.
          </p>
        )
        : <p>{`At the time of the request, it ${said}.`}</p>}
      {changes.length > 0 && (
        <div class="changes" tabIndex={0} role="region" aria-label="Changed fields">
          <dl class="facts">
            {changes.map(({ path, before, after }) => (
              <div key={path}>
                <dt>
                  <code>
                    <VisibleText text={path} />
                  </code>
                </dt>
                <dd>
                  {before !== undefined && (
                    <del>
                      <code>
                        <VisibleText text={before} />
                      </code>
                    </del>
                  )}
                  {before !== undefined && after !== undefined && " → "}
                  {after === undefined ? " (removed)" : (
                    <ins>
                      <code>
                        <VisibleText text={after} />
                      </code>
                    </ins>
                  )}
                </dd>
              </div>
            ))}
          </dl>
        </div>
      )}
      {omitted > 0 && <p class="warning">{`${formatCount(omitted)} more fields are not shown.`}</p>}
    </>
  );
}

/** Indented JSON, unless that would change a value: an integer may be longer than a number. */
function layOut(text: string): string {
  try {
    const value = parseStandardJson(text);
    return JSON.stringify(value) === stringifyJson(parseJson(text)) ? JSON.stringify(value, null, 2) : text;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return text;
    throw error;
  }
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

export function parseTime(timestamp: string): number {
  return Date.parse(timestamp);
}
