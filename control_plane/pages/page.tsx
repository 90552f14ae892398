import { createHash } from "node:crypto";
import { Problem, styleSheet, VisibleText } from "@gateway/shared/ui";
import type { ComponentChildren } from "preact";
import { render } from "preact-render-to-string";
import { formatUtc } from "./format.ts";
// `deno task pages` creates this file from browser/script.ts.
import script from "./script.bundle.js" with { type: "text" };
import ownStyle from "./style.css" with { type: "text" };

export const LIST_PATH = "/ui/approvals";
export const PASSKEY_PATH = "/ui/passkey";
export const SIGN_OUT_PATH = "/ui/logout";

/** The style and the script that a page contains. */
export const STYLE: string = `${styleSheet()}${ownStyle}`;
export const SCRIPT: string = script;

interface Page {
  /** The title. Text from requests in it must already be in visible form. */
  readonly title: string;
  /** The reader: the CN of their certificate, or the name of their sign-in; absent: none. */
  readonly approver?: string | undefined;
  /** Whether the reader has signed in and can sign out. */
  readonly hasSessions?: boolean | undefined;
  /** A page of ours that the browser opens next. */
  readonly next?: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly main: ComponentChildren;
  readonly live?: LiveContent;
}

/** Content that the script keeps up to date. */
interface LiveContent {
  /** The content is replaced only when this changes. */
  readonly state: readonly unknown[];
  /** The text that screen readers announce after a change. */
  readonly news: string;
  /** 0: the content is final. */
  readonly refreshSeconds: number;
  /** The reload interval for browsers without scripts; absent on a page with a form. */
  readonly reloadSeconds?: number;
}

export function renderPage({ title, approver, hasSessions, next, now, main, live }: Page): string {
  const reload = live?.reloadSeconds;
  const head = (
    <>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content="light dark" />
      <meta name="robots" content="noindex" />
      <title>{title}</title>
      {next !== undefined && <meta http-equiv="refresh" content={`0;url=${next}`} />}
      {reload !== undefined && (
        <noscript>
          <meta http-equiv="refresh" content={String(reload)} />
        </noscript>
      )}
    </>
  );
  const body = (
    <body data-now={now}>
      <a class="skip" href="#main">Skip to the content</a>
      <header class="bar">
        <div>
          <p class="brand">Control plane</p>
          <nav aria-label="Pages">
            <a href={LIST_PATH}>Approvals</a>
          </nav>
          {approver !== undefined && (
            <div class="who row">
              <p>
                Signed in as{" "}
                <b>
                  <VisibleText text={approver} />
                </b>
              </p>
              {hasSessions === true && (
                <form method="post" action={SIGN_OUT_PATH}>
                  <button type="submit" class="small">Sign out</button>
                </form>
              )}
            </div>
          )}
        </div>
      </header>
      <main id="main" tabIndex={-1} {...live !== undefined && dataOf(live)}>{main}</main>
      <p id="news" class="unseen" role="status" />
      <footer class="foot">
        <div>
          <p id="sync">{`As of ${formatUtc(now)}.`}</p>
          {reload !== undefined && (
            <noscript>
              <p>{`This page reloads every ${reload} seconds.`}</p>
            </noscript>
          )}
        </div>
      </footer>
    </body>
  );
  return `<!doctype html><html lang="en"><head>${
    render(head)
  }<style>${STYLE}</style><script type="module">${SCRIPT}</script></head>${render(body)}</html>`;
}

function dataOf({ state, news, refreshSeconds }: LiveContent): Readonly<Record<string, string | number>> {
  const digest = createHash("sha256").update(JSON.stringify(state)).digest("base64url");
  return { "data-state": digest, "data-news": news, "data-refresh": refreshSeconds };
}

const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  `script-src '${sourceHash(SCRIPT)}'`,
  `style-src '${sourceHash(STYLE)}'`,
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

function sourceHash(source: string): string {
  return `sha256-${createHash("sha256").update(source).digest("base64")}`;
}

