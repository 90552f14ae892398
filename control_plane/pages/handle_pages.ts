import { AppError } from "@gateway/shared/errors";
import { describeProblem, type Peer, readBodyBytes } from "@gateway/shared/http";
import type { ApprovalRecord } from "@gateway/shared/wire";
import type { ControlPlanePorts } from "../routes/ports.ts";
import { type Approval, nothingToLearn } from "../approvals/approval.ts";
import { checkSameOrigin, mayApprove, originOf, requireApprover } from "../routes/roles.ts";
import { type DetailPage, renderDetailPage } from "./detail_page.ts";
import { LIST_PATH, pageHeaders, renderErrorPage } from "./page.ts";
import { renderListPage } from "./list_page.ts";
import { entered, parseDecisionForm } from "./decision_form.ts";
import { isOwnRequest } from "./request_facts.ts";
import { decideApproval } from "../routes/decide.ts";

const MAX_FORM_BYTES = 16 * 1024;

/** Where people look for the list: it is in one place. */
export function leadToList(): Response {
  return new Response(null, { status: 303, headers: { ...pageHeaders(), location: LIST_PATH } });
}

export function handleUiList(ports: ControlPlanePorts, request: Request, peer: Peer): Promise<Response> {
  return withErrorPage(ports, request, peer, async () => {
    await requireApprover(ports, peer, { route: "GET /ui/approvals" });
    const approvals = ports.registry.list().map((approval) => ports.registry.describe(approval));
    return page(renderListPage({ approvals, approver: peer.caller, now: ports.clock.now() }));
  });
}

export function handleUiDetail(
  ports: ControlPlanePorts,
  request: Request,
  peer: Peer,
  id: string,
): Promise<Response> {
  return withErrorPage(ports, request, peer, async () => {
    await requireApprover(ports, peer, { route: "GET /ui/approvals/{id}" });
    const approval = ports.registry.find(id);
    if (approval === undefined) throw new AppError("not_found", "approval not found");
    return page(renderDetail(ports, { request, peer }, approval));
  });
}

/** `POST /ui/approvals/{id}`: a decision by the page's form, where scripts don't run. */
export function handleUiDecide(
  ports: ControlPlanePorts,
  request: Request,
  peer: Peer,
  id: string,
): Promise<Response> {
  return withErrorPage(ports, request, peer, async () => {
    await requireApprover(ports, peer, {
      route: "POST /ui/approvals/{id}",
      err: "not authorised to approve",
    });
    // Any page can make a browser send a form with the approver's certificate: this one has to be from here.
    if (
      checkSameOrigin(request.headers, originOf(ports.config.approval.approval_url_template)) !==
        "same_origin"
    ) {
      throw new AppError("forbidden", "decisions have to be sent from the page of the request");
    }
    const body = await readForm(request);
    try {
      await decide(ports, peer, { id, body });
    } catch (error) {
      const approval = ports.registry.find(id);
      if (!(error instanceof AppError) || approval === undefined) throw error;
      const { status, detail } = describe(ports, error);
      return page(
        renderDetail(ports, { request, peer }, approval, { problem: detail, entered: entered(body) }),
        status,
      );
    }
    return new Response(null, {
      status: 303,
      headers: { ...pageHeaders(), location: `${LIST_PATH}/${encodeURIComponent(id)}` },
    });
  });
}

async function decide(
  ports: ControlPlanePorts,
  peer: Peer,
  { id, body }: { readonly id: string; readonly body: string },
): Promise<void> {
  const form = parseDecisionForm(body);
  if (form.kind === "problem") throw new AppError("invalid_request", form.detail);
  const { approve, learn, ttlSeconds, comment, shown } = form;
  await decideApproval(ports, {
    id,
    approver: peer.caller,
    decision: { approve, learn, ttl_seconds: ttlSeconds, comment, shown_ids: shown },
  });
}

async function readForm(request: Request): Promise<string> {
  const mediaType = request.headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase();
  if (mediaType !== "application/x-www-form-urlencoded") {
    throw new AppError(
      "unsupported_media_type",
      "Request body must have content type application/x-www-form-urlencoded",
    );
  }
  return new TextDecoder().decode(await readBodyBytes(request, MAX_FORM_BYTES));
}

function renderDetail(
  ports: ControlPlanePorts,
  { request, peer }: { readonly request: Request; readonly peer: Peer },
  approval: Approval,
  attempt: Pick<DetailPage, "problem" | "entered"> = {},
): string {
  const record = ports.registry.describe(approval);
  return renderDetailPage({
    approval: record,
    asked: approval.request,
    approver: peer.caller,
    now: ports.clock.now(),
    nothingToLearn: nothingToLearn(approval),
    isElsewhere: isElsewhere(ports, request),
    next: record.status === "pending" ? undefined : findNext(ports, peer.caller),
    ...attempt,
  });
}

/**
 * Whether the page is read at another address than ours as it is configured: what the page's script sent from there
 * would be refused.
 */
function isElsewhere({ config }: ControlPlanePorts, { headers }: Request): boolean {
  const own = URL.parse(config.approval.approval_url_template);
  const host = headers.get("host");
  return own === null || (host !== null && host !== own.host);
}

/** What an approver may decide and has the least time left for: the oldest. */
function findNext({ registry }: ControlPlanePorts, approver: string): ApprovalRecord | undefined {
  return registry.list().map((each) => registry.describe(each)).findLast((each) =>
    each.status === "pending" && !isOwnRequest(each, approver)
  );
}

/** Failures as pages for those who read pages; programs get the problem that they get everywhere. */
async function withErrorPage(
  ports: ControlPlanePorts,
  request: Request,
  peer: Peer,
  answer: () => Promise<Response>,
): Promise<Response> {
  try {
    return await answer();
  } catch (error) {
    const readsPages = request.headers.get("accept")?.includes("text/html") === true;
    if (!readsPages || !(error instanceof AppError)) throw error;
    const { status, title, detail } = describe(ports, error);
    return page(
      renderErrorPage({
        status,
        title,
        detail,
        approver: peer.caller,
        isApprover: mayApprove(ports.config, peer.caller),
        now: ports.clock.now(),
      }),
      status,
    );
  }
}

function describe(ports: ControlPlanePorts, error: AppError): ReturnType<typeof describeProblem> {
  const problem = describeProblem(error);
  if (problem.status >= 500) ports.logger.error("request failed", { error });
  return problem;
}

function page(markup: string, status = 200): Response {
  return new Response(markup, { status, headers: pageHeaders() });
}
