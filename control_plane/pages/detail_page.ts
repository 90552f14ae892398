import type { ApprovalRecord } from "@gateway/shared/wire";
import { cutText, visibleText } from "@gateway/shared/text";
import { type FormOptions, renderDecisionForm } from "./decision_form.ts";
import { formatDuration, formatUtc, type Html, markup, showText } from "./html.ts";
import {
  isOwnRequest,
  parseTime,
  renderCommand,
  renderContent,
  renderFacts,
  renderKeyFacts,
  renderManifest,
  type RequestFacts,
  showAge,
  showAsked,
  showStatus,
  showTimeLeft,
  showWhat,
  statusWord,
} from "./request_facts.ts";
import { LIST_PATH, renderPage } from "./page.ts";

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
  const { approval, approver, now, problem, next } = page;
  const { id, host, caller, end_user, status, decided_by, expires_at, reason } = approval;
  const { content_sha256, joined, collected } = approval;
  const word = statusWord(status);
  return renderPage({
    title: `${problem === undefined ? "" : "Failed – "}${word}: ${
      visibleText(cutText(host, 60))
    } – Approvals`,
    ...{ approver, hasSessions: page.hasSessions },
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
    main: markup`${
      problem !== undefined &&
      markup`<p class="problem" id="problem" role="alert" tabindex="-1">Decision failed: ${
        showText(problem)
      }.</p>`
    }
<div class="head"><h1 tabindex="-1">Approval request</h1>${showStatus(status)}</div>
<p class="lead"><b>${showText(caller)}</b>${
      end_user !== undefined && markup`, for <b>${showText(end_user)}</b>,`
    } asks ${showAsked(approval)}.</p>
${
      reason !== undefined &&
      markup`<p class="reason"><span class="muted">Reason given:</span> <q>${showText(reason)}</q></p>`
    }
${renderCommand(approval)}
${content_sha256 !== undefined && renderContent(approval)}
${renderManifest(approval)}
${renderKeyFacts(page)}
<section class="panel brief" aria-labelledby="decision"><h2 id="decision">Decision</h2>
${status === "pending" ? renderPending(page) : renderDecided(page)}
</section>
<section class="panel" aria-labelledby="request"><h2 id="request">Request</h2>
${renderFacts(page)}
</section>
${next !== undefined && renderNext(next, now)}
<p><a href="${LIST_PATH}">All approvals</a></p>`,
  });
}

function renderNext(approval: ApprovalRecord, now: number): Html {
  const { id, host, expires_at } = approval;
  return markup`<p><a id="next" href="${LIST_PATH}/${
    encodeURIComponent(id.toWellFormed())
  }">Next pending request</a>: ${showWhat(approval, MOST_OF_A_COMMAND)} on ${showText(host)}${
    expires_at !== undefined && markup`, time left: ${showTimeLeft(parseTime(expires_at), now)}`
  }</p>`;
}

function renderPending({ approval, approver, entered, nothingToLearn, isElsewhere }: DetailPage): Html {
  if (isOwnRequest(approval, approver)) {
    return markup`<p>You cannot decide your own request. Another approver has to decide it.</p>`;
  }
  return renderDecisionForm(approval, { approver, entered, nothingToLearn, isElsewhere });
}

function renderDecided({ approval, now }: DetailPage): Html {
  const { status, comment } = approval;
  return markup`<p>${renderVerdict(approval, now)}</p>${
    comment !== undefined && markup`\n<p><span class="muted">Comment:</span> <q>${showText(comment)}</q></p>`
  }${renderLearned(approval)}${status === "approved" && renderCollected(approval, now)}`;
}

function renderCollected({ joined = [], collected = 0, expires_at }: ApprovalRecord, now: number): Html {
  const left = expires_at !== undefined &&
    markup`; time left: ${showTimeLeft(parseTime(expires_at), now)}`;
  if (joined.length === 0) {
    return expires_at === undefined
      ? markup`\n<p>The broker has collected the result.</p>`
      : markup`\n<p>The broker has not collected the result yet${left}.</p>`;
  }
  return markup`\n<p>${collected} of ${joined.length + 1} requests have collected the result${left}.</p>`;
}

/** The waiver starts when the broker collects the approval, and the signer's config can shorten it. */
function renderLearned({ status, learn_ttl, expires_at }: ApprovalRecord): Html | undefined {
  if (learn_ttl === undefined) return undefined;
  if (status === "expired") return markup`\n<p>Nothing was learned.</p>`;
  const time = formatDuration(Number(learn_ttl / 1_000_000n));
  return expires_at === undefined
    ? markup`\n<p>Since the collection, identical requests need no approval for ${time}, or for the signer’s maximum if that is
shorter.</p>`
    : markup`\n<p>After the collection, identical requests need no approval for ${time}.</p>`;
}

function renderVerdict({ status, decided_by, decided_at }: ApprovalRecord, now: number): Html {
  if (decided_by === undefined) return markup`No approver decided in time.`;
  const decided = parseTime(decided_at);
  const verb = status === "denied" ? "Denied" : "Approved";
  return markup`${verb} by <b>${showText(decided_by)}</b> ${showAge(decided, now)} ago, on ${
    formatUtc(decided)
  }${status === "expired" && ", but not collected in time"}.`;
}
