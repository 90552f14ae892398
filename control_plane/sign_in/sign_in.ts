import type { Random } from "@gateway/shared/clock";
import { AppError, type ErrorCode, errorText } from "@gateway/shared/errors";
import {
  describeProblem,
  type Peer,
  type PeerHandler,
  sourceOf,
  TokenBuckets,
  type UnknownPeer,
} from "@gateway/shared/http";
import { createRouter, type RouteHandler, routesFor } from "@gateway/shared/http/routes";
import type { LoginClient, LoginSecrets } from "@gateway/shared/oidc/login";
import { isSameIdentity } from "@gateway/shared/text";
import { MonotonicTime } from "../approvals/approval.ts";
import type { UiConfig } from "../config/config.ts";
import {
  LIST_PATH,
  pageHeaders,
  PASSKEY_PATH,
  renderErrorPage,
  renderOpeningPage,
  renderSignedOutPage,
  renderUnauthenticatedPage,
  SIGN_OUT_PATH,
} from "../pages/page.tsx";
import type { ControlPlanePorts } from "../routes/ports.ts";
import { checkSameOrigin } from "../routes/roles.ts";
import { decideApprover } from "./approver.ts";
import { SecretTable } from "./secret_table.ts";

const LOGIN_PATH = "/ui/login";
export const CALLBACK_PATH = "/ui/callback";

// The prefix binds a cookie to this host, to TLS and to all paths, so that no other host can set it.
const SESSION_COOKIE = "__Host-gateway-session";
const LOGIN_COOKIE = "__Host-gateway-login";

/** The time for the pages of the provider. */
const LOGIN_SECONDS = 600;
const MAX_LOGINS = 1000;
const MAX_SESSIONS = 1000;
/** Requests to start or finish a sign-in per minute and source. All people behind one proxy have one source. */
const LOGINS_PER_MINUTE = 60;
const MAX_QUERY_LENGTH = 8192;

interface OpenLogin {
  readonly secrets: LoginSecrets;
  readonly next: string;
}

interface Session extends Peer {
  /** The time of the last request that a person has caused. */
  activeAt: number;
}

interface SignInOptions {
  readonly config: UiConfig;
  readonly login: Pick<LoginClient, "start" | "finish">;
  readonly random: Random;
  /** The ports and the pages for people with a session. */
  readonly ports: ControlPlanePorts;
  readonly pages: PeerHandler;
}

interface SignInPorts extends SignInOptions {
  readonly time: MonotonicTime;
  readonly logins: SecretTable<OpenLogin>;
  readonly sessions: SecretTable<Session>;
  readonly buckets: TokenBuckets;
}

type Handler = RouteHandler<SignInPorts, { readonly client: UnknownPeer }, never>;

/**
 * `GET /ui/login`: starts a sign-in with the company's account, and redirects to the OpenID provider. Only on
 * `ui_listen`. Callers: all.
 *
 * @throws {AppError} `forbidden` if a page of another site sent the request
 * @throws {AppError} `rate_limited` if this address has sent too many requests
 * @throws {AppError} `upstream_failure` if the OpenID provider cannot be used
 */
const handleLogin: Handler = async (ports, { request, client }) => {
  limit(ports, client);
  if (originOf(ports, request) === "cross_origin") {
    throw new AppError("forbidden", "a sign-in must be started from our pages");
  }
  const { url, secrets } = await ports.login.start();
  const id = ports.logins.add({ secrets, next: ownPath(new URL(request.url).searchParams.get("next")) });
  // Lax, because the provider's site sends the browser back.
  return answer("", 303, { location: url }, [setCookie(LOGIN_COOKIE, id, "Lax", LOGIN_SECONDS)]);
};

/**
 * `GET /ui/callback`: finishes a sign-in with the response of the OpenID provider, and opens a session. Only on
 * `ui_listen`. Callers: all.
 *
 * @throws {AppError} `unauthenticated` if the response does not belong to a sign-in of this browser, or is invalid
 * @throws {AppError} `forbidden` if the person is not an approver
 * @throws {AppError} `frozen` if the person is frozen
 * @throws {AppError} `rate_limited` if this address has sent too many requests
 * @throws {AppError} `upstream_failure` if the OpenID provider or the signer cannot be used
 */
