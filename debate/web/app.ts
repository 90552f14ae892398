import { createRouter, routesFor } from "@gateway/shared/http/routes";
import { describeProblem, problemResponse, type UnknownPeer } from "@gateway/shared/http";
import { createGuard } from "./guard.ts";
import { PAGE_FILES, pageResponse } from "./page_files.ts";
import {
  handleAuthStatus,
  handleLogin,
  handleModels,
  handlePreview,
  handlePrompts,
  handleRefresh,
  handleSettings,
  handleTemplate,
} from "./settings_handlers.ts";
import { handleOpenApi } from "./openapi.ts";
import type { WebPorts } from "./ports.ts";
import { EventStreams, Subscribers } from "./subscribers.ts";
import {
  handleApproval,
  handleComment,
  handleDeleteRun,
  handleGetRun,
  handleHtmlReport,
  handleImport,
  handleListRuns,
  handleOptions,
  handleReport,
  handleResume,
  handleStartRun,
  handleTitle,
} from "./run_handlers.ts";

/** Answers a request; never rejects. A caller with valid credentials, where they are required, is trusted. */
export type DebateHandler = (request: Request, peer: UnknownPeer) => Promise<Response>;

const TEMPLATE = "/api/prompts/:name/:language";
const RUN = "/api/runs/:id{[0-9a-f]{32}}";

interface RoutePorts extends WebPorts {
  readonly events: EventStreams;
}

const routes = routesFor<RoutePorts, object>();

/** The server's routes, other than those of the page's files. */
export const DEBATE_ROUTES = routes({
  "/api/openapi.json": { GET: () => handleOpenApi() },
  "/api/settings": { GET: (ports) => handleSettings(ports) },
  "/api/prompts": { GET: (ports) => handlePrompts(ports) },
  "/api/prompts/preview": { POST: (ports, { request }) => handlePreview(ports, request) },
  [TEMPLATE]: { GET: (ports, { param }) => handleTemplate(ports, param("name"), param("language")) },
  "/api/models": { GET: (ports) => handleModels(ports) },
  // Old clients use GET.
  "/api/models/refresh": { GET: (ports) => handleRefresh(ports), POST: (ports) => handleRefresh(ports) },
  "/api/auth/status": { GET: (ports) => handleAuthStatus(ports) },
  "/api/auth/copilot": { POST: (ports, { request }) => handleLogin(ports, request) },
  "/api/runs": {
    GET: (ports) => handleListRuns(ports),
    POST: (ports, { request }) => handleStartRun(ports, request),
  },
  [RUN]: {
    GET: (ports, { param }) => handleGetRun(ports, param("id")),
    DELETE: (ports, { param }) => {
      ports.events.forget(param("id"));
      return handleDeleteRun(ports, param("id"));
    },
  },
  [`${RUN}/resume`]: { POST: (ports, { request, param }) => handleResume(ports, request, param("id")) },
  [`${RUN}/approval`]: { POST: (ports, { request, param }) => handleApproval(ports, request, param("id")) },
  [`${RUN}/comment`]: { POST: (ports, { request, param }) => handleComment(ports, request, param("id")) },
  [`${RUN}/options`]: { POST: (ports, { request, param }) => handleOptions(ports, request, param("id")) },
  [`${RUN}/events`]: { GET: ({ events }, { request, param }) => events.handle(request, param("id")) },
  "/api/runs/import": { POST: (ports, { request }) => handleImport(ports, request) },
  [`${RUN}/title`]: { POST: (ports, { request, param }) => handleTitle(ports, request, param("id")) },
  [`${RUN}/report.html`]: { GET: (ports, { param }) => handleHtmlReport(ports, param("id")) },
  [`${RUN}/report`]: { GET: (ports, { param }) => handleReport(ports, param("id")) },
});

const PAGE_ROUTES = routes(Object.fromEntries(
  [...PAGE_FILES].map(([path, file]) => [path, { GET: () => pageResponse(file) }]),
));

export function createDebateApp(ports: WebPorts): DebateHandler {
  const guard = createGuard(ports);
  const events = new EventStreams(ports, new Subscribers(ports.clock, ports.stopping));
  const answer = createRouter({ ...PAGE_ROUTES, ...DEBATE_ROUTES }, { ...ports, events }, {
    noRoute: "There is no such page or run",
    noMethod: "Method not allowed",
  });
  return async (request, { address, trust }) => {
    try {
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

function toProblem({ onError, newRequestId }: WebPorts, error: unknown): Response {
  if (describeProblem(error).status < 500) return problemResponse(error);
  const requestId = newRequestId();
  onError(error, requestId);
  return problemResponse(error, { requestId });
}

/** The page loads only what this server sends, and nobody may frame it. */
const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

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
  // A file to save is no page, and may do nothing if somebody opens it here.
  const isPage = headers.get("content-type")?.startsWith("text/html") === true &&
    !headers.has("content-disposition");
  for (const [name, value] of Object.entries(HEADERS)) headers.set(name, value);
  headers.set("content-security-policy", isPage ? PAGE_POLICY : NO_POLICY);
  if (!headers.has("cache-control")) headers.set("cache-control", "no-store");
  return response;
}
