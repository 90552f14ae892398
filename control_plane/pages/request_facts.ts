import {
  accessKind,
  accessParts,
  accessTitle,
  canonicalSudoUser,
  describeDiff,
  describeSpan,
  isCommandShown,
} from "@gateway/shared/policy";
import type {
  ApprovalRecord,
  ApprovalStatus,
  K8sDiff,
  K8sFieldChange,
  SignedApproval,
} from "@gateway/shared/wire";
import { BEHAVIOR_RULE, isRequester, type StoredRequest } from "../approvals/approval.ts";
import {
  findSuspiciousCharacters,
  formatCount,
  formatDuration,
  formatUtc,
  type Html,
  type HtmlValue,
  markup,
  showText,
} from "./html.ts";
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
export function renderKeyFacts({ approval, now }: RequestFacts): Html {
  const { account, addr, created_at, expires_at, status, joined = [], sudo, target_type } = approval;
  const { signed_approval } = approval;
  const unnamed = target_type === "k8s"
    ? "a ServiceAccount that the signer did not report"
    : "the host’s account";
  const requests = joined.length + 1;
  const timeLeft = status === "pending" && expires_at !== undefined &&
    markup`; time left: <b>${showTimeLeft(parseTime(expires_at), now)}</b>`;
  return renderList("facts key", [
    ["Runs as", [
      account === undefined ? unnamed : showText(account),
      sudo === true && markup`, then ${showElevation(approval)}`,
    ]],
    ["Address", addr !== undefined && showText(addr)],
    ["Trigger", showWhy(approval)],
    ["Signatures", signed_approval !== undefined && showSignatures(signed_approval)],
    ["Requests", requests > 1 && `${requests}; the decision applies to all`],
    ["Age", [showAge(parseTime(created_at), now), timeLeft]],
  ]);
}

function showSignatures({ required, approved_by }: SignedApproval): Html {
  return markup`${approved_by.length} of ${required}${
    approved_by.length > 0 && markup`: ${separated(approved_by.map((name) => showText(name)), ", ")}`
  }`;
}

function showWhy({ rule, anomalies = [] }: ApprovalRecord): HtmlValue {
  const unusual = anomalies.length === 0
    ? "unusual request"
    : markup`unusual request: ${separated(anomalies.map(showAnomaly), ", ")}`;
  if (rule === undefined || rule === BEHAVIOR_RULE) return unusual;
  return markup`policy rule ${showRule(rule, MOST_OF_A_RULE)}${anomalies.length > 0 && ["; ", unusual]}`;
}

/** All facts as a list. */
export function renderFacts({ approval, asked, now }: RequestFacts): Html {
  const { caller, end_user, host, id, created_at, life_seconds, rule, anomalies = [], joined = [] } =
    approval;
  const created = parseTime(created_at);
  const groups = asked?.end_user_groups ?? undefined;
  const ttlSeconds = asked?.ttl_seconds ?? 0;
  const list = (items: readonly HtmlValue[]) =>
    items.length > 0 && markup`<ul>${items.map((item) => markup`<li>${item}</li>`)}</ul>`;
  return renderList("facts", [
    ["Requester", showText(caller)],
    ["On behalf of", end_user === undefined ? "not reported by a trusted broker" : showText(end_user)],
    [
      "Groups (reported by the broker)",
      groups && (groups.length === 0 ? "none" : separated(groups.map((name) => showText(name)), ", ")),
    ],
    [asked?.target_type === "k8s" ? "Cluster" : "Host", showText(host)],
    ["Elevation", showElevation(approval)],
    ["Kind", asked && showKind(asked)],
    ["Requested lifetime", ttlSeconds > 0 && formatDuration(ttlSeconds * 1000)],
    ["Certificate lifetime", life_seconds !== undefined && describeSpan(life_seconds)],
    ["Matched rule", rule !== undefined && showRule(rule)],
    ["Anomalies", list(anomalies.map(showAnomaly))],
    ["Requested", [showAge(created, now), ` ago, on ${formatUtc(created)}`]],
    ["Request ID", markup`<code>${showText(id)}</code>`],
    ["Decided together with", list(joined.map((each) => markup`<code>${showText(each)}</code>`))],
  ]);
}

/** Facts without a value are left out. */
function renderList(style: string, facts: readonly (readonly [name: string, value: HtmlValue])[]): Html {
  return markup`<dl class="${style}">
${
    facts.map(([name, value]) =>
      value !== undefined && value !== false && markup`<div><dt>${name}</dt><dd>${value}</dd></div>\n`
    )
  }</dl>`;
}

