import { accessKind, accessTitle } from "@gateway/shared/policy";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { cutText, visibleText } from "@gateway/shared/text";
import { Empty, Table, VisibleText } from "@gateway/shared/ui";
import type { JSX } from "preact";
import { formatCount } from "./format.ts";
import { LIST_PATH, renderPage } from "./page.tsx";
import { Age, Elevation, isOwnRequest, Status, TimeLeft, What } from "./request_facts.tsx";

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
    main: (
      <>
        <h1 tabIndex={-1}>Approvals</h1>
        {pending.length === 0 ? <Empty icon="check" title="No pending requests" /> : (
          <Requests
            id="waiting"
            caption={waiting}
            last="Time left"
            approvals={pending}
            {...{ approver, now }}
          />
        )}
        {past.length > 0 && (
          <Requests
            id="past"
            caption="Decided and expired requests"
            last="Status"
            approvals={past}
            {...{ approver, now }}
          />
        )}
      </>
    ),
  });
}

function Requests({ id, caption, last, approvals, approver, now }: {
  readonly id: string;
  readonly caption: string;
  readonly last: "Time left" | "Status";
  readonly approvals: readonly ApprovalRecord[];
  readonly approver: string;
  readonly now: number;
}): JSX.Element {
  const left = approvals.length - MOST_ROWS;
  return (
    <div>
      <Table
        id={id}
        caption={caption}
        columns={[
          { name: "Request", show: showRequest },
          { name: "Host", show: showHost },
          { name: "Elevation", show: (approval) => <Elevation {...approval} /> },
          { name: "Requester", show: showRequester },
          {
            name: last,
            show: (approval) => last === "Status" ? showOutcome(approval, now) : showDeadline(approval, now),
          },
          { name: "Request page", isNameHidden: true, show: (approval) => showLink(approval, approver) },
        ]}
        rows={approvals.slice(0, MOST_ROWS)}
        keyOf={({ id }) => id}
      />
      {left > 0 && (
        <p class="note">
          {formatCount(left)} more: run <code>broker-ctl approval list</code> to see all.
        </p>
      )}
    </div>
  );
}

function showRequest(approval: ApprovalRecord): JSX.Element {
  const { content_bytes, joined = [] } = approval;
  const kind = accessKind(approval);
  const written = content_bytes === undefined ? "" : `: writes ${formatCount(content_bytes)} bytes`;
  return (
    <>
      <What approval={approval} limit={MOST_OF_A_COMMAND} />
      {kind === "transfer" && <span class="sub">{` transfers a file${written}`}</span>}
      {kind === "question" && <span class="sub">policy check only</span>}
      {joined.length > 0 && <span class="sub">{` requested ${joined.length + 1} times`}</span>}
    </>
  );
}

function showHost({ host, addr }: ApprovalRecord): JSX.Element {
  return (
    <>
      <VisibleText text={host} />
      {addr !== undefined && (
        <span class="sub">
          {" "}
          <VisibleText text={addr} />
        </span>
      )}
    </>
  );
}

function showRequester({ caller, end_user }: ApprovalRecord): JSX.Element {
  return (
    <>
      <VisibleText text={caller} />
      {end_user !== undefined && (
        <span class="sub">
          {" for "}
          <VisibleText text={end_user} />
        </span>
      )}
    </>
  );
}

function showDeadline({ created_at, expires_at }: ApprovalRecord, now: number): JSX.Element {
  return (
    <>
      {expires_at !== undefined && <TimeLeft until={Date.parse(expires_at)} now={now} />}
      <span class="sub">
        {" requested "}
        <Age since={Date.parse(created_at)} now={now} />
        {" ago"}
      </span>
    </>
  );
}

function showOutcome(approval: ApprovalRecord, now: number): JSX.Element {
  const { status, decided_by, decided_at } = approval;
  return (
    <>
      <Status status={status} />
      {decided_by !== undefined && (
        <span class="sub">
          {" by "}
          <VisibleText text={decided_by} />
          {", "}
          <Age since={Date.parse(decided_at)} now={now} />
          {" ago"}
        </span>
      )}
      {status === "approved" && <span class="sub">{` ${describeCollected(approval)}`}</span>}
    </>
  );
}

function describeCollected({ joined = [], collected = 0 }: ApprovalRecord): string {
  if (joined.length > 0) return `${collected} of ${joined.length + 1} collected`;
  return collected > 0 ? "collected" : "not collected yet";
}

function showLink(approval: ApprovalRecord, approver: string): JSX.Element {
  const { id, command, host, status } = approval;
  const word = status !== "pending" ? "View" : isOwnRequest(approval, approver) ? "View own" : "Review";
  // Screen readers list links without their rows.
  const title = accessTitle(accessKind(approval)) ?? cutText(command, 80);
  return (
    <a
      id={`view-${id}`}
      class={`button ${word === "Review" ? "primary" : ""}`}
      href={`${LIST_PATH}/${encodeURIComponent(id.toWellFormed())}`}
    >
      {word}
      <span class="unseen">{`: ${visibleText(`${title} on ${cutText(host, 80)}`)}`}</span>
    </a>
  );
}
