/** The HTTP APIs as OpenAPI 3.1: route tables, schemas of `shared/wire`, comments of the handlers, and `api.yaml`. */
import { ERROR_CODES, type ErrorCode, STATUS } from "@gateway/shared/errors";
import * as wire from "@gateway/shared/wire";
import * as z from "@zod/zod";
import { parse } from "yaml";
import { BROKER_ROUTES, SSH_RUN } from "../../../broker/frontends/http.ts";
import { CONTROL_PLANE_ROUTES } from "../../../control_plane/app.ts";
import { SIGN_IN_ROUTES } from "../../../control_plane/sign_in/sign_in.ts";
import { type Shape, shapeOf } from "../../../shared/config/problems.ts";
import { SIGNER_ROUTES } from "../../../signer/app.ts";
import { ROOT } from "../extract.ts";
import { annotate, readSource, type RouteText, routeTexts } from "./source.ts";

type Texts = Readonly<Record<string, string>>;

interface Operation extends Readonly<Partial<Record<"body" | "bodyType", string>>> {
  readonly example?: Readonly<Record<string, unknown>>;
  readonly answers: Texts;
  readonly parameters?: readonly Texts[];
}

/** A service with an HTTP API. */
export interface Service extends Readonly<Record<"name" | "title" | "port" | "about", string>> {
  /** The directories of its handlers. */
  readonly directories: readonly string[];
  /** Whether callers need no client certificate. */
  readonly anonymous?: boolean;
  readonly routes: Readonly<Record<string, Operation>>;
}

export const API: Readonly<Record<"everywhere" | "with_body" | "success", Texts>> & {
  readonly document: { readonly info: object };
  readonly certificate: object;
  readonly services: readonly Service[];
  readonly types: Readonly<Record<string, Shape>>;
} = parse(Deno.readTextFileSync(`${ROOT}tests/documents/reference/api.yaml`));
const TABLES: Readonly<Record<string, Readonly<Record<string, object>>>> = {
  ...{ signer: SIGNER_ROUTES, "control-plane": CONTROL_PLANE_ROUTES, broker: BROKER_ROUTES },
  "sign-in": SIGN_IN_ROUTES,
};

/** A registered route with all that is known about it. */
export interface Route extends Omit<RouteText, "routes">, Operation {
  readonly method: string;
  /** `/v1/policy/grants/{id}`. */
  readonly path: string;
}

/** Returns the routes that a service registers. Fails if one has no comment or no entry in `api.yaml`. */
export function routesOf({ name, directories, routes }: Service): readonly Route[] {
  const texts = routeTexts(readSource(...directories));
  return Object.entries(TABLES[name] ?? {}).flatMap(([registered, methods]) => {
    const path = registered.replace(/:(\w+)/g, "{$1}");
    return Object.keys(methods).filter((method) => method !== "HEAD").map((method) => {
      const [text, ...more] = texts.filter((each) => each.routes.includes(`${method} ${path}`));
      const operation = routes[`${method} ${path}`];
      if (text !== undefined && more.length === 0 && operation !== undefined) {
        return { ...text, ...operation, method, path };
      }
      throw new Error(
        `${name}: ${method} ${path} needs one comment at its handler, and an entry in api.yaml`,
      );
    });
  });
}

/** The types by name. Fields of the wire have the comments of their interfaces. */
export const TYPES: ReadonlyMap<string, Shape> = namedTypes();

function namedTypes(): ReadonlyMap<string, Shape> {
  const source = readSource("shared/wire/");
  const typed = [...source.matchAll(/export const (\w+): z\.ZodType<([^]*?)> =/g)];
  const declared = new Map(typed.map(([, name = "", type = ""]) => [name, type]));
  const read = Object.entries({ ...wire, sshRunRequest: SSH_RUN }).flatMap(([key, schema]) => {
    if (!(schema instanceof z.ZodType)) return [];
    const { $schema: _, ...shape } = shapeOf(schema) as Shape & { $schema?: string };
    return [[upper(key), annotate(shape, declared.get(key) ?? "", source)] as const];
  });
  return new Map([...Object.entries(API.types), ...read]);
}

/** Returns the types that routes use, by name. */
export function typesOf(routes: readonly Route[]): readonly (readonly [string, Shape])[] {
  const used = routes.flatMap(({ body, answers }) => [body, ...Object.values(answers)]);
  return [...TYPES].filter(([name]) => used.includes(name)).toSorted(([left], [right]) =>
    left < right ? -1 : 1
  );
}

/** The document of a service. */
export function openApi(service: Service) {
  const { title, about, port, anonymous = false } = service;
  const routes = routesOf(service);
  const { Problem } = API.types;
  const code = { ...Problem?.properties?.["code"], enum: ERROR_CODES };
  const paths = Map.groupBy(routes, ({ path }) => path);
  return {
    ...API.document,
    ...anonymous && { security: [] },
    info: { title, description: about, ...API.document.info },
    servers: [{ url: `https://{host}:${port}`, variables: { host: { default: "localhost" } } }],
    paths: Object.fromEntries(
      [...paths].map(([path, each]) => [path, Object.fromEntries(each.map(describeRoute))]),
    ),
    components: {
      securitySchemes: { certificate: API.certificate },
      schemas: {
        Problem: { ...Problem, properties: { ...Problem?.properties, code } },
        ...Object.fromEntries(typesOf(routes)),
      },
    },
  };
}

/** The reasons for each error code of a route. */
export function faultsOf({ body, faults }: Route): Texts {
  return { ...API.everywhere, ...(body !== undefined && API.with_body), ...faults };
}

function describeRoute(route: Route) {
  const { method, path, about, callers, body, bodyType = "application/json", example, answers } = route;
  const inPath = path.match(/\w+(?=\})/g) ?? [];
  const parameters = inPath.map((name) => ({ in: "path", name, required: true, schema: { type: "string" } }));
  const byStatus = Map.groupBy(Object.entries(faultsOf(route)), ([code]) => STATUS[code as ErrorCode]);
  const page = path.startsWith("/ui") && { "text/html": {} };
  const responses = [
    ...Object.entries(answers).map(([status, type]) => {
      const mediaType = TYPES.has(type) ? "application/json" : type;
      const content = type !== "" && { content: { [mediaType]: schemaOf(type) } };
      return [status, { description: API.success[status], ...content }];
    }),
    ...[...byStatus].map(([status, codes]) => {
      const description = codes.map(([code, text]) => `\`${code}\`: ${text}`).join("\n");
      return [status, { description, content: { "application/problem+json": schemaOf("Problem"), ...page } }];
    }),
  ];
  const content = body && { [bodyType]: { ...schemaOf(body), example } };
  return [method.toLowerCase(), {
    ...{ summary: upper(about), description: `Callers: ${callers}.` },
    parameters: [...parameters, ...route.parameters ?? []],
    requestBody: content && { required: true, content },
    responses: Object.fromEntries(responses),
  }] as const;
}

function schemaOf(type: string): object {
  return TYPES.has(type) ? { schema: { $ref: `#/components/schemas/${type}` } } : {};
}

/** Returns a text with an upper-case first letter. */
export function upper(text: string): string {
  return text.replace(/^[a-z]/, (letter) => letter.toUpperCase());
}

/** The example of a body in its wire form. */
export function encodeBody({ bodyType, example = {} }: Route): string {
  return bodyType === undefined ? JSON.stringify(example) : new URLSearchParams(example as Texts).toString();
}