function separated(items: readonly HtmlValue[], separator: string): readonly HtmlValue[] {
  return items.map((item, index) => index === 0 ? item : [separator, item]);
}

function showKind({ role, purpose, session_mode, pty, file_transfer }: StoredRequest): Html | string {
  if (role === "bastion") return "bastion, to connect to other hosts";
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

/** The approximate number of UTF-16 units that fit into the box without scrolling. */
const FITS = 800;
/** The maximum number of listed kinds of characters. Further kinds are counted together. */
const MOST_KINDS = 12;

/** The exact command, with a warning about characters that a reader could overlook. */
export function renderCommand(approval: ApprovalRecord): Html {
  const { command } = approval;
  return markup`<section class="panel brief" aria-labelledby="command"><h2 id="command">${
    approval.target_type === "k8s" ? "Action on the cluster" : "Command"
  }</h2>
${renderWarning(command)}${
    command === ""
      ? markup`<p class="muted">None. The request is for access, not for a command.</p>`
      : markup`<code class="command" tabindex="0" role="region" aria-label="Exact command">${
        showText(command)
      }</code>`
  }${command.length > FITS && renderLength(command)}${
    command !== "" && !isCommandShown(accessKind(approval)) &&
    markup`\n<p class="warning">This text is informational. The access is not limited to this command.</p>`
  }
</section>`;
}

export function renderContent({ content_sha256, content_bytes = 0, content_head }: ApprovalRecord): Html {
  const isCut = content_head !== undefined && new TextEncoder().encode(content_head).length < content_bytes;
  return markup`<section class="panel brief" aria-labelledby="content"><h2 id="content">Content to write (reported by the broker)</h2>
${
    content_head === undefined
      ? markup`<p class="muted">${content_bytes === 0 ? "Empty: the file is truncated." : "Not text."}</p>`
      : markup`<code class="command head" tabindex="0" role="region" aria-label="First lines of the content">${
        showLines(content_head, 40)
      }</code>`
  }
<p class="note">${isCut && "First lines of "}${
    formatCount(content_bytes)
  } bytes, SHA-256 <code>${content_sha256}</code></p>
</section>`;
}

/** The lines of a file. Indentation is usual and is not marked. */
function showLines(text: string, maxIndent: number): readonly HtmlValue[] {
  const lines = text.split("\n").map((line) => {
    const indent = /^[ \t]*/.exec(line)?.[0].slice(0, maxIndent) ?? "";
    return [indent, showText(line.slice(indent.length))];
  });
  return separated(lines, "\n");
}

function renderLength(command: string): Html {
  const lines = command.split("\n").length;
  return markup`\n<p class="note">${formatCount(command.length)} characters${
    lines > 1 && ` in ${formatCount(lines)} lines`
  }. Scroll to read all of it.</p>`;
}

function renderWarning(command: string): Html | undefined {
  const { odd, foreign } = findSuspiciousCharacters(command);
  if (odd.length === 0 && foreign === 0) return undefined;
  const others = odd.length - MOST_KINDS;
  return markup`<div class="warning">${
    odd.length > 0 &&
    markup`<p>This command contains invisible characters, shown in boxes:</p>
<ul>
${odd.slice(0, MOST_KINDS).map(({ name, count }) => markup`<li>${name}, ${times(count)}</li>\n`)}${
      others > 0 && markup`<li>${others} more kinds</li>\n`
    }</ul>`
  }${
    foreign > 0 &&
    markup`<p>Underlined with dots: ${formatCount(foreign)} non-ASCII ${
      foreign === 1 ? "character that may look like another" : "characters that may look like others"
    }.</p>`
  }</div>
`;
}

function times(count: number): string {
  return count === 1 ? "once" : `${formatCount(count)} times`;
}

export function renderManifest(
  { k8s_manifest, k8s_manifest_sha256, k8s_diff, k8s_force_fields }: ApprovalRecord,
): Html | undefined {
  if (k8s_manifest === undefined) return undefined;
  return markup`<section class="panel brief" aria-labelledby="change"><h2 id="change">Changes</h2>
${
    k8s_diff === undefined
      ? markup`<p class="warning">The signer did not report the changes.</p>`
      : renderDiff(k8s_diff)
  }
${
    k8s_force_fields !== undefined &&
    markup`<p class="warning">Takes over these fields of other managers: ${
      separated(k8s_force_fields.map((field) => markup`<code>${showText(field)}</code>`), ", ")
    }</p>`
  }
<details${
    k8s_diff?.kind === "changed" || k8s_diff?.kind === "unchanged" ? "" : " open"
  }><summary>Manifest</summary>
<code class="command head" tabindex="0" role="region" aria-label="Manifest">${
    showLines(layOut(k8s_manifest), 80)
  }</code>
<p class="note">The broker sends exactly this manifest, with the values of Secrets. Any other manifest needs its own approval. SHA-256 <code>${k8s_manifest_sha256}</code></p>
</details>
</section>`;
}

function renderDiff(diff: K8sDiff): Html {
  const { changes = [], omitted = 0 } = diff;
  return markup`<p${diff.kind === "unknown" && markup` class="warning"`}>At the time of the request, it ${
    diff.kind === "unknown" ? markup`is not known: ${showText(describeDiff(diff))}` : describeDiff(diff)
  }.</p>${
    changes.length > 0 &&
    markup`<div class="changes" tabindex="0" role="region" aria-label="Changed fields"><dl class="facts">
${changes.map((change) => markup`${renderChange(change)}\n`)}</dl></div>`
  }${omitted > 0 && markup`<p class="warning">${formatCount(omitted)} more fields are not shown.</p>`}`;
}

function renderChange({ path, before, after }: K8sFieldChange): Html {
  return markup`<div><dt><code>${showText(path)}</code></dt><dd>${
    before !== undefined && markup`<del><code>${showText(before)}</code></del>`
  }${before !== undefined && after !== undefined && " → "}${
    after !== undefined && markup`<ins><code>${showText(after)}</code></ins>`
  }${after === undefined && " (removed)"}</dd></div>`;
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

const STATUS: Readonly<Record<ApprovalStatus, { readonly word: string; readonly sign: string }>> = {
  pending: { word: "Pending", sign: "●" },
  approved: { word: "Approved", sign: "✓" },
  denied: { word: "Denied", sign: "✕" },
  expired: { word: "Expired", sign: "–" },
};

export function statusWord(status: ApprovalStatus): string {
  return STATUS[status].word;
}

export function showStatus(status: ApprovalStatus): Html {
  const { word, sign } = STATUS[status];
  return markup`<span class="status status-${status}"><span aria-hidden="true">${sign}</span> ${word}</span>`;
}

export function showElevation({ sudo, sudo_user }: Pick<ApprovalRecord, "sudo" | "sudo_user">): Html {
  const user = canonicalSudoUser(sudo, sudo_user);
  return user === ""
    ? markup`<span class="muted">none</span>`
    : markup`<span class="elevated">sudo as ${showText(user)}</span>`;
}

/** The continuation of "asks …", with texts of others in bold. */
export function showAsked(approval: ApprovalRecord): Html {
  return markup`${
    accessParts(approval).map((part) =>
      typeof part === "string"
        ? part
        : part.kind === "elevated"
        ? markup`<span class="elevated">${showText(part.text)}</span>`
        : markup`<b>${showText(part.text)}</b>`
    )
  }`;
}

/** The truncated command, or the title of a request without one. */
export function showWhat(approval: ApprovalRecord, limit: number): Html {
  const title = accessTitle(accessKind(approval));
  const command = markup`<code>${showText(approval.command, { limit })}</code>`;
  return title === undefined ? command : markup`<span class="elevated">${title}</span>`;
}

/** Spaces at the end of a pattern are usual and are not marked as odd. */
function showRule(rule: string, limit = Infinity): Html {
  const blanks = rule.length <= limit ? /(?<! ) *$/.exec(rule)?.[0].length ?? 0 : 0;
  return markup`<code>${showText(rule.slice(0, rule.length - blanks), { limit })}${
    blanks > 0 && markup`<span class="muted" title="space">${"␣".repeat(Math.min(blanks, 8))}</span>`
  }</code>`;
}

export function isOwnRequest({ caller, end_user }: ApprovalRecord, reader: string): boolean {
  return isRequester({ caller, endUser: end_user ?? "" }, reader);
}

export function showAge(since: number, now: number): Html {
  return markup`<time class="count" datetime="${isoTime(since)}" title="${
    formatUtc(since)
  }" data-since="${since}">${formatDuration(now - since)}</time>`;
}

export function showTimeLeft(until: number, now: number): Html {
  return markup`<time class="count" datetime="${isoTime(until)}" title="${
    formatUtc(until)
  }" data-until="${until}">${formatDuration(until - now)}</time>`;
}

function isoTime(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString();
}

export function parseTime(timestamp: string): number {
  return Date.parse(timestamp);
}
