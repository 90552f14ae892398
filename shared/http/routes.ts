/**
 * The routes of a service as one table, from which follow the methods of each path, what another method is answered
 * (405, with `Allow`), and that there is no other path (404).
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

/** The methods that routes have. HEAD is answered as GET is, without the body; OPTIONS is not among them. */
const METHODS = ["GET", "POST", "DELETE"] as const satisfies readonly RouteMethod[];

/** A method that a route can have a handler for. */
type RouteMethod = "GET" | "POST" | "DELETE";

interface RoutedRequest<Param extends string = string> {
  readonly request: Request;
  /** A part of the path, decoded: that of `:id` is `param("id")`. */
  readonly param: (name: Param) => string;
}

/** Answers the requests of one method at one path. What it throws is for whoever called the router. */
export type RouteHandler<Ports, Context, Param extends string = string> = (
  ports: Ports,
  request: RoutedRequest<Param> & Context,
) => Response | Promise<Response>;

/** The methods of one path, in the order in which `Allow` names them. */
type RouteMethods<Ports, Context, Param extends string = string> =
  & Readonly<Partial<Record<RouteMethod, RouteHandler<Ports, Context, Param>>>>
  & {
    /** Where an answer without its body would lose something. */
    readonly HEAD?: "refused";
  };

/** The names of the parts that a path leaves open. */
type ParamOf<Path extends string> = Path extends `${infer Part}/${infer Rest}` ? ParamOf<Part> | ParamOf<Rest>
  : Path extends `:${infer Name}{${string}` ? Name
  : Path extends `:${infer Name}` ? Name
  : never;

/** The methods of each path. `:name` stands for one part of it, `:name{pattern}` for one that looks like that. */
type RouteTable<Ports, Context, Path extends string = string> = {
  readonly [Each in Path]: RouteMethods<Ports, Context, string extends Path ? string : ParamOf<Each>>;
};

/** Types a table: a handler can ask for no part that its path does not have. */
export function routesFor<Ports, Context>(): <Path extends string>(
  table: RouteTable<Ports, Context, Path>,
) => RouteTable<Ports, Context, Path> {
  return (table) => table;
}

interface RouterTexts {
  /** With 404. */
  readonly noRoute: string;
  /** With 405; default `method not allowed`. */
  readonly noMethod?: string;
}

/** Answers requests by their routes. It rejects with what a handler throws. */
export function createRouter<Ports, Context extends object>(
  table: RouteTable<Ports, Context>,
  ports: Ports,
  { noRoute, noMethod = "method not allowed" }: RouterTexts,
): (request: Request, context: Context) => Promise<Response> {
  const app = new Hono<{ Bindings: Context }>();
  // Asked second: a request that two routes of one router match takes the long way through it.
  const others = new Hono();
  for (const [path, methods] of Object.entries<RouteMethods<Ports, Context>>(table)) {
    const refuse = () => refuseMethod(allowedMethods(methods), noMethod);
    for (const method of METHODS) {
      const handler = methods[method];
      if (handler === undefined) continue;
      app.on(method, path, (c) => {
        const request = c.req.raw;
        if (request.method === "HEAD" && methods.HEAD === "refused") return refuse();
        return handler(ports, { ...c.env, request, param: (name) => given(c.req.param(name), name) });
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

function given(part: string | undefined, name: string): string {
  if (part === undefined) throw new TypeError(`The path has no part ${name}`);
  return part;
}

function allowedMethods(methods: object): readonly string[] {
  return Object.keys(methods).filter((method) => method !== "HEAD");
}

/** The answer to a method that a path does not have. */
export function refuseMethod(allow: readonly string[], text = "method not allowed"): Response {
  return problemResponse(new AppError("method_not_allowed", text), { allow });
}
