import { AppError } from "@gateway/shared/errors";
import { describeProblem, readBodyBytes } from "@gateway/shared/http";
import { type Approval, nothingToLearn } from "../approvals/approval.ts";
import { decideApproval, handleDecide, unknownApproval } from "../routes/decide.ts";
import type { ControlPlanePorts, Handler } from "../routes/ports.ts";
import { checkSameOrigin, mayApprove, requireApprover } from "../routes/roles.ts";
import { parseDecisionForm, readFields } from "./decision_form.tsx";
import { type DetailPage, renderDetailPage } from "./detail_page.tsx";
import { renderListPage } from "./list_page.tsx";
import { LIST_PATH, pageHeaders, renderErrorPage } from "./page.tsx";
import { renderPasskeyPage } from "./passkey_page.tsx";
import { isOwnRequest } from "./request_facts.tsx";

const MAX_FORM_BYTES = 16 * 1024;

type PageRequest = Parameters<Handler>[1];

/**
 * `GET /`, `GET /ui`, `GET /ui/`, `GET /ui/approvals/`: redirects to the list of approvals. Callers: all.
 */
export function redirectToList(): Response {
  return seeOther(LIST_PATH);
}

/** `GET /ui/approvals`: shows the list of approvals. Callers: `approval.callers`. */
export const handleUiList: Handler = withErrorPage(async (ports, { peer: { caller } }) => {
  await requireApprover(ports, caller, "GET /ui/approvals");
  const approvals = ports.registry.list().map((approval) => ports.registry.describe(approval));
  return page(renderListPage({ ...ports, approvals, approver: caller, now: ports.clock.now() }));
});

/** `GET /ui/passkey`: creates a passkey, whose text the operator adds to the signer. Callers: `approval.callers`. */
export const handleUiPasskey: Handler = withErrorPage(async (ports, { peer: { caller } }) => {
  await requireApprover(ports, caller, "GET /ui/passkey");
  return page(renderPasskeyPage({ ...ports, approver: caller, now: ports.clock.now() }));
});

/**
 * `GET /ui/approvals/{id}`: shows one approval. Callers: `approval.callers`.
 *
 * @throws {AppError} `not_found` if the approval is unknown
 */
export const handleUiDetail: Handler<"id"> = withErrorPage(async (ports, exchange) => {
  await requireApprover(ports, exchange.peer.caller, "GET /ui/approvals/{id}");
  const id = exchange.param("id");
  const approval = ports.registry.find(id);
  if (approval === undefined) throw new AppError("not_found", unknownApproval(id));
  return page(renderDetail(ports, exchange, approval));
});

/**
 * `POST /ui/approvals/{id}`: decides by the form of the page, for browsers without scripts, and redirects to the page.
 * The script of the page sends JSON, as to `POST /v1/approvals/{id}`. Callers: `approval.callers`, except for their own
 * requests.
 *
 * @throws {AppError} `invalid_request` if the form is invalid
 * @throws {AppError} `forbidden` if the caller is no approver or is the requester, or another page sent the form
 * @throws {AppError} `conflict` if the approval is unknown or not pending, or another request is shown
 * @throws {AppError} `unsupported_media_type` if the body is neither a form nor JSON
 */
export const handleUiDecide: Handler<"id"> = withErrorPage(async (ports, exchange) => {
  const { request, peer: { caller } } = exchange;
  const id = exchange.param("id");
  await requireApprover(ports, caller, "POST /ui/approvals/{id}", "not authorised to approve");
  // Any site can make a browser send a form with the approver's certificate.
  if (checkSameOrigin(request.headers, ports.config.approval.approval_url_template) !== "same_origin") {
    throw new AppError("forbidden", "a decision must be sent from the request page");
  }
  // The script of the page sends JSON.
  if (mediaTypeOf(request) === "application/json") return await handleDecide(ports, exchange);
  const body = await readForm(request);
  try {
    await decideApproval(ports, { id, approver: caller, decision: parseDecisionForm(body) });
  } catch (error) {
    const approval = ports.registry.find(id);
    if (!(error instanceof AppError) || approval === undefined) throw error;
    const { status, detail: problem } = describe(ports, error);
    return page(renderDetail(ports, exchange, approval, { problem, entered: readFields(body) }), status);
  }
  return seeOther(`${LIST_PATH}/${encodeURIComponent(id)}`);
});

function mediaTypeOf({ headers }: Request): string | undefined {
  return headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase();
}

async function readForm(request: Request): Promise<string> {
  if (mediaTypeOf(request) !== "application/x-www-form-urlencoded") {
    throw new AppError(
      "unsupported_media_type",
      "Request body must have content type application/x-www-form-urlencoded",
    );
  }
  return new TextDecoder().decode(await readBodyBytes(request, MAX_FORM_BYTES));
}

function renderDetail(
  { registry, clock, config, hasSessions }: ControlPlanePorts,
  { request, peer: { caller } }: Pick<PageRequest, "request" | "peer">,
  approval: Approval,
  attempt: Pick<DetailPage, "problem" | "entered"> = {},
): string {
  const record = registry.describe(approval);
  const own = URL.parse(config.approval.approval_url_template);
  const host = request.headers.get("host");
  // The oldest has the least time left.
  const findNext = () =>
    registry.list().map((each) => registry.describe(each)).findLast((each) =>
      each.status === "pending" && !isOwnRequest(each, caller)
    );
  return renderDetailPage({
    approval: record,
    asked: approval.request,
    approver: caller,
    hasSessions,
    now: clock.now(),
    nothingToLearn: nothingToLearn(approval),
    // Decisions of the page's script would be rejected from another address than ours.
    isElsewhere: own === null || (host !== null && host !== own.host),
    next: record.status === "pending" ? undefined : findNext(),
    ...attempt,
  });
}

/** Shows failures as pages to browsers; programs receive the same problem as everywhere. */
function withErrorPage<Param extends string>(handler: Handler<Param>): Handler<Param> {
  return async (ports, exchange) => {
    try {
      return await handler(ports, exchange);
    } catch (error) {
      const { request, peer: { caller } } = exchange;
      const readsPages = request.headers.get("accept")?.includes("text/html") === true;
      if (!readsPages || !(error instanceof AppError)) throw error;
      const { status, title, detail } = describe(ports, error);
      const isApprover = mayApprove(ports, caller);
      const now = ports.clock.now();
      const reader = { ...ports, approver: caller, isApprover };
      return page(renderErrorPage({ status, title, detail, ...reader, now }), status);
    }
  };
}

function describe(ports: ControlPlanePorts, error: AppError): ReturnType<typeof describeProblem> {
  const problem = describeProblem(error);
  if (problem.status >= 500) ports.logger.error("request failed", { error });
  return problem;
}

function page(markup: string, status = 200): Response {
  return new Response(markup, { status, headers: pageHeaders() });
}

function seeOther(location: string): Response {
  return new Response(null, { status: 303, headers: { ...pageHeaders(), location } });
}
