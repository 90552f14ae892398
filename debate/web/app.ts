import { createRouter, routesFor } from "@gateway/shared/http/routes";
import { describeProblem, problemResponse, type UnknownPeer } from "@gateway/shared/http";
import { handlePostAlert } from "./alert_handlers.ts";
import { createAlertGuard, createGuard } from "./guard.ts";
import { PAGE_FILES } from "./page_files.ts";
import type { RoutePorts, WebPorts } from "./ports.ts";
import { DEBATE_ROUTES } from "./routes.ts";
import { createEventStreams } from "./subscribers.ts";

/** Answers a request and never rejects. A peer is trusted if it needs no credentials or has valid credentials. */
export type DebateHandler = (request: Request, peer: UnknownPeer) => Promise<Response>;

/** Browsers revalidate a file each time, because the program may have been updated. */
const PAGE_ROUTES = Object.fromEntries(
  [...PAGE_FILES].map(([path, { type, text }]) => {
    const headers = { "content-type": type, "cache-control": "no-cache" };
    return [path, { GET: () => new Response(text, { headers }) }];
  }),
);
const ROUTES = routesFor<RoutePorts, object>()({ ...PAGE_ROUTES, ...DEBATE_ROUTES });

export function createDebateApp(ports: WebPorts): DebateHandler {
  const guard = createGuard(ports);
  const alertGuard = createAlertGuard(ports);
  const events = createEventStreams(ports);
  const answer = createRouter(ROUTES, { ...ports, events }, {
    noRoute: "No such page or run",
    noMethod: "Method not allowed",
  });
  return async (request, { address, trust }) => {
    try {
      // Answered here, so that the secret of alerts opens no other route.
      const posted = alertGuard(request, address);
      if (posted instanceof Response) return secure(posted);
      if (posted) {
        trust();
        return secure(await handlePostAlert(ports, { request }));
      }
      const passed = guard(request, address);
      if (passed instanceof Response) return secure(passed);
      trust();
      const response = await answer(request, {});
      for (const [name, value] of Object.entries(passed)) response.headers.set(name, value);
      return secure(response);
    } catch (error) {
      return secure(toProblem(ports, error));
    }
  };
}

function toProblem({ onError, newId }: WebPorts, error: unknown): Response {
  if (describeProblem(error).status < 500) return problemResponse(error);
  const requestId = newId(6);
  onError(error, requestId);
  return problemResponse(error, { requestId });
}

/** The page loads only resources of this server. No other page can frame it. */
const PAGE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
  "form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const NO_POLICY = "default-src 'none'; frame-ancestors 'none'";

const HEADERS = {
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};

function secure(response: Response): Response {
  const { headers } = response;
  // A download must not run scripts if a browser opens it.
  const isPage = headers.get("content-type")?.startsWith("text/html") === true &&
    !headers.has("content-disposition");
  for (const [name, value] of Object.entries(HEADERS)) headers.set(name, value);
  headers.set("content-security-policy", isPage ? PAGE_POLICY : NO_POLICY);
  if (!headers.has("cache-control")) headers.set("cache-control", "no-store");
  return response;
}
