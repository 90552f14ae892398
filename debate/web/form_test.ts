import { AppError } from "@gateway/shared/errors";
import assert from "node:assert/strict";
import fc from "fast-check";
import { readForm } from "./form.ts";
import { problemOf, WebFixture } from "../testing/web_fixture.ts";
import { ALL_GUESSES, CALLER_GUESSES } from "./guard.ts";
import { SHORT_SCRIPT } from "../testing/debate_fixture.ts";
import { ScriptedModel } from "../testing/scripted_model.ts";

const LIMITS = 100;

function* chunksOf(bytes: Uint8Array, size: number): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.slice(at, at + size);
}

function post(body: Iterable<Uint8Array> | AsyncIterable<Uint8Array>, boundary = "b"): Request {
  return new Request("http://x/", {
    method: "POST",
    headers: { "content-type": `multipart/form-data; boundary=${boundary}` },
    body: ReadableStream.from(body),
  });
}

function read(text: string | Uint8Array, size = 1000, limits = LIMITS) {
  const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
  return readForm(post(chunksOf(bytes, size)), limits);
}

function latin1(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

function part(disposition: string, content: string): string {
  return `--b\r\ncontent-disposition: form-data; ${disposition}\r\n\r\n${content}\r\n`;
}

async function codeOf(reading: Promise<unknown>): Promise<string> {
  try {
    await reading;
  } catch (error) {
    assert.ok(error instanceof AppError);
    return `${error.code}: ${error.message}`;
  }
  return assert.fail("accepted");
}

Deno.test("readForm() reads a form of the platform's FormData in chunks of any size", async () => {
  const line = fc.string({ unit: fc.constantFrom("a", "\r", "\n", "-", "ü", " "), maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(line, line, fc.integer({ min: 1, max: 40 }), async (field, content, size) => {
      const form = new FormData();
      form.append("topic", field);
      form.append("file", new File([content], "a.txt"));
      const request = new Request("http://x/", { method: "POST", body: form });
      const boundary = /boundary=(.*)$/.exec(request.headers.get("content-type") ?? "")?.[1];
      const bytes = new Uint8Array(await request.arrayBuffer());
      const { fields, files } = await readForm(post(chunksOf(bytes, size), boundary), LIMITS);
      // A browser writes every line end of a field as CR LF.
      assert.equal(fields.get("topic")?.replace(/\r\n?/g, "\n"), field.replace(/\r\n?/g, "\n"));
      assert.equal(new TextDecoder().decode(files.get("file")?.[0]?.bytes), content);
    }),
    { numRuns: 200 },
  );
});

Deno.test.each([
  { name: "the last part of a path", given: 'filename="C:\\\\temp\\\\..\\\\a.txt"', expected: "a.txt" },
  { name: "the last part of a climb", given: 'filename="../../etc/passwd"', expected: "passwd" },
  { name: "escaped quotes", given: 'filename="a%22b.txt"', expected: 'a"b.txt' },
  { name: "no line ends", given: 'filename="a%0D%0Ab.txt"', expected: "a  b.txt" },
])("readForm() returns $name of a file name", async ({ given, expected }) => {
  const { files } = await read(`${part(`name="f"; ${given}`, "x")}--b--\r\n`);
  assert.equal(files.get("f")?.[0]?.name, expected);
});

Deno.test("readForm() omits an empty file field", async () => {
  const { files } = await read(`${part('name="f"; filename=""', "")}--b--`);
  assert.equal(files.size, 0);
});

const INCOMPLETE = /^invalid_request: .*is incomplete: its last boundary is missing/;

Deno.test.each([
  { name: "an empty body", text: "", error: INCOMPLETE },
  { name: "a truncated part", text: part('name="a"', "x").slice(0, -8), error: INCOMPLETE },
  { name: "a missing last boundary", text: part('name="a"', "x"), error: INCOMPLETE },
  { name: "a part without a name", text: `${part("x=1", "x")}--b--`, error: /^invalid_request: .*no name/ },
  { name: "a part that is not form data", text: "--b\r\nx: y\r\n\r\nz\r\n--b--", error: /form-data/ },
  { name: "a part without a head", text: "--b\r\n\r\nx\r\n--b--", error: /form-data/ },
  { name: "a head that the boundary truncates", text: "--b\r\nx: y\r\n--b--", error: /has no header/ },
  {
    name: "a boundary followed by other text",
    text: `--bXX\r\n${part('name="a"', "x").slice(5)}--b--`,
    error: /form-data/,
  },
  { name: "a name that is not UTF-8", text: latin1(`${part('name="\xff"', "x")}--b--`), error: /not UTF-8/ },
  { name: "a text that is not UTF-8", text: latin1(`${part('name="a"', "\xff")}--b--`), error: /not UTF-8/ },
  { name: "an endless head", text: `--b\r\nx: ${"y".repeat(9000)}`, error: INCOMPLETE },
  { name: "an endless preamble", text: "x".repeat(9000), error: INCOMPLETE },
  { name: "too many parts", text: `${part('name="a"', "x").repeat(101)}--b--`, error: /more than 100 parts/ },
  {
    name: "too many files",
    text: `${part('name="a"; filename="f"', "x").repeat(21)}--b--`,
    error: /more than 20 files/,
  },
  {
    name: "a file over the limit",
    text: `${part('name="a"; filename="f.txt"', "x".repeat(101))}--b--`,
    error: /^payload_too_large: File "f.txt" is larger than 100 bytes/,
  },
])("readForm() rejects $name", async ({ text, error }) => {
  for (const size of [1, 7, 100_000]) assert.match(await codeOf(read(text, size)), error);
});

Deno.test("readForm() stops reading at the limit of a file", async () => {
  let given = 0;
  async function* endless(): AsyncGenerator<Uint8Array> {
    yield new TextEncoder().encode('--b\r\ncontent-disposition: form-data; name="a"; filename="f"\r\n\r\n');
    for (;;) {
      given += 50;
      yield new Uint8Array(50);
    }
  }
  assert.match(await codeOf(readForm(post(endless()), LIMITS)), /^payload_too_large/);
  assert.ok(given <= 200, String(given));
});

Deno.test("readForm() limits all text fields together", async () => {
  const half = part('name="a"', "x".repeat(600_000));
  const limits = 10_000_000;
  assert.match(
    await codeOf(read(`${half}${half}--b--`, 65_536, limits)),
    /^payload_too_large: The text fields/,
  );
});

Deno.test("readForm() ends for every input", async () => {
  const pieces = fc.constantFrom(
    "--b",
    "--b--",
    "\r\n",
    "\r",
    "\n",
    "-",
    "x",
    " ",
    "\0",
    'content-disposition: form-data; name="a"',
    'content-disposition: form-data; name="a"; filename="f"',
    "content-type: text/plain",
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(pieces, { maxLength: 25 }),
      fc.integer({ min: 1, max: 60 }),
      async (list, size) => {
        const form = await read(list.join(""), size).catch((error) => error);
        assert.ok(form instanceof AppError || form.fields instanceof Map);
      },
    ),
    { numRuns: 1000 },
  );
});

const LOGIN = { WEB_USERNAME: "ann", WEB_PASSWORD: "right" };

const basic = (password: string) => `Basic ${new TextEncoder().encode(`ann:${password}`).toBase64()}`;

/** Sends requests with a password from an address, optionally with a cookie. */
async function openServer() {
  const web = await WebFixture.open({ env: LOGIN });
  const ask = async (password: string, address: string, cookie?: string) => {
    web.address = address;
    const response = await web.get("/api/prompts", {
      authorization: basic(password),
      ...(cookie !== undefined && { cookie }),
    });
    await response.body?.cancel();
    return response;
  };
  const exhaust = async (address: string, cookie?: string) => {
    const statuses = [];
    for (let count = 0; count < CALLER_GUESSES; count++) {
      statuses.push((await ask("wrong", address, cookie)).status);
    }
    assert.deepEqual(new Set(statuses), new Set([401]));
  };
  return { web, ask, exhaust };
}

const cookieOf = (response: Response) => response.headers.get("set-cookie")?.split(";")[0] ?? "";

Deno.test("after too many wrong passwords an address is rejected even with the right password", async () => {
  const { web, ask, exhaust } = await openServer();
  await exhaust("203.0.113.7");
  for (const password of ["wrong", "right"]) {
    const refused = await ask(password, "203.0.113.7");
    assert.equal(refused.status, 429);
    assert.equal(refused.headers.get("retry-after"), "6");
  }
  await web.clock.advance(6000);
  assert.equal((await ask("right", "203.0.113.7")).status, 200);
});

Deno.test("wrong passwords of one address do not lock out another", async () => {
  const { ask, exhaust } = await openServer();
  await exhaust("203.0.113.7");
  assert.equal((await ask("wrong", "203.0.113.7")).status, 429);
  assert.equal((await ask("right", "203.0.113.8")).status, 200);
  assert.equal((await ask("wrong", "203.0.113.8")).status, 401);
});

Deno.test("a known browser is not locked out by wrong passwords of others at its address", async () => {
  const { ask, exhaust } = await openServer();
  const first = await ask("right", "127.0.0.1");
  assert.match(
    first.headers.get("set-cookie") ?? "",
    /^debate_browser=[\w-]{12}\.[\w-]{43}; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Strict$/,
  );
  await exhaust("127.0.0.1");
  assert.equal((await ask("right", "127.0.0.1")).status, 429);
  const known = await ask("right", "127.0.0.1", `a=b; ${cookieOf(first)}`);
  assert.deepEqual([known.status, known.headers.get("set-cookie")], [200, null]);
});

Deno.test("the cookie is not a credential, and it has its own limit of wrong passwords", async () => {
  const { web, ask, exhaust } = await openServer();
  const cookie = cookieOf(await ask("right", "127.0.0.1"));
  assert.equal((await web.get("/api/prompts", { cookie })).status, 401);
  await exhaust("127.0.0.1", cookie);
  assert.equal((await ask("right", "127.0.0.1", cookie)).status, 429);
});

Deno.test.each([
  { name: "without its signature", forge: (cookie: string) => cookie.split(".")[0] ?? "" },
  {
    name: "with another ID",
    forge: (cookie: string) => cookie.replace(/=./, (two) => two === "=A" ? "=B" : "=A"),
  },
  { name: "with another signature", forge: (cookie: string) => cookie.replace(/\..*/, `.${"A".repeat(43)}`) },
  { name: "of another server", forge: () => `debate_browser=${"A".repeat(12)}.${"A".repeat(43)}` },
])("a cookie $name has no separate limit", async ({ forge }) => {
  const { ask, exhaust } = await openServer();
  const cookie = forge(cookieOf(await ask("right", "127.0.0.1")));
  await exhaust("127.0.0.1");
  assert.equal((await ask("right", "127.0.0.1", cookie)).status, 429);
});

Deno.test("wrong passwords of all addresses share an overall limit", async () => {
  const { web, ask } = await openServer();
  const known = cookieOf(await ask("right", "198.51.100.1"));
  for (let count = 0; count < ALL_GUESSES; count++) {
    assert.equal((await ask("wrong", `203.0.113.${count}`)).status, 401);
  }
  assert.equal((await ask("wrong", "203.0.113.200")).status, 429);
  assert.equal((await ask("right", "198.51.100.1", known)).status, 200);
  await web.clock.advance(600);
  assert.equal((await ask("right", "198.51.100.1")).status, 200);
});

Deno.test("the addresses of one IPv6 network share a limit", async () => {
  const { ask } = await openServer();
  for (let count = 0; count < CALLER_GUESSES; count++) await ask("wrong", `2001:db8::${count.toString(16)}`);
  assert.equal((await ask("wrong", "2001:db8::ffff")).status, 429);
  assert.equal((await ask("wrong", "2001:db8:0:1::1")).status, 401);
});

Deno.test("an IPv4 address inside an IPv6 address shares the limit of the IPv4 address", async () => {
  const { ask, exhaust } = await openServer();
  await exhaust("::ffff:203.0.113.7");
  assert.equal((await ask("right", "203.0.113.7")).status, 429);
  assert.equal((await ask("right", "::ffff:203.0.113.8")).status, 200);
});

Deno.test("right passwords and requests without a password do not count toward the limit", async () => {
  const { web, ask } = await openServer();
  for (let count = 0; count < 2 * ALL_GUESSES; count++) {
    assert.equal((await ask("right", "203.0.113.7")).status, 200);
    assert.equal((await web.get("/api/prompts")).status, 401);
  }
});

const SAYS = "### HYPOTHESIS-H-1 [P=0.7]\nText: {component: pool; fault: resource_leak} It leaks.";

interface Said {
  readonly type: string;
  readonly sample?: number;
}

Deno.test("a run with independent diagnoses is recorded, reported and resumed as a debate", async () => {
  const model = new ScriptedModel({ ...SHORT_SCRIPT, sample_agent: [SAYS] });
  const web = await WebFixture.open({ model, env: { SAMPLES: "2" } });
  const runId = await web.startAndEnd({ mode: "sample_then_debate" });
  const record = await web.record(runId);
  assert.equal(record.mode, "sample_then_debate");
  const samples = record.events.filter(({ sample }: Said) => sample !== undefined);
  assert.equal(samples.length, 2);
  const report = await (await web.get(`/api/runs/${runId}/report`)).text();
  assert.match(report, /\*\*Mode:\*\* independent diagnoses/);
  assert.match(
    report,
    /### Primary Diagnosis 2\n[^]*All 2 independent diagnoses lead with H-1, but not enough of its evidence/,
  );
  const resumed = await web.form(`/api/runs/${runId}/resume`, { new_evidence: "the pool was full" });
  const { run_id } = await resumed.json();
  await web.end(run_id);
  const next = await web.record(run_id);
  assert.equal(next.events.some(({ type }: Said) => type === "samples_compared"), false);
  assert.equal(next.mode, undefined);
});

Deno.test("the default mode comes from the settings", async () => {
  const model = new ScriptedModel({ ...SHORT_SCRIPT, sample_agent: [SAYS] });
  const web = await WebFixture.open({ model, env: { DEBATE_MODE: "sample_then_debate" } });
  const { mode } = await web.record(await web.startAndEnd());
  assert.equal(mode, "sample_then_debate");
  assert.equal((await (await web.get("/api/settings")).json()).mode, "sample_then_debate");
  assert.equal((await web.record(await web.startAndEnd({ mode: "debate" }))).mode, undefined);
});

Deno.test("a form with an unknown mode is rejected", async () => {
  const web = await WebFixture.open();
  const problem = await problemOf(await web.form("/api/runs", { topic: "x", mode: "vote" }));
  assert.deepEqual([problem.status, problem.detail], [
    400,
    "Field mode: must be debate, sample_then_debate",
  ]);
});
