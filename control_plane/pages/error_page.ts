import { markup } from "./html.ts";
import { LIST_PATH, renderPage } from "./page.ts";
import { showText } from "./shown_text.ts";

/** A failure as a reader sees it. */
interface ErrorPage {
  /** The HTTP status. */
  readonly status: number;
  readonly title: string;
  readonly detail: string;
  /** Who reads it, by the CN of the certificate. */
  readonly approver: string;
  readonly isApprover: boolean;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

const NOT_AN_APPROVER =
  "These pages are for those whose certificate is named in approval.callers of the control plane’s config. " +
  "If you have several certificates, the browser may have chosen another one: close it and choose again.";
const FORGOTTEN = "A request is kept for about twice the time that approvers have to decide it.";

/** A page for what can't be shown or done. */
export function renderErrorPage({ status, title, detail, approver, isApprover, now }: ErrorPage): string {
  const advice = isApprover ? (status === 404 ? FORGOTTEN : undefined) : NOT_AN_APPROVER;
  return renderPage({
    title: `${title} – Approvals`,
    approver,
    now,
    main: markup`<h1 tabindex="-1">${title}</h1>
<div class="panel">
<p class="problem" role="alert">${showText(detail)}</p>
${advice !== undefined && markup`<p>${advice}</p>\n`}<p><a href="${LIST_PATH}">All approvals</a></p>
</div>`,
  });
}

/** The page for a browser that has shown no valid client certificate. */
export function renderUnauthenticatedPage(
  { title, detail, now }: Pick<ErrorPage, "title" | "detail" | "now">,
): string {
  return renderPage({
    title: `${title} – Approvals`,
    now,
    main: markup`<h1 tabindex="-1">Client certificate required</h1>
<div class="panel">
<p class="problem" role="alert">${showText(detail)}</p>
<ol>
<li>On the machine with the installation’s CA key, <code>broker-ctl init</code> created <code>pki/approver.p12</code>, and
<code>broker-ctl identity add approver NAME --p12</code> issues a certificate for each further approver. Ask the operator
of this control plane for yours.</li>
<li>Import the file into the browser. Firefox: Settings, Privacy &amp; Security, View Certificates, Your Certificates,
Import. Chrome and Edge: Settings, Privacy and security, Security, Manage certificates. Safari: open the file with
Keychain Access.</li>
<li>Close all windows of the browser, open this page again and choose the certificate.</li>
</ol>
</div>`,
  });
}
