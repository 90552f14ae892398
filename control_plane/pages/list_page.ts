import { accessKind, accessTitle } from "@gateway/shared/policy";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { cutText, visibleText } from "@gateway/shared/text";
import { formatCount, type Html, markup, showText } from "./html.ts";
import { LIST_PATH, renderPage } from "./page.ts";
import {
  isOwnRequest,
  parseTime,
  showAge,
  showElevation,
  showStatus,
  showTimeLeft,
  showWhat,
} from "./request_facts.ts";

export interface ListPage {
  readonly approvals: readonly ApprovalRecord[];
  /** The CN of the reader's certificate. */
  readonly approver: string;
  readonly hasSessions?: boolean | undefined;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** The maximum number of rows. Further rows are only counted, so that the page stays fast. */
const MOST_ROWS = 200;
/** The maximum length of a command, in UTF-16 units. */
const MOST_OF_A_COMMAND = 200;

/** The list of approvals: pending requests, then the others. */
export function renderListPage({ approvals, approver, hasSessions, now }: ListPage): string {
  const pending = approvals.filter(({ status }) => status === "pending");
  const past = approvals.filter(({ status }) => status !== "pending");
  const waiting = pending.length === 1 ? "1 pending request" : `${pending.length} pending requests`;
  return renderPage({
    title: `${pending.length > 0 ? `(${pending.length}) ` : ""}Approvals`,
    ...{ approver, hasSessions },
    now,
    live: {
      state: approvals.map((each) => [
        each.id,
        each.status,
        each.decided_by,
        each.expires_at,
        each.joined?.length,
        each.collected,
      ]),
      news: waiting,
      refreshSeconds: 3,
      reloadSeconds: 10,
    },
    main: markup`<h1 tabindex="-1">Approvals</h1>
${
      pending.length === 0 ? markup`<p class="empty">No pending requests</p>` : renderTable({
        id: "waiting",
        caption: waiting,
        columns: ["Request", "Host", "Elevation", "Requester", "Time left"],
        rows: pending.slice(0, MOST_ROWS).map((approval) => renderPending(approval, { approver, now })),
        left: pending.length - MOST_ROWS,
      })
    }
${
      past.length > 0 &&
      renderTable({
        id: "past",
        caption: "Decided and expired requests",
        columns: ["Request", "Host", "Elevation", "Requester", "Status"],
        rows: past.slice(0, MOST_ROWS).map((approval) => renderPast(approval, now)),
        left: past.length - MOST_ROWS,
      })
    }`,
  });
}

interface Table {
  readonly id: string;
  readonly caption: string;
  readonly columns: readonly string[];
  readonly rows: readonly Html[];
  /** The number of rows that are left out. */
  readonly left: number;
}

// Explicit roles: narrow screens lay the table out as blocks, and browsers then drop its semantics.
function renderTable({ id, caption, columns, rows, left }: Table): Html {
  return markup`<div><h2 id="${id}">${caption}</h2>
<table role="table" aria-labelledby="${id}">
<thead role="rowgroup"><tr role="row">
${columns.map((column) => markup`<th role="columnheader" scope="col">${column}</th>\n`)}
<th role="columnheader" scope="col" class="go"><span class="unseen">Request page</span></th>
</tr></thead>
<tbody role="rowgroup">
${rows}</tbody></table>${
    left > 0 &&
    markup`\n<p class="note">${left} more: run <code>broker-ctl approval list</code> to see all.</p>`
  }</div>`;
}

function renderPending(
  approval: ApprovalRecord,
  { approver, now }: { readonly approver: string; readonly now: number },
): Html {
  const { created_at, expires_at } = approval;
  const cell = markup`<td role="cell" data-label="Time left">${
    expires_at !== undefined && showTimeLeft(parseTime(expires_at), now)
  } <span class="sub">requested ${showAge(parseTime(created_at), now)} ago</span></td>`;
  return renderRow(approval, cell, isOwnRequest(approval, approver) ? "View own" : "Review");
}

function renderPast(approval: ApprovalRecord, now: number): Html {
  const { status, decided_by, decided_at } = approval;
  const cell = markup`<td role="cell" data-label="Status">${showStatus(status)}${
    decided_by !== undefined &&
    markup` <span class="sub">by ${showText(decided_by)}, ${showAge(parseTime(decided_at), now)} ago</span>`
  }${status === "approved" && markup` <span class="sub">${describeCollected(approval)}</span>`}</td>`;
  return renderRow(approval, cell, "View");
}

function describeCollected({ joined = [], collected = 0 }: ApprovalRecord): string {
  if (joined.length > 0) return `${collected} of ${joined.length + 1} collected`;
  return collected > 0 ? "collected" : "not collected yet";
}

function renderRow(approval: ApprovalRecord, lastCell: Html, label: string): Html {
  const { id, command, host, addr, caller, end_user, content_bytes, joined = [] } = approval;
  const kind = accessKind(approval);
  // Screen readers list links without their rows.
  const request = visibleText(`${accessTitle(kind) ?? cutText(command, 80)} on ${cutText(host, 80)}`);
  return markup`<tr role="row">
<td role="cell">${showWhat(approval, MOST_OF_A_COMMAND)}${
    kind === "transfer" &&
    markup` <span class="sub">transfers a file${
      content_bytes !== undefined && `: writes ${formatCount(content_bytes)} bytes`
    }</span>`
  }${kind === "question" && markup` <span class="sub">policy check only</span>`}${
    joined.length > 0 && markup` <span class="sub">requested ${joined.length + 1} times</span>`
  }</td>
<td role="cell" data-label="Host">${showText(host)}${
    addr !== undefined && markup` <span class="sub">${showText(addr)}</span>`
  }</td>
<td role="cell" data-label="Elevation">${showElevation(approval)}</td>
<td role="cell" data-label="Requester">${showText(caller)}${
    end_user !== undefined && markup` <span class="sub">for ${showText(end_user)}</span>`
  }</td>
${lastCell}
<td role="cell" class="go"><a id="view-${id}" href="${LIST_PATH}/${
    encodeURIComponent(id.toWellFormed())
  }">${label}<span class="unseen">: ${request}</span></a></td>
</tr>
`;
}
