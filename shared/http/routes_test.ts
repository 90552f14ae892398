import assert from "node:assert/strict";
import { AppError } from "../errors.ts";
import { refusedMethods } from "../testing/refused_methods.ts";
import { createRouter, routesFor } from "./routes.ts";

const ROUTES = routesFor<string, { readonly caller: string }>()({
  "/things": {
    GET: (ports, { caller, request }) => new Response(`${ports} ${caller} ${request.method} list`),
    POST: (_ports, { request }) => new Response(request.body),
  },
  "/things/:id": {
    POST: () => new Response("changed"),
    GET: (_ports, { param }) => new Response(`thing ${param("id")}`),
  },
  "/things/:id/parts/:part": {
    DELETE: (_ports, { param }) => new Response(`${param("id")} without ${param("part")}`),
  },
  "/once/:id{[0-9a-f]{4}}": { GET: (_ports, { param }) => new Response(param("id")), HEAD: "refused" },
  "/broken": {
    GET: () => {
      throw new AppError("denied", "no");
    },
    POST: () => Promise.reject(new AppError("frozen", "no")),
  },
});

async function send(method: string, path: string, body?: string) {
  const answer = createRouter(ROUTES, "ports", { noRoute: "no such thing", noMethod: "not so" });
  const init = { method, ...(body === undefined ? {} : { body }) };
  const { status, headers, ...response } = await answer(new Request(`https://localhost${path}`, init), {
    caller: "ann",
  }).then(async (answered) => ({
    status: answered.status,
    headers: answered.headers,
    text: await answered.text(),
  }));
  return { status, allow: headers.get("allow"), ...response };
}

Deno.test.each([
  { method: "GET", path: "/things", text: "ports ann GET list" },
  { method: "POST", path: "/things", body: "a body", text: "a body" },
  { method: "GET", path: "/things?id=1", text: "ports ann GET list" },
  { method: "GET", path: "/things/7", text: "thing 7" },
  { method: "GET", path: "/things/a%20b", text: "thing a b" },
  { method: "GET", path: "/things/a%2Fb", text: "thing a/b" },
  { method: "POST", path: "/things/7", text: "changed" },
  { method: "DELETE", path: "/things/7/parts/8", text: "7 without 8" },
  { method: "GET", path: "/once/12ab", text: "12ab" },
])("$method $path comes to its handler", async ({ method, path, body, text }) => {
  assert.deepEqual(await send(method, path, body), { status: 200, allow: null, text });
});

Deno.test("HEAD is answered as GET is, without the body", async () => {
  assert.deepEqual(await send("HEAD", "/things"), { status: 200, allow: null, text: "" });
});

Deno.test.each(refusedMethods(ROUTES).map((row) => ({ ...row, path: row.path.replace(/x\{.*/, "12ab") })))(
  "$method $path is 405 and says $allow",
  async ({ method, path, allow }) => {
    const answer = await send(method, path);
    assert.deepEqual([answer.status, answer.allow], [405, allow]);
    if (method === "HEAD") assert.equal(answer.text, "");
    else assert.equal(JSON.parse(answer.text).detail, "not so");
  },
);

Deno.test.each([
  { method: "PUT", path: "/things", allow: "GET, POST" },
  { method: "PUT", path: "/things/7", allow: "POST, GET" },
  { method: "HEAD", path: "/things/7/parts/8", allow: "DELETE" },
  { method: "HEAD", path: "/once/12ab", allow: "GET" },
  { method: "PROPFIND", path: "/once/12ab", allow: "GET" },
])("$method $path names its methods in the order of the table: $allow", async ({ method, path, allow }) => {
  const answer = await send(method, path);
  assert.deepEqual([answer.status, answer.allow], [405, allow]);
});

Deno.test.each([
  "/",
  "/things/",
  "/things//",
  "/things/7/",
  "/things/7/parts",
  "/things/7/parts/8/9",
  "/Things",
  "/once/12abc",
  "/once/xyzw",
  "/%2Fthings",
])("%s is not a route, whatever the method", async (path) => {
  for (const method of ["GET", "POST", "PUT"]) {
    const { status, allow, text } = await send(method, path);
    assert.deepEqual([status, allow, JSON.parse(text).detail], [404, null, "no such thing"]);
  }
});

Deno.test("a router rejects with what a handler throws", async () => {
  await assert.rejects(send("GET", "/broken"), { code: "denied" });
  await assert.rejects(send("POST", "/broken"), { code: "frozen" });
});

Deno.test("a handler cannot ask for a part that its path does not have", async () => {
  const routes = routesFor<undefined, object>()({
    // @ts-expect-error: the parameter is called id
    "/things/:id": { GET: (_ports, { param }) => new Response(param("name")) },
  });
  const answer = createRouter(routes, undefined, { noRoute: "no such thing" });
  await assert.rejects(answer(new Request("https://localhost/things/7"), {}), TypeError);
});