const handleCallback: Handler = async (ports, { request, client }) => {
  limit(ports, client);
  const { config, sessions, time, buckets, ports: { clock, record, require } } = ports;
  const command = `GET ${CALLBACK_PATH}`;
  const reject = async (code: ErrorCode, err: string, caller = ""): Promise<never> => {
    // Unauthenticated clients must not fill the disk of the audit log.
    const isBounded = caller !== "" || buckets.take("records of all sources", LOGINS_PER_MINUTE).ok;
    if (isBounded) await record({ caller, command, outcome: "denied", err });
    throw new AppError(code, err);
  };
  const { search, searchParams } = new URL(request.url);
  // An open sign-in is used once, whatever its result is.
  const open = ports.logins.take(readCookie(request, LOGIN_COOKIE));
  if (open === undefined || search.length > MAX_QUERY_LENGTH) {
    return await reject(
      "unauthenticated",
      "Cannot sign in: this browser has no open sign-in, or it took too long",
    );
  }
  const claims = await ports.login.finish(searchParams, open.secrets)
    .catch((error) => reject(error instanceof AppError ? error.code : "internal", errorText(error)));
  const approver = decideApprover(claims, config, clock.now());
  if (approver.kind === "refused") {
    return await reject("forbidden", `Cannot sign in: ${approver.reason}`, approver.name);
  }
  const { caller } = approver;
  if (isNamed(await endFrozen(ports), approver)) {
    return await reject("frozen", "Cannot sign in: an operator has frozen this person", caller);
  }
  await require({ caller, command, outcome: "signed-in" });
  // Never keep the ID that the browser sent, because another person could have set it.
  sessions.take(readCookie(request, SESSION_COOKIE));
  const id = sessions.add({ caller, activeAt: time.now() });
  const page = renderOpeningPage({ approver: caller, now: clock.now(), next: open.next });
  return answer(page, 200, {}, [
    setCookie(SESSION_COOKIE, id, "Strict"),
    setCookie(LOGIN_COOKIE, "", "Lax", 0),
  ]);
};

/** `POST /ui/logout`: ends the session. Only on `ui_listen`. Callers: all. */
const handleLogout: Handler = async ({ sessions, ports: { record, clock } }, { request }) => {
  const session = sessions.take(readCookie(request, SESSION_COOKIE));
  if (session !== undefined) {
    await record({ caller: session.caller, command: `POST ${SIGN_OUT_PATH}`, outcome: "signed-out" });
  }
  return answer(renderSignedOutPage(clock.now()), 200, {}, [setCookie(SESSION_COOKIE, "", "Strict", 0)]);
};

export const SIGN_IN_ROUTES = routesFor<SignInPorts, { readonly client: UnknownPeer }>()({
  [LOGIN_PATH]: { GET: handleLogin, HEAD: "refused" },
  [CALLBACK_PATH]: { GET: handleCallback, HEAD: "refused" },
  [SIGN_OUT_PATH]: { POST: handleLogout },
});

/** The listener without client certificates: the sign-in, and the pages for people who have signed in. */
export function createSignIn(
  options: SignInOptions,
): (request: Request, client: UnknownPeer) => Promise<Response> {
  const { config, random, ports: { clock } } = options;
  const time = new MonotonicTime(clock);
  const table = { random, time };
  const ports: SignInPorts = {
    ...{ ...options, time, buckets: new TokenBuckets({ clock }) },
    logins: new SecretTable({ ...table, lifeSeconds: LOGIN_SECONDS, maxEntries: MAX_LOGINS }),
    sessions: new SecretTable({
      ...table,
      lifeSeconds: config.session_max_seconds,
      maxEntries: MAX_SESSIONS,
    }),
  };
  const routes = createRouter(SIGN_IN_ROUTES, ports, { noRoute: "no such route" });
  return async (request, client) => {
    let session: Session | undefined;
    try {
      session = findSession(ports, request);
      const isChange = request.method !== "GET" && request.method !== "HEAD";
      // Any site can make a browser send a form. The cookie is missing then, but this check does not depend on it.
      if (isChange && originOf(ports, request) !== "same_origin") {
        throw new AppError("forbidden", "requests that change something must be sent from our pages");
      }
      if (Object.hasOwn(SIGN_IN_ROUTES, new URL(request.url).pathname)) {
        return await routes(request, { client });
      }
      if (session !== undefined && isNamed(await endFrozen(ports), session)) session = undefined;
      if (session === undefined) return welcome(ports, request);
      client.trust(session.caller);
      return await options.pages(request, { caller: session.caller });
    } catch (error) {
      return failed(ports, request, error, session);
    }
  };
}

