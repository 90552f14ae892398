import type { ApprovalRecord } from "@gateway/shared/wire/approval";
import { cutText, visibleText } from "@gateway/shared/visible";
import { type Html, markup } from "./html.ts";
import { LIST_PATH, renderPage } from "./page.ts";
import { isOwnRequest, parseTime, showAge, showElevation, showStatus, showTimeLeft } from "./request_text.ts";
import { showText } from "./shown_text.ts";

/** What the list shows. */
export interface ListPage {
  /** In the order to show them. */
  readonly approvals: readonly ApprovalRecord[];
  /** Who reads it, by the CN of the certificate. */
  readonly approver: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** More rows than this help nobody, and the page has to stay quick: the rest is counted. */
const MOST_ROWS = 200;
/** UTF-16 units of a command in a row; the whole is on the request's own page. */
const MOST_OF_A_COMMAND = 200;

/** `GET /ui/approvals`: what waits for a decision, then all else. */
export function renderListPage({ approvals, approver, now }: ListPage): string {
  const pending = approvals.filter(({ status }) => status === "pending");
  const past = approvals.filter(({ status }) => status !== "pending");
  const waiting = pending.length === 1 ? "1 request waits" : `${pending.length} requests wait`;
  return renderPage({
    title: `${pending.length > 0 ? `(${pending.length}) ` : ""}Approvals`,
    approver,
    now,
    live: {
      state: approvals.map(({ id, status, decided_by, expires_at }) => [id, status, decided_by, expires_at]),
      news: `${waiting} for a decision`,
      refreshSeconds: 3,
      reloadSeconds: 10,
    },
    main: markup`<h1 tabindex="-1">Approvals</h1>
${
      pending.length === 0 ? markup`<p class="empty">No request waits for a decision.</p>` : renderTable({
        caption: `${waiting} for a decision`,
        columns: ["Command", "Host", "Elevation", "Asked by", "Time left"],
        rows: pending.slice(0, MOST_ROWS).map((approval) => renderPending(approval, { approver, now })),
        left: pending.length - MOST_ROWS,
      })
    }
${
      past.length > 0 &&
      renderTable({
        caption: "Decided and expired",
        columns: ["Command", "Host", "Elevation", "Asked by", "Status"],
        rows: past.slice(0, MOST_ROWS).map((approval) => renderPast(approval, now)),
        left: past.length - MOST_ROWS,
      })
    }`,
  });
}

interface Table {
  readonly caption: string;
  readonly columns: readonly string[];
  readonly rows: readonly Html[];
  /** How many rows are left out. */
  readonly left: number;
}

// Roles in words: narrow screens lay the table out as blocks, and browsers then forget that it is one.
function renderTable({ caption, columns, rows, left }: Table): Html {
  return markup`<div><table role="table">
<caption><h2>${caption}</h2></caption>
<thead role="rowgroup"><tr role="row">
${columns.map((column) => markup`<th role="columnheader" scope="col">${column}</th>\n`)}
<th role="columnheader" scope="col" class="go"><span class="unseen">Page of the request</span></th>
</tr></thead>
<tbody role="rowgroup">
${rows}</tbody></table>${
    left > 0 &&
    markup`\n<p class="note">${left} more are not shown here: broker-ctl approval list has them.</p>`
  }</div>`;
}

function renderPending(
  approval: ApprovalRecord,
  { approver, now }: { readonly approver: string; readonly now: number },
): Html {
  const { created_at, expires_at } = approval;
  return markup`<tr role="row">
${renderRequestCells(approval)}
<td role="cell" data-label="Time left">${
    expires_at !== undefined && showTimeLeft(parseTime(expires_at), now)
  } <span class="sub">asked ${showAge(parseTime(created_at), now)} ago</span></td>
${renderLink(approval, isOwnRequest(approval, approver) ? "View your own" : "Review")}
</tr>
`;
}

function renderPast(approval: ApprovalRecord, now: number): Html {
  const { status, decided_by, decided_at } = approval;
  return markup`<tr role="row">
${renderRequestCells(approval)}
<td role="cell" data-label="Status">${showStatus(status)}${
    decided_by !== undefined &&
    markup` <span class="sub">by ${showText(decided_by)}, ${showAge(parseTime(decided_at), now)} ago</span>`
  }</td>
${renderLink(approval, "View")}
</tr>
`;
}

function renderRequestCells(approval: ApprovalRecord): Html {
  const { command, host, caller, end_user } = approval;
  return markup`<td role="cell"><code>${showText(command, { limit: MOST_OF_A_COMMAND })}</code></td>
<td role="cell" data-label="Host">${showText(host)}</td>
<td role="cell" data-label="Elevation">${showElevation(approval)}</td>
<td role="cell" data-label="Asked by">${showText(caller)}${
    end_user !== undefined && markup` <span class="sub">for ${showText(end_user)}</span>`
  }</td>`;
}

function renderLink({ id, command, host }: ApprovalRecord, label: string): Html {
  // For those who go from link to link: each says where it leads.
  const request = visibleText(`${cutText(command, 80)} on ${cutText(host, 80)}`);
  return markup`<td role="cell" class="go"><a id="view-${id}" href="${LIST_PATH}/${
    encodeURIComponent(id.toWellFormed())
  }">${label}<span class="unseen">: ${request}</span></a></td>`;
}
