import type { ApprovalRecord } from "@gateway/shared/wire";
import { cutText, formatSpan, visibleText } from "@gateway/shared/text";
import { Card, Problem, VisibleText } from "@gateway/shared/ui";
import type { JSX } from "preact";
import { DecisionForm, type FormOptions } from "./decision_form.tsx";
import { formatUtc } from "./format.ts";
import { LIST_PATH, renderPage } from "./page.tsx";
import { Command, Content, Manifest } from "./request_content.tsx";
import {
  Age,
  AllFacts,
  Asked,
  isOwnRequest,
  KeyFacts,
  type RequestFacts,
  Status,
  statusWord,
  TimeLeft,
  What,
} from "./request_facts.tsx";

export interface DetailPage extends RequestFacts, FormOptions {
  readonly hasSessions?: boolean | undefined;
  /** The reason why the reader's decision was rejected. */
  readonly problem?: string | undefined;
  /** The next request that the reader may decide, if this one is decided. */
  readonly next?: ApprovalRecord | undefined;
}

/** The maximum length of a command, in UTF-16 units. */
const MOST_OF_A_COMMAND = 120;

/** The page of one approval. */
export function renderDetailPage(page: DetailPage): string {
  const { approval, approver, now, problem, next, hasSessions } = page;
  const { id, host, caller, end_user, status, decided_by, expires_at, reason } = approval;
  const { content_sha256, joined, collected } = approval;
  const word = statusWord(status);
  return renderPage({
    title: `${problem === undefined ? "" : "Failed – "}${word}: ${
      visibleText(cutText(host, 60))
    } – Approvals`,
    ...{ approver, hasSessions },
    now,
    live: {
      state: [
        id,
        status,
        decided_by,
        expires_at,
        joined,
        collected,
        next?.id,
        approval.signed_approval?.approved_by,
      ],
      news: decided_by === undefined ? word : `${word} by ${visibleText(decided_by)}`,
      // Without an expiry the state is final.
      refreshSeconds: expires_at === undefined ? 0 : 3,
    },
    main: (
      <>
        {problem !== undefined && (
          <div id="problem">
            <Problem>
              Decision failed: <VisibleText text={problem} />.
            </Problem>
          </div>
        )}
        <div class="head">
          <h1 tabIndex={-1}>Approval request</h1>
          <Status status={status} />
        </div>
        <p class="lead">
          <b>
            <VisibleText text={caller} />
          </b>
          {end_user !== undefined && (
            <>
              {", for "}
              <b>
                <VisibleText text={end_user} />
              </b>
              {","}
            </>
          )}
          {" asks "}
          <Asked approval={approval} />.
        </p>
        {reason !== undefined && (
          <p class="reason">
            <span class="muted">Reason given:</span>{" "}
            <q>
              <VisibleText text={reason} />
            </q>
          </p>
        )}
        <Command approval={approval} />
        {content_sha256 !== undefined && <Content {...approval} />}
        <Manifest {...approval} />
        <KeyFacts {...page} />
        <Card class="brief" id="decision" title="Decision">
          {status === "pending" ? <Pending {...page} /> : <Decided {...page} />}
        </Card>
        <Card id="request" title="Request">
          <AllFacts {...page} />
        </Card>
        {next !== undefined && <Next approval={next} now={now} />}
        <p>
          <a href={LIST_PATH}>All approvals</a>
        </p>
      </>
    ),
  });
}

function Next({ approval, now }: RequestFacts): JSX.Element {
  const { id, host, expires_at } = approval;
  return (
    <p>
      <a id="next" href={`${LIST_PATH}/${encodeURIComponent(id.toWellFormed())}`}>Next pending request</a>
      {": "}
      <What approval={approval} limit={MOST_OF_A_COMMAND} />
      {" on "}
      <VisibleText text={host} />
      {expires_at !== undefined && (
        <>
          {", time left: "}
          <TimeLeft until={Date.parse(expires_at)} now={now} />
        </>
      )}
    </p>
  );
}

function Pending(page: DetailPage): JSX.Element {
  return isOwnRequest(page.approval, page.approver)
    ? <p>You cannot decide your own request. Another approver has to decide it.</p>
    : <DecisionForm {...page} />;
}

function Decided({ approval, now }: DetailPage): JSX.Element {
  const { status, comment } = approval;
  return (
    <>
      <p>
        <Verdict approval={approval} now={now} />
      </p>
      {comment !== undefined && (
        <p>
          <span class="muted">Comment:</span>{" "}
          <q>
            <VisibleText text={comment} />
          </q>
        </p>
      )}
      <Learned {...approval} />
      {status === "approved" && <Collected approval={approval} now={now} />}
    </>
  );
}

function Collected({ approval, now }: RequestFacts): JSX.Element {
  const { joined = [], collected = 0, expires_at } = approval;
  const left = expires_at !== undefined && (
    <>
      {"; time left: "}
      <TimeLeft until={Date.parse(expires_at)} now={now} />
    </>
  );
  if (joined.length > 0) {
    return <p>{`${collected} of ${joined.length + 1} requests have collected the result`}{left}.</p>;
  }
  return expires_at === undefined
    ? <p>The broker has collected the result.</p>
    : <p>The broker has not collected the result yet{left}.</p>;
}

/** The waiver starts when the broker collects the approval, and the signer's config can shorten it. */
function Learned({ status, learn_ttl, expires_at }: ApprovalRecord): JSX.Element | null {
  if (learn_ttl === undefined) return null;
  if (status === "expired") return <p>Nothing was learned.</p>;
  const time = formatSpan(Number(learn_ttl / 1_000_000n));
  return (
    <p>
      {expires_at === undefined
        ? `Since the collection, identical requests need no approval for ${time}, or for the signer’s maximum if that is shorter.`
        : `After the collection, identical requests need no approval for ${time}.`}
    </p>
  );
}

function Verdict({ approval, now }: RequestFacts): JSX.Element {
  const { status, decided_by, decided_at } = approval;
  if (decided_by === undefined) return <>No approver decided in time.</>;
  const decided = Date.parse(decided_at);
  return (
    <>
      {`${status === "denied" ? "Denied" : "Approved"} by `}
      <b>
        <VisibleText text={decided_by} />
      </b>{" "}
      <Age since={decided} now={now} />
      {` ago, on ${formatUtc(decided)}${status === "expired" ? ", but not collected in time" : ""}.`}
    </>
  );
}
