/**
 * The routes of a service as one table: other methods of a path are answered 405 with `Allow`, other paths 404.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { createRouter, routesFor } from "@gateway/shared/http/routes";
 *
 * const routes = routesFor<Map<string, string>, { readonly caller: string }>()({
 *   "/v1/words/:name": {
 *     GET: (words, { param, caller }) => new Response(`${caller}: ${words.get(param("name"))}`),
 *   },
 * });
 * const answer = createRouter(routes, new Map([["a", "b"]]), { noRoute: "no such route" });
 * const found = await answer(new Request("https://localhost/v1/words/a"), { caller: "ann" });
 * assert.equal(await found.text(), "ann: b");
 * const refused = await answer(new Request("https://localhost/v1/words/a", { method: "PUT" }), { caller: "ann" });
 * assert.deepEqual([refused.status, refused.headers.get("allow")], [405, "GET"]);
 * ```
 *
 * @module
 */
import { Hono } from "@hono/hono";
import { AppError } from "../errors.ts";
import { problemResponse } from "./problem.ts";

/** HEAD is answered like GET, without the body. */
const METHODS = ["GET", "POST", "DELETE"] as const;

/** Answers the requests of one method at one path. `param("id")` is the decoded part of the path at `:id`. */
export type RouteHandler<Ports, Context, Param extends string = string> = (
  ports: Ports,
  request: { readonly request: Request; readonly param: (name: Param) => string } & Context,
) => Response | Promise<Response>;

/** The methods of one path, in the order of the `Allow` header. */
type RouteMethods<Ports, Context, Param extends string = string> =
  & Readonly<Partial<Record<(typeof METHODS)[number], RouteHandler<Ports, Context, Param>>>>
  & {
    /** Set it for a GET that has an effect: HEAD is then rejected. */
    readonly HEAD?: "refused";
  };

/** The names of the variable parts of a path. */
type ParamOf<Path extends string> = Path extends `${infer Part}/${infer Rest}` ? ParamOf<Part> | ParamOf<Rest>
  : Path extends `:${infer Name}{${string}` ? Name
  : Path extends `:${infer Name}` ? Name
  : never;

/** `:name` matches one part of a path, `:name{pattern}` one that matches the pattern. */
type RouteTable<Ports, Context, Path extends string = string> = {
  readonly [Each in Path]: RouteMethods<Ports, Context, string extends Path ? string : ParamOf<Each>>;
};

/** Types a table so that each handler can read only the parameters in its path. */
export function routesFor<Ports, Context>(): <Path extends string>(
  table: RouteTable<Ports, Context, Path>,
) => RouteTable<Ports, Context, Path> {
  return (table) => table;
}

/** Answers requests by their routes, 404 with `noRoute`, 405 with `noMethod`. It rejects with the errors of handlers. */
export function createRouter<Ports, Context extends object>(
  table: RouteTable<Ports, Context>,
  ports: Ports,
  { noRoute, noMethod }: { readonly noRoute: string; readonly noMethod?: string },
): (request: Request, context: Context) => Promise<Response> {
  const app = new Hono<{ Bindings: Context }>();
  // Use a second router, because a request that matches two routes of one router takes a slow path.
  const others = new Hono();
  for (const [path, methods] of Object.entries<RouteMethods<Ports, Context>>(table)) {
    const allowed = Object.keys(methods).filter((method) => method !== "HEAD");
    const refuse = () => refuseMethod(allowed, noMethod);
    for (const method of METHODS) {
      const handler = methods[method];
      if (handler === undefined) continue;
      app.on(method, path, (c) => {
        const request = c.req.raw;
        if (request.method === "HEAD" && methods.HEAD === "refused") return refuse();
        const param = (name: string) => {
          const part: string | undefined = c.req.param(name);
          if (part === undefined) throw new TypeError(`The path has no part ${name}`);
          return part;
        };
        return handler(ports, { ...c.env, request, param });
      });
    }
    others.all(path, refuse);
  }
  others.notFound(() => problemResponse(new AppError("not_found", noRoute)));
  app.notFound((c) => others.fetch(c.req.raw));
  app.onError((error) => {
    throw error;
  });
  return async (request, context) => await app.fetch(request, context);
}

/** The response (405) to a method that a path does not have. */
export function refuseMethod(allow: readonly string[], text = "method not allowed"): Response {
  return problemResponse(new AppError("method_not_allowed", text), { allow });
}