/** Finds the session of a request. Pages poll, so only requests of a person extend the session. */
function findSession({ sessions, time, config }: SignInPorts, request: Request): Session | undefined {
  const earliest = time.now() - config.idle_timeout_seconds * 1000;
  sessions.drop(({ activeAt }) => activeAt <= earliest);
  const session = sessions.find(readCookie(request, SESSION_COOKIE));
  const isPerson = request.method === "POST" || request.headers.get("sec-fetch-mode") === "navigate";
  if (session !== undefined && isPerson) session.activeAt = time.now();
  return session;
}

/** Ends the sessions of frozen people. @returns the frozen names. Rejects if the signer does not answer. */
async function endFrozen({ sessions, ports: { signer, record } }: SignInPorts): Promise<readonly string[]> {
  const names = (await signer.revocations())
    .flatMap(({ kind, value }) => kind === "caller" || kind === "end_user" ? [value] : []);
  const ended = sessions.drop((session) => isNamed(names, session));
  await Promise.all(ended.map(({ caller }) => record({ caller, outcome: "signed-out", err: "frozen" })));
  return names;
}

function isNamed(names: readonly string[], { caller }: Peer): boolean {
  return names.some((name) => isSameIdentity(name, caller));
}

/** The response to a request without a session. */
function welcome({ ports: { clock } }: SignInPorts, request: Request): Response {
  const next = ownPath(new URL(request.url).pathname);
  // The browser withholds the strict cookie from a link on another site. Our own page then opens the link.
  if (request.method === "GET" && request.headers.get("sec-fetch-site") === "cross-site") {
    return answer(renderOpeningPage({ now: clock.now(), next }), 200);
  }
  throw new AppError("unauthenticated", "Cannot open this page: sign in first");
}

/** Shows failures as pages to browsers; programs receive a problem. */
function failed(
  { ports }: SignInPorts,
  request: Request,
  error: unknown,
  session: Session | undefined,
): Response {
  const readsPages = request.headers.get("accept")?.includes("text/html") === true;
  if (!readsPages || !(error instanceof AppError)) throw error;
  const problem = describeProblem(error);
  const { status } = problem;
  if (status >= 500) ports.logger.error("request failed", { error });
  const now = ports.clock.now();
  if (session !== undefined) {
    const reader = { approver: session.caller, hasSessions: true, isApprover: true };
    return answer(renderErrorPage({ ...problem, ...reader, now }), status);
  }
  const signIn = `${LOGIN_PATH}?next=${encodeURIComponent(ownPath(new URL(request.url).pathname))}`;
  return answer(renderUnauthenticatedPage({ ...problem, now, signIn }), status);
}

/** @throws {AppError} `rate_limited`. Each of these requests can cause a request to the provider */
function limit({ buckets }: SignInPorts, { address }: UnknownPeer): void {
  const result = buckets.take(sourceOf(address), LOGINS_PER_MINUTE);
  if (result.ok) return;
  const { retryAfterSeconds } = result;
  throw new AppError("rate_limited", "too many sign-ins from this address", { retryAfterSeconds });
}

function originOf({ config }: SignInPorts, { headers }: Request) {
  return checkSameOrigin(headers, config.url);
}

/** A path of a page of ours; the list for every other text, so that a link cannot lead to another site. */
function ownPath(path: string | null): string {
  if (path === PASSKEY_PATH) return path;
  const id = path?.startsWith(`${LIST_PATH}/`) === true ? path.slice(LIST_PATH.length + 1) : "";
  const isId = id !== "" && id.length <= 64 &&
    Array.from(id).every((each) => "0123456789abcdef".includes(each));
  return isId ? `${LIST_PATH}/${id}` : LIST_PATH;
}

function readCookie({ headers }: Request, name: string): string {
  const pairs = (headers.get("cookie") ?? "").split(";").map((pair) => pair.trim());
  return pairs.find((pair) => pair.startsWith(`${name}=`))?.slice(name.length + 1) ?? "";
}

function setCookie(name: string, value: string, site: "Strict" | "Lax", seconds?: number): string {
  const life = seconds === undefined ? "" : `; Max-Age=${seconds}`;
  return `${name}=${value}; Path=/; Secure; HttpOnly; SameSite=${site}${life}`;
}

function answer(
  body: string,
  status: number,
  headers: Readonly<Record<string, string>> = {},
  cookies: readonly string[] = [],
): Response {
  const all = new Headers({ ...pageHeaders(), ...headers });
  for (const cookie of cookies) all.append("set-cookie", cookie);
  return new Response(body, { status, headers: all });
}
