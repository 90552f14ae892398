import assert from "node:assert/strict";
import type { ApiOutcome, ApiRequest } from "@gateway/shared/kubernetes";
import { readClaims, Reviews } from "./reviews.ts";

function answering(outcome: ApiOutcome): Reviews & { readonly asked: ApiRequest[] } {
  const asked: ApiRequest[] = [];
  const reviews = new Reviews({
    request: (request) => {
      asked.push(request);
      return Promise.resolve(outcome);
    },
  });
  return Object.assign(reviews, { asked });
}

function answer(status: number, body: unknown): ApiOutcome {
  return {
    kind: "answered",
    status,
    headers: {},
    text: typeof body === "string" ? body : JSON.stringify(body),
  };
}

Deno.test.each<{ name: string; outcome: ApiOutcome; problem: RegExp }>([
  { name: "silence", outcome: { kind: "timed_out" }, problem: /^no answer within 10 s$/ },
  { name: "a flood", outcome: { kind: "too_large" }, problem: /larger than 4194304 bytes/ },
  {
    name: "a foreign certificate",
    outcome: { kind: "untrusted", cause: new Error("UnknownIssuer") },
    problem: /ca_cert.*UnknownIssuer/,
  },
  {
    name: "nobody",
    outcome: { kind: "unreachable", cause: new Error("refused") },
    problem: /can't be reached \(refused\)/,
  },
  {
    name: "a refused token",
    outcome: answer(401, { message: "Unauthorized" }),
    problem: /does not take the token/,
  },
  {
    name: "a refused right",
    outcome: answer(403, { message: "secrets is forbidden" }),
    problem: /HTTP 403: secrets is forbidden/,
  },
  {
    name: "a redirect",
    outcome: answer(302, "<html>"),
    problem: /redirect \(HTTP 302\), which is not followed/,
  },
  { name: "an error without words", outcome: answer(500, "<html>"), problem: /^it answers HTTP 500$/ },
  { name: "a page", outcome: answer(200, "<html>ok</html>"), problem: /answers as no API server does/ },
  {
    name: "another object",
    outcome: answer(200, { status: { allowed: "yes" } }),
    problem: /answers as no API server does/,
  },
  {
    name: "an empty token",
    outcome: answer(201, { status: { token: "" } }),
    problem: /answers as no API server does/,
  },
])("Reviews tells of $name", async ({ outcome, problem }) => {
  const reviews = answering(outcome);
  const account = { namespace: "gateway", name: "agent" };
  await assert.rejects(reviews.mint("t", account), { message: problem });
  assert.equal(reviews.asked.length, 1);
});

Deno.test("Reviews asks about a subresource, and believes nothing but true", async () => {
  const reviews = answering(answer(201, { status: { allowed: false, reason: "no" } }));
  const question = { namespace: "web", group: "", resource: "pods/log", verb: "get", name: "web-1" };
  assert.deepEqual(await reviews.mayI("t", question), { allowed: false, reason: "no" });
  const body = JSON.parse(new TextDecoder().decode(reviews.asked[0]?.body?.bytes));
  assert.deepEqual(body.spec.resourceAttributes, {
    namespace: "web",
    group: "",
    verb: "get",
    name: "web-1",
    resource: "pods",
    subresource: "log",
  });
});

const jwt = (payload: unknown) =>
  `e30.${
    new TextEncoder().encode(JSON.stringify(payload)).toBase64({ alphabet: "base64url", omitPadding: true })
  }.x`;

Deno.test.each<{ name: string; token: string; claims: ReturnType<typeof readClaims> }>([
  {
    name: "id and end",
    token: jwt({ jti: "4e72", exp: 1_795_351_331 }),
    claims: { jti: "4e72", exp: 1_795_351_331 },
  },
  { name: "no id and no end", token: jwt({ sub: "ä?>" }), claims: { jti: "" } },
  { name: "nothing of other kinds of tokens", token: "opaque", claims: undefined },
  { name: "nothing of what is not base64url", token: "a.!!.c", claims: undefined },
  { name: "nothing of what is not JSON", token: "a.YWJj.c", claims: undefined },
  { name: "nothing of an id that is no text", token: jwt({ jti: 7 }), claims: undefined },
])("readClaims() reads $name", ({ token, claims }) => {
  assert.deepEqual(readClaims(token), claims);
});
