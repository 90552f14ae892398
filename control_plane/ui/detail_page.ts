import type { ApprovalRecord } from "@gateway/shared/wire/approval";
import { cutText, visibleText } from "@gateway/shared/visible";
import { type FormOptions, renderDecisionForm } from "./decision_form.ts";
import { type Html, markup } from "./html.ts";
import { LIST_PATH, renderPage } from "./page.ts";
import { renderCommand } from "./request_command.ts";
import { renderFacts, type RequestFacts } from "./request_facts.ts";
import {
  isOwnRequest,
  parseTime,
  showAge,
  showElevation,
  showStatus,
  showTimeLeft,
  statusWord,
} from "./request_text.ts";
import { showText } from "./shown_text.ts";
import { formatDuration, formatUtc } from "./text_format.ts";

/** What a request's page shows. */
export interface DetailPage extends RequestFacts, FormOptions {
  /** Who reads it, by the CN of the certificate. */
  readonly approver: string;
  /** Why the reader's decision was not taken. */
  readonly problem?: string | undefined;
  /** What the reader may decide next, once this one is not pending any more. */
  readonly next?: ApprovalRecord | undefined;
}

/** UTF-16 units of the next request's command. */
const MOST_OF_A_COMMAND = 120;

/** `GET /ui/approvals/{id}`: everything to decide upon, and the form to do so. */
export function renderDetailPage(page: DetailPage): string {
  const { approval, approver, now, problem, next } = page;
  const { id, host, status, decided_by, expires_at } = approval;
  const word = statusWord(status);
  return renderPage({
    title: `${problem === undefined ? "" : "Not done – "}${word}: ${
      visibleText(cutText(host, 60))
    } – Approvals`,
    approver,
    now,
    live: {
      state: [id, status, decided_by, expires_at, next?.id],
      news: decided_by === undefined ? word : `${word} by ${visibleText(decided_by)}`,
      // Only what can still expire can still change.
      refreshSeconds: expires_at === undefined ? 0 : 3,
    },
    main: markup`${problem !== undefined && renderProblem(problem)}
<div class="head"><h1 tabindex="-1">Approval request</h1>${showStatus(status)}</div>
<p class="lead">${renderLead(approval)}</p>
${renderCommand(approval.command)}
<section class="panel" aria-labelledby="request"><h2 id="request">Request</h2>
${renderFacts(page)}
</section>
<section class="panel" aria-labelledby="decision"><h2 id="decision">Decision</h2>
${status === "pending" ? renderPending(page) : renderDecided(page)}
</section>
${next !== undefined && renderNext(next, now)}
<p><a href="${LIST_PATH}">All approvals</a></p>`,
  });
}

function renderProblem(problem: string): Html {
  return markup`<p class="problem" id="problem" role="alert" tabindex="-1">Not done: ${
    showText(problem)
  }.</p>`;
}

function renderLead(approval: ApprovalRecord): Html {
  const { caller, end_user, host, sudo } = approval;
  return markup`<b>${showText(caller)}</b>${
    end_user !== undefined && markup`, for <b>${showText(end_user)}</b>,`
  } asks to run this command on <b>${showText(host)}</b>${
    sudo === true && markup` with ${showElevation(approval)}`
  }.`;
}

function renderNext({ id, command, host, expires_at }: ApprovalRecord, now: number): Html {
  return markup`<p><a id="next" href="${LIST_PATH}/${
    encodeURIComponent(id.toWellFormed())
  }">Next request that waits</a>: <code>${showText(command, { limit: MOST_OF_A_COMMAND })}</code> on ${
    showText(host)
  }${expires_at !== undefined && markup`, time left: ${showTimeLeft(parseTime(expires_at), now)}`}</p>`;
}

function renderPending({ approval, approver, now, entered, nothingToLearn }: DetailPage): Html {
  const { expires_at } = approval;
  const left = expires_at !== undefined &&
    markup`<p>Time left: <b>${showTimeLeft(parseTime(expires_at), now)}</b></p>\n`;
  if (isOwnRequest(approval, approver)) {
    return markup`${left}<p>This is your own request, so somebody else has to decide it: nobody approves what they
asked for themselves.</p>`;
  }
  return markup`${left}${renderDecisionForm(approval, { entered, nothingToLearn })}`;
}

function renderDecided({ approval, now }: DetailPage): Html {
  const { status, expires_at } = approval;
  return markup`<p>${renderVerdict(approval, now)}</p>${renderLearned(approval)}${
    status === "approved" &&
    (expires_at === undefined
      ? markup`\n<p>The broker has collected it.</p>`
      : markup`\n<p>The broker has not collected it yet; time left: ${
        showTimeLeft(parseTime(expires_at), now)
      }.</p>`)
  }`;
}

/** The signer learns when the approval is collected, and for no longer than its own config allows. */
function renderLearned({ status, learn_ttl, expires_at }: ApprovalRecord): Html | undefined {
  if (learn_ttl === undefined) return undefined;
  if (status === "expired") return markup`\n<p>Nothing was learned.</p>`;
  const time = formatDuration(Number(learn_ttl / 1_000_000n));
  return expires_at === undefined
    ? markup`\n<p>The signer was to learn it: from then on the same needs no approval for ${time}, or less where the signer
allows less.</p>`
    : markup`\n<p>Once it is collected the signer is to learn it, for ${time}.</p>`;
}

function renderVerdict({ status, decided_by, decided_at }: ApprovalRecord, now: number): Html {
  if (decided_by === undefined) return markup`Nobody decided in time.`;
  const decided = parseTime(decided_at);
  const verb = status === "denied" ? "Denied" : "Approved";
  return markup`${verb} by <b>${showText(decided_by)}</b> ${showAge(decided, now)} ago, on ${
    formatUtc(decided)
  }${status === "expired" && ", but not collected in time"}.`;
}
