import assert from "node:assert/strict";
import { STATUS } from "@gateway/shared/errors";
import * as z from "@zod/zod";
import { createHttpFrontend } from "../../broker/frontends/http.ts";
import { BrokerFixture } from "../../broker/testing/broker_fixture.ts";
import { startSignIn } from "../../control_plane/testing/sign_in_scene.ts";
import { startGated } from "../../control_plane/testing/memory_control_plane.ts";
import { parseLine } from "../../shared/audit/record.ts";
import { startSigner } from "../../signer/testing/memory_signer.ts";
import { listFiles, ROOT } from "./extract.ts";
import { EXAMPLES, FULL } from "./reference/audit_page.ts";
import { readCodes } from "./reference/errors_page.ts";
import { referenceFiles } from "./reference/main.ts";
import { readMetrics } from "./reference/metrics_page.ts";
import { API, encodeBody, faultsOf, openApi, routesOf, type Service, TYPES } from "./reference/openapi.ts";
import { readSource, readSources, routeTexts } from "./reference/source.ts";
import { TEXTS } from "./reference/table.ts";

const FILES = referenceFiles();
const PAGES = Object.entries(FILES).map(([path, text]) => ({ path, text }));
const SERVICES = ["signer/", "control_plane/", "broker/"];

function allIn(found: readonly string[], known: readonly string[]): void {
  assert.ok(found.length > 0);
  assert.deepEqual(found.filter((each) => !known.includes(each)), []);
}

Deno.test.each(PAGES)("$path is the output of deno task docs:reference", async ({ path, text }) => {
  assert.ok(text === await Deno.readTextFile(ROOT + path), "run deno task docs:reference");
});

Deno.test("docs/reference contains no obsolete page and names each unit", async () => {
  const others = listFiles("docs/reference/").filter((file) => FILES[file] === undefined);
  assert.deepEqual(others.toSorted(), [
    "docs/reference/behavior-broker.md",
    "docs/reference/behavior-control-plane.md",
    "docs/reference/behavior-signer.md",
    "docs/reference/installed-files.md",
    "docs/reference/signed-approvals.md",
  ]);
  const text = await Deno.readTextFile(`${ROOT}docs/reference/installed-files.md`);
  const units = listFiles("deploy/systemd/").map((file) => file.slice("deploy/systemd/".length));
  allIn(units.filter((file) => /\.(?:service|timer)$/.test(file)), text.split("`"));
});

const WITH_KEYS = /\/(?:configuration-\w|http-api|audit|errors|metrics)/;
Deno.test.each(PAGES.filter(({ path }) => WITH_KEYS.test(path)))("$path has no empty meaning", ({ text }) => {
  const rows = text.split("\n").filter((line) => line.startsWith("| "));
  assert.ok(rows.length > 10);
  assert.deepEqual(rows.filter((row) => / \| +\|$/.test(row)), []);
});

