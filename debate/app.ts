/**
 * The routes of the debate's web server.
 *
 * @module
 */
import { Hono } from "@hono/hono";
import { AppError } from "@gateway/shared/errors";
import { describeProblem, problemResponse } from "@gateway/shared/http/problem";
import { CHALLENGE, type CheckCredentials, createCheck } from "./web/basic_auth.ts";
import { secure } from "./web/headers.ts";
import { PAGE_FILES, pageResponse } from "./web/page_files.ts";
import type { WebPorts } from "./web/ports.ts";
import { EventRoutes } from "./web/routes_events.ts";
import { handleApproval, handleComment, handleOptions } from "./web/routes_live.ts";
import {
  handleDeleteRun,
  handleGetRun,
  handleListRuns,
  handleReport,
  handleResume,
  handleStartRun,
} from "./web/routes_runs.ts";
import {
  handleAuthStatus,
  handleLogin,
  handleModels,
  handlePrompts,
  handleRefresh,
  handleSettings,
} from "./web/routes_settings.ts";
import { isCrossSite, isLoopbackHost } from "./web/same_origin.ts";
import { Subscribers } from "./web/sse.ts";

/** Answers a request; never rejects. */
export type DebateHandler = (request: Request) => Promise<Response>;

/** The one path without credentials: whether the server is alive, and nothing more. */
export const LIVENESS_PATH = "/healthz";

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
  return async (request) => {
    try {
      const refusal = guard(request);
      return secure(refusal ?? await routes(request));
    } catch (error) {
      return secure(toProblem(ports, error));
    }
  };
}

function createRoutes(ports: WebPorts): (request: Request) => Response | Promise<Response> {
  const events = new EventRoutes(ports, new Subscribers(ports.clock, ports.stopping));
  const app = new Hono();
  app.get(LIVENESS_PATH, () => new Response("ok\n", { headers: { "content-type": "text/plain" } }));
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

/** What keeps strangers out, in this order: their credentials, the name they call us by, the page they come from. */
function createGuard({ settings }: WebPorts): (request: Request) => Response | undefined {
  const { WEB_USERNAME, WEB_PASSWORD, WEB_ALLOW_OPEN } = settings;
  const check: CheckCredentials | undefined = WEB_USERNAME === ""
    ? undefined
    : createCheck(WEB_USERNAME, WEB_PASSWORD);
  return ({ headers, method, url }) => {
    if (new URL(url).pathname === LIVENESS_PATH) return undefined;
    if (check !== undefined && !check(headers.get("authorization"))) {
      const response = problemResponse(new AppError("unauthenticated", "Username and password are needed"));
      response.headers.set("www-authenticate", CHALLENGE);
      return response;
    }
    // Without credentials a foreign page could call itself by our address (DNS rebinding).
    if (check === undefined && !WEB_ALLOW_OPEN && !isLoopbackHost(headers.get("host"))) {
      throw new AppError(
        "forbidden",
        "This server answers to a name of loopback only: set WEB_USERNAME and WEB_PASSWORD, or WEB_ALLOW_OPEN",
      );
    }
    if (method !== "GET" && method !== "HEAD" && isCrossSite(headers)) {
      throw new AppError("forbidden", "The request comes from a page of another site");
    }
  };
}

function toProblem({ onError, newRequestId }: WebPorts, error: unknown): Response {
  if (describeProblem(error).status < 500) return problemResponse(error);
  const requestId = newRequestId();
  onError(error, requestId);
  return problemResponse(error, { requestId });
}
