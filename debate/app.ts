/**
 * The routes of the debate's web server.
 *
 * @module
 */
import { Hono } from "@hono/hono";
import { AppError } from "@gateway/shared/errors";
import type { UnknownPeer } from "@gateway/shared/http/plain_server";
import { describeProblem, problemResponse } from "@gateway/shared/http/problem";
import { createGuard } from "./web/guard.ts";
import { PAGE_FILES, pageResponse } from "./web/page_files.ts";
import type { WebPorts } from "./web/ports.ts";
import { EventStreams } from "./web/event_streams.ts";
import {
  handleApproval,
  handleComment,
  handleDeleteRun,
  handleGetRun,
  handleListRuns,
  handleOptions,
  handleReport,
  handleResume,
  handleStartRun,
} from "./web/run_handlers.ts";
import {
  handleAuthStatus,
  handleLogin,
  handleModels,
  handlePrompts,
  handleRefresh,
  handleSettings,
} from "./web/settings_handlers.ts";
import { Subscribers } from "./web/subscribers.ts";

/** Answers a request; never rejects. Who has shown credentials, where there are any, is trusted. */
export type DebateHandler = (request: Request, peer: UnknownPeer) => Promise<Response>;

const RUN = "/api/runs/:id{[0-9a-f]{32}}";

/** The methods of each route, for whoever uses another one. */
const METHODS: readonly (readonly [path: string, ...methods: readonly string[]])[] = [
  ["/api/settings", "GET"],
  ["/api/prompts", "GET"],
  ["/api/models", "GET"],
  ["/api/models/refresh", "GET", "POST"],
  ["/api/auth/status", "GET"],
  ["/api/auth/copilot", "POST"],
  ["/api/runs", "GET", "POST"],
  [RUN, "GET", "DELETE"],
  [`${RUN}/resume`, "POST"],
  [`${RUN}/approval`, "POST"],
  [`${RUN}/comment`, "POST"],
  [`${RUN}/options`, "POST"],
  [`${RUN}/events`, "GET"],
  [`${RUN}/report`, "GET"],
];

/** All routes, behind what protects them. */
export function createDebateApp(ports: WebPorts): DebateHandler {
  const guard = createGuard(ports);
  const routes = createRoutes(ports);
  return async (request, { address, trust }) => {
    try {
      const passed = guard(request, address);
      if (passed instanceof Response) return secure(passed);
      trust();
      const response = await routes(request);
      for (const [name, value] of Object.entries(passed)) response.headers.set(name, value);
      return secure(response);
    } catch (error) {
      return secure(toProblem(ports, error));
    }
  };
}

function createRoutes(ports: WebPorts): (request: Request) => Response | Promise<Response> {
  const events = new EventStreams(ports, new Subscribers(ports.clock, ports.stopping));
  const app = new Hono();
  for (const [path, file] of PAGE_FILES) app.get(path, () => pageResponse(file));
  app.get("/api/settings", () => handleSettings(ports));
  app.get("/api/prompts", () => handlePrompts(ports));
  app.get("/api/models", () => handleModels(ports));
  app.on(["GET", "POST"], "/api/models/refresh", () => handleRefresh(ports));
  app.get("/api/auth/status", () => handleAuthStatus(ports));
  app.post("/api/auth/copilot", (c) => handleLogin(ports, c.req.raw));
  app.get("/api/runs", () => handleListRuns(ports));
  app.post("/api/runs", (c) => handleStartRun(ports, c.req.raw));
  app.get(RUN, (c) => handleGetRun(ports, c.req.param("id")));
  app.delete(RUN, (c) => {
    events.forget(c.req.param("id"));
    return handleDeleteRun(ports, c.req.param("id"));
  });
  app.post(`${RUN}/resume`, (c) => handleResume(ports, c.req.raw, c.req.param("id")));
  app.post(`${RUN}/approval`, (c) => handleApproval(ports, c.req.raw, c.req.param("id")));
  app.post(`${RUN}/comment`, (c) => handleComment(ports, c.req.raw, c.req.param("id")));
  app.post(`${RUN}/options`, (c) => handleOptions(ports, c.req.raw, c.req.param("id")));
  app.get(`${RUN}/events`, (c) => events.handle(c.req.raw, c.req.param("id")));
  app.get(`${RUN}/report`, (c) => handleReport(ports, c.req.param("id")));
  for (
    const [path, ...allow] of [
      ...METHODS,
      ...[...PAGE_FILES.keys()].map((path) => [path, "GET"] as const),
    ]
  ) {
    app.all(path, () => problemResponse(new AppError("method_not_allowed", "Method not allowed"), { allow }));
  }
  app.notFound(() => problemResponse(new AppError("not_found", "There is no such page or run")));
  app.onError((error) => {
    throw error;
  });
  return (request) => app.fetch(request);
}

function toProblem({ onError, newRequestId }: WebPorts, error: unknown): Response {
  if (describeProblem(error).status < 500) return problemResponse(error);
  const requestId = newRequestId();
  onError(error, requestId);
  return problemResponse(error, { requestId });
}

/** The page runs and shows what comes from here, and is framed by nobody. */
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

/** Headers of every answer, where it does not say otherwise itself. */
function secure(response: Response): Response {
  const { headers } = response;
  const isPage = headers.get("content-type")?.startsWith("text/html") === true;
  for (const [name, value] of Object.entries(HEADERS)) headers.set(name, value);
  headers.set("content-security-policy", isPage ? PAGE_POLICY : NO_POLICY);
  if (!headers.has("cache-control")) headers.set("cache-control", "no-store");
  return response;
}