Deno.test("the reference describes each metric and error code", () => {
  assert.deepEqual(readCodes().filter((row) => row.includes("")), []);
  const calls = readSource(...SERVICES, "debate/", "shared/").replace(/\/\*\*[^]*?\*\//g, "");
  const sites = calls.match(/metrics\.(?:counter|gauges?|total|histogram)\(/g);
  assert.equal(readMetrics().length, sites?.length);
});

Deno.test.each(API.services)("$title: the reference describes exactly the registered routes", (service) => {
  const registered = routesOf(service).map(({ method, path }) => `${method} ${path}`).toSorted();
  assert.deepEqual(Object.keys(service.routes).toSorted(), registered);
  const described = routeTexts(readSource(...service.directories)).flatMap(({ routes }) => routes);
  assert.deepEqual(described.toSorted(), registered);
});

Deno.test.each(API.services)("$title: the reference describes each error of a handler", (service) => {
  for (const route of routesOf(service)) {
    assert.ok(route.about !== "" && route.callers !== "", route.path);
    const thrown = thrownBy(route.handler, service);
    assert.deepEqual(thrown.filter((code) => !(code in faultsOf(route))), [], route.path);
  }
});

/** The error codes in a function and in the functions that it names. Methods of classes are not followed. */
function thrownBy(handler: string, { directories }: Service): readonly string[] {
  const START = /^(?=(?:export )?(?:async )?(?:function|const) \w)/m;
  const nameOf = (text: string) => /(?:function|const) (\w+)/.exec(text)?.[1] ?? "";
  const files = readSources(...directories, "shared/wire/", "shared/http/")
    .map((source) => source.replace(/\/\*\*[^]*?\*\//g, "").split(START).slice(1))
    .map((texts) => new Map(texts.map((text) => [nameOf(text), text])));
  const seen = new Set<string>();
  const visit = (name: string, file = new Map<string, string>()) => {
    const text = file.get(name) ?? "";
    if (seen.has(text)) return;
    seen.add(text);
    for (const [word] of text.matchAll(/\b[a-z]\w+\b|\b[A-Z_]{4,}\b/g)) {
      visit(word, file.has(word) ? file : files.find((each) => each.get(word)?.startsWith("export")));
    }
  };
  visit(handler, files.find((each) => each.has(handler)));
  const codes = [...seen].flatMap((text) => [...text.matchAll(/(?:AppError\(\s*|: \[)"(\w+)"/g)]);
  return codes.map(([, code = ""]) => code).filter((code) => code in STATUS);
}

function accepts(type: string, body: unknown): boolean {
  return z.fromJSONSchema(TYPES.get(type) as z.core.JSONSchema.JSONSchema).safeParse(body).success;
}

interface Running {
  readonly id: string;
  readonly send: (request: Request, caller: string) => Promise<Response> | Response;
}

const RUNNING: Readonly<Record<string, () => Promise<Running>>> = {
  signer: async () => ({ id: "1", send: (await startSigner()).fetch }),
  async "control-plane"() {
    const plane = await startGated();
    const send = async (request: Request, caller: string) => {
      const { status, text, headers } = await plane.send(request, caller);
      return new Response(text || null, { status, headers });
    };
    return { id: await plane.park(), send };
  },
  async "sign-in"() {
    const { answer } = await startSignIn();
    const send = async (request: Request) => {
      const { status, text, headers } = await answer(request, "192.0.2.1");
      return new Response(text || null, { status, headers });
    };
    return { id: "", send };
  },
  broker() {
    const answer = createHttpFrontend(new BrokerFixture());
    return Promise.resolve({
      id: "",
      send: (request, caller) => answer(request, { caller: caller as never }),
    });
  },
};

Deno.test.each(API.services)("$title: responses to the examples match the reference", async (service) => {
  const { paths } = openApi(service);
  const { send, id } = await RUNNING[service.name]?.() ?? assert.fail();
  for (const route of routesOf(service)) {
    const { method, path, body, bodyType = "application/json", example } = route;
    assert.ok(body === undefined || accepts(body, example), path);
    const url = `https://localhost${path.replace("{host}", "web01").replace(/\{\w+\}/, id)}`;
    const headers = { "content-type": bodyType, "sec-fetch-site": "same-origin" };
    for (const caller of ["operator", "broker-1", "approver-1"]) {
      const init = { method, headers, ...(body !== undefined && { body: encodeBody(route) }) };
      const response = await send(new Request(url, init), caller);
      const where = `${method} ${path}: ${response.status}`;
      const { content } = paths[path]?.[method.toLowerCase()]?.responses[response.status] ??
        assert.fail(where);
      const type = response.headers.get("content-type")?.split(";", 1)[0] ?? "";
      assert.ok(content === undefined || type in content, `${where} ${type}`);
      const [name = ""] = /\w+$/.exec(content?.[type]?.schema?.$ref) ?? [];
      // Serials are beyond the exact numbers of this runtime.
      const text = (await response.text()).replace(/\b\d{16,}\b/g, "1");
      assert.ok(!TYPES.has(name) || accepts(name, JSON.parse(text)), `${where}: ${text}`);
    }
  }
});

/** The sources, with "…" for each value in a text. */
function readTexts(...directories: readonly string[]): string {
  const text = readSource(...directories).replaceAll('\\"', '"');
  return text.replaceAll(/\$\{(?:[^{}]|\{[^{}]*\})*\}/g, "…");
}

const POLICY = readTexts("shared/policy/");
const DECIDING = POLICY + readTexts(...SERVICES);
const namesOf = (kind: string) => Object.keys(TEXTS[kind] ?? {});

Deno.test("the rules and reasons of denials in the reference equal those in the code", () => {
  const denials =
    /(?:\bdeny\(\s*|\bclosed\(|AppError\(\s*"(?:forbidden|frozen)",\s*)(["`])([^"`\n]* [^"`\n]*)/g;
  const known = namesOf("denials");
  const denied = [...DECIDING.matchAll(denials)].map(([, , text = ""]) => text);
  assert.deepEqual(denied.filter((text) => !known.some((each) => each.startsWith(text))), []);
  assert.deepEqual(known.filter((text) => !DECIDING.includes(text)), []);
  const reasons: readonly string[] = Object.values(TEXTS["shell_parse"] ?? {});
  allIn([...POLICY.matchAll(/\brefuse\((["`])([^"`\n]+)\1/g)].map(([, , text = ""]) => text), reasons);
  assert.deepEqual(reasons.filter((text) => !POLICY.includes(text)), []);
  assert.deepEqual(namesOf("rules").filter((rule) => !DECIDING.includes(rule.replace(/<.*/, ""))), []);
});

Deno.test("docs/reference/audit-record.md contains each outcome and examples of real logs", () => {
  const outcomes = /\b(?:outcome(?:: | = )(?:[\w.() ]+ \? "[\w-]+" : )?|made: |failed: )"([\w-]+)"/g;
  const known = namesOf("outcomes");
  allIn([...DECIDING.matchAll(outcomes)].map(([, name = ""]) => name), known);
  assert.deepEqual(known.filter((outcome) => !DECIDING.includes(`"${outcome}"`)), []);
  for (const line of EXAMPLES) {
    assert.ok(parseLine(new TextEncoder().encode(line)), line);
    const { ext = {}, ...record } = JSON.parse(line);
    allIn([record.outcome], known);
    allIn(Object.keys(record), Object.keys(FULL));
    allIn(["jti", ...Object.keys(ext)], Object.keys(FULL.ext));
  }
});