/** A page runs only our script and style, loads nothing, cannot be framed, and is not cached. */
export function pageHeaders(): Record<string, string> {
  return {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
  };
}

interface ErrorPage {
  readonly status: number;
  readonly title: string;
  readonly detail: string;
  /** The CN of the reader's certificate, or the name of their sign-in. */
  readonly approver: string;
  readonly hasSessions?: boolean | undefined;
  readonly isApprover: boolean;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

const NOT_AN_APPROVER =
  "Only the certificates named in approval.callers of the control plane’s config can open these pages. If you have " +
  "several certificates, restart the browser and choose another one.";
const FORGOTTEN = "Requests are removed after about twice the time that approvers have to decide them.";

export function renderErrorPage({ isApprover, ...error }: ErrorPage): string {
  const advice = isApprover ? (error.status === 404 ? FORGOTTEN : undefined) : NOT_AN_APPROVER;
  return renderProblemPage(
    error.title,
    error,
    <>
      {advice !== undefined && <p>{advice}</p>}
      <p>
        <a href={LIST_PATH}>All approvals</a>
      </p>
    </>,
  );
}

/**
 * The page for browsers without a valid client certificate and without a session.
 *
 * @param signIn the address of the sign-in with the company's account; absent: not configured
 */
export function renderUnauthenticatedPage(
  { signIn, ...error }: Pick<ErrorPage, "title" | "detail" | "now"> & {
    readonly signIn?: string | undefined;
  },
): string {
  return renderProblemPage(
    signIn === undefined ? "Client certificate required" : "Sign-in required",
    error,
    <>
      {signIn !== undefined && (
        <>
          <p>
            <a href={signIn} id="sign-in" class="button primary">Sign in with the company’s account</a>
          </p>
          <p>
            With a client certificate instead, open these pages at the address that requests certificates:
          </p>
        </>
      )}
      <ol>
        <li>
          On the machine with the installation’s CA key, <code>broker-ctl init</code> created{" "}
          <code>pki/approver.p12</code>, and <code>broker-ctl identity add approver NAME --p12</code>{" "}
          issues a certificate for each further approver. Ask the operator of this control plane for yours.
        </li>
        <li>
          Import the file into the browser. Firefox: Settings, Privacy &amp; Security, View Certificates, Your
          Certificates, Import. Chrome and Edge: Settings, Privacy and security, Security, Manage
          certificates. Safari: open the file with Keychain Access.
        </li>
        <li>
          Close all windows of the browser, open this page again and choose the certificate.
        </li>
      </ol>
    </>,
  );
}

/** The page between two sites, see {@linkcode Page.next}: a request that another site starts carries no session cookie. */
export function renderOpeningPage(page: Pick<Page, "approver" | "now"> & { readonly next: string }): string {
  return renderPage({
    ...page,
    title: "Approvals",
    main: (
      <>
        <h1 tabIndex={-1}>Opening the page</h1>
        <p>
          <a href={page.next}>Open the page</a>
        </p>
      </>
    ),
  });
}

export function renderSignedOutPage(now: number): string {
  return renderPage({
    now,
    title: "Signed out – Approvals",
    main: (
      <>
        <h1 tabIndex={-1}>Signed out</h1>
        <p>
          You may still be signed in with the company’s account. On a shared computer, sign out there too.
        </p>
        <p>
          <a href={LIST_PATH}>Sign in again</a>
        </p>
      </>
    ),
  });
}

function renderProblemPage(
  heading: string,
  { title, detail, approver, hasSessions, now }:
    & Pick<ErrorPage, "title" | "detail" | "now">
    & Partial<Pick<ErrorPage, "approver" | "hasSessions">>,
  advice: ComponentChildren,
): string {
  return renderPage({
    title: `${title} – Approvals`,
    ...{ approver, hasSessions },
    now,
    main: (
      <>
        <h1 tabIndex={-1}>{heading}</h1>
        <div class="card">
          <Problem>
            <VisibleText text={detail} />
          </Problem>
          {advice}
        </div>
      </>
    ),
  });
}
