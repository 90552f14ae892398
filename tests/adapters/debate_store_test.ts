import { AppError } from "@gateway/shared/errors";
import assert from "node:assert/strict";
import { readRuns } from "../../debate/cli/runs_commands.ts";
import { openRunDirectory } from "../../debate/runs/run_directory.ts";
import type { AuditLine } from "../../debate/engine/ports.ts";
import { createToolAuditLog } from "../../debate/tools/audit_log.ts";
import { temporaryFolder } from "./debate_tools_fixture.ts";
import { systemClock } from "@gateway/shared/clock";
import { FakeClock } from "@gateway/shared/testing";
import { WebFixture } from "../../debate/testing/web_fixture.ts";
import { startServer } from "../../debate/web/serve.ts";
import { freePort } from "../stage/free_port.ts";
import { createFolder } from "../stage/folder.ts";

async function withFolder(test: (path: string) => Promise<void>): Promise<void> {
  await using folder = await createFolder();
  await test(folder.path);
}

const encode = (text: string) => new TextEncoder().encode(text);

Deno.test("the directory of run records is created for its owner only", () =>
  withFolder(async (path) => {
    const directory = await openRunDirectory(`${path}/a/b`);
    await directory.write("x.json", encode("{}"));
    await directory.append("x.jsonl", encode("1\n"));
    await directory.append("x.jsonl", encode("2\n"));
    assert.equal(((await Deno.stat(`${path}/a/b`)).mode ?? 0) & 0o777, 0o700);
    for (const name of ["x.json", "x.jsonl"]) {
      assert.equal(((await Deno.stat(`${path}/a/b/${name}`)).mode ?? 0) & 0o777, 0o600);
    }
    assert.equal(await Deno.readTextFile(`${path}/a/b/x.jsonl`), "1\n2\n");
    assert.deepEqual([...await directory.names()].toSorted(), [".lock", "x.json", "x.jsonl"]);
    await directory.close();
  }));

Deno.test("readEnds() returns both ends of a file, and nothing for a missing file", () =>
  withFolder(async (path) => {
    const directory = await openRunDirectory(path);
    await directory.write("x", encode(`${"a".repeat(100)}${"b".repeat(100)}`));
    const ends = await directory.readEnds("x", 10);
    assert.equal(new TextDecoder().decode(ends?.head), "a".repeat(10));
    assert.equal(new TextDecoder().decode(ends?.tail), "b".repeat(16));
    await directory.write("empty", encode(""));
    assert.equal((await directory.readEnds("empty", 10))?.head.length, 0);
    assert.equal(await directory.readEnds("none", 10), undefined);
    assert.equal(await directory.read("none"), undefined);
    await directory.remove("none");
    await directory.close();
  }));

Deno.test("a second server cannot use a directory until the first has closed it", () =>
  withFolder(async (path) => {
    const directory = await openRunDirectory(path);
    await assert.rejects(
      openRunDirectory(path),
      (error) => error instanceof AppError && /another server is using it/.test(error.message),
    );
    await directory.close();
    await (await openRunDirectory(path)).close();
  }));

Deno.test("a name cannot refer to a file outside the directory", () =>
  withFolder(async (path) => {
    const directory = await openRunDirectory(path);
    for (const name of ["../x", "a/b", "..", ""]) {
      assert.throws(() => directory.write(name, encode("x")), TypeError);
    }
    await directory.close();
  }));

Deno.test("a directory that cannot be used is reported", () =>
  withFolder(async (path) => {
    await Deno.writeTextFile(`${path}/file`, "");
    await assert.rejects(
      openRunDirectory(`${path}/file/runs`),
      (error) => error instanceof AppError && /^Cannot use DATA_DIR ".*": /.test(error.message),
    );
  }));

Deno.test("the list of the command line reads only the beginning of a file", () =>
  withFolder(async (path) => {
    const [early, late] = ["a", "b"].map((digit) => digit.repeat(32));
    const head = (time: string) =>
      `{\n  "topic": "it hangs",\n  "timestamp": "${time}",\n  "status": "completed"`;
    // The rest of the file is damaged.
    await Deno.writeTextFile(`${path}/${early}.json`, `${head("2026-01-01T00:00:00Z")},\n  "context": "…}`);
    await Deno.writeTextFile(`${path}/${late}.json`, `${head("2026-01-02T00:00:00Z")}\n}\n`);
    await Deno.writeTextFile(`${path}/${"c".repeat(32)}.json`, "{");
    const runs = await readRuns(path);
    assert.deepEqual(runs.map(({ run_id, topic, status }) => [run_id, topic, status]), [
      [late, "it hangs", "completed"],
      [early, "it hangs", "completed"],
    ]);
  }));

const LINE: AuditLine = {
  timestamp: "2026-01-02T03:04:05.000Z",
  run_id: "r1",
  agent: "diagnostic_agent",
  tool: "http_get",
  args: { url: "http://h/?k=hunter2", deep: [{ hunter2: 1 }], none: null },
  result: "ok\nline",
  error: false,
  approval: "auto",
};
const redact = (text: string) => text.replaceAll("hunter2", "[REDACTED]");

async function lines(path: string): Promise<readonly unknown[]> {
  return (await Deno.readTextFile(path)).trimEnd().split("\n").map((line) => JSON.parse(line));
}

Deno.test("createToolAuditLog() also redacts the requested arguments of an edited call", async () => {
  await using folder = await temporaryFolder();
  const path = `${folder.path}/audit.jsonl`;
  await createToolAuditLog(path, redact).append({
    ...LINE,
    args: {},
    proposed_args: { url: "http://hunter2" },
  });
  assert.deepEqual(await lines(path), [{ ...LINE, args: {}, proposed_args: { url: "http://[REDACTED]" } }]);
});

Deno.test("createToolAuditLog() writes one redacted line per call, for the owner only", async () => {
  await using folder = await temporaryFolder();
  const path = `${folder.path}/audit.jsonl`;
  const log = createToolAuditLog(path, redact);
  await log.append(LINE);
  await log.append({ ...LINE, error: true });
  assert.deepEqual(await lines(path), [
    { ...LINE, args: { url: "http://h/?k=[REDACTED]", deep: [{ "[REDACTED]": 1 }], none: null } },
    {
      ...LINE,
      args: { url: "http://h/?k=[REDACTED]", deep: [{ "[REDACTED]": 1 }], none: null },
      error: true,
    },
  ]);
  assert.deepEqual(
    Object.keys((await lines(path))[0] as object),
    "timestamp run_id agent tool args result error approval".split(" "),
  );
  assert.equal((await Deno.stat(path)).mode! & 0o777, 0o600);
});

Deno.test("createToolAuditLog() keeps order and whole lines during concurrent writes", async () => {
  await using folder = await temporaryFolder();
  const path = `${folder.path}/audit.jsonl`;
  const logs = [createToolAuditLog(path, redact), createToolAuditLog(path, redact)];
  await Promise.all(
    Array.from(
      { length: 60 },
      (_, at) => logs[at % 2]!.append({ ...LINE, run_id: String(at), result: "x".repeat(20_000) }),
    ),
  );
  await Promise.all(logs.map((log) => log.close()));
  const ids = (await lines(path)).map((line) => Number((line as AuditLine).run_id));
  assert.equal(ids.length, 60);
  for (const rest of [0, 1]) {
    const own = ids.filter((id) => id % 2 === rest);
    assert.deepEqual(own, own.toSorted((a, b) => a - b));
  }
});

Deno.test("createToolAuditLog() separates a line that a crash truncated from the next line", async () => {
  await using folder = await temporaryFolder();
  const path = `${folder.path}/audit.jsonl`;
  await Deno.writeTextFile(path, '{"timestamp":"2026');
  await createToolAuditLog(path, redact).append(LINE);
  const [torn, whole] = (await Deno.readTextFile(path)).split("\n");
  assert.equal(torn, '{"timestamp":"2026');
  assert.equal(JSON.parse(whole ?? "").run_id, "r1");
});

Deno.test("createToolAuditLog() fails when it cannot write, and recovers", async () => {
  await using folder = await temporaryFolder();
  const path = `${folder.path}/later/audit.jsonl`;
  const log = createToolAuditLog(path, redact);
  await assert.rejects(log.append(LINE), { code: "audit_unavailable", message: "audit unavailable" });
  await Deno.mkdir(`${folder.path}/later`);
  await log.append(LINE);
  assert.equal((await lines(path)).length, 1);
});

Deno.test("startServer() passes the real address of a request to the handler, despite its headers", async () => {
  const server = await startServer(
    { WEB_HOST: "127.0.0.1", WEB_PORT: freePort() },
    (_request, { address }) => Promise.resolve(new Response(address)),
    { clock: systemClock, onError: () => {} },
  );
  try {
    const headers = { "x-forwarded-for": "203.0.113.7", forwarded: "for=203.0.113.7" };
    assert.equal(await (await fetch(server.url, { headers })).text(), "127.0.0.1");
  } finally {
    await server.close();
  }
});

Deno.test.each([
  { name: "that names nobody", head: "GET /api/runs HTTP/1.1\r\nHost: x", status: 401 },
  { name: "for liveness", head: "GET /healthz HTTP/1.1\r\nHost: x", status: 200 },
  { name: "whose host is invalid", head: "GET /api/runs HTTP/1.1\r\nHost: [", status: 401 },
  // A URL of these parts has the path /healthz, but the text after its host is /api/runs.
  { name: "whose host holds a path", head: "GET /api/runs HTTP/1.1\r\nHost: x\\healthz?", status: 401 },
  {
    name: "whose host holds a path and a hash",
    head: "GET /api/runs HTTP/1.1\r\nHost: x\\healthz#",
    status: 401,
  },
  {
    name: "whose target holds another path",
    head: "GET http://x\\healthz?/api/runs HTTP/1.1\r\nHost: x",
    status: 400,
  },
  { name: "with dots", head: "GET /api/runs/../../healthz HTTP/1.1\r\nHost: x", status: 200 },
])("a request without credentials $name reveals only that the server is alive", async (request) => {
  const web = await WebFixture.open({ env: { WEB_USERNAME: "ann", WEB_PASSWORD: "secret" } });
  const ports = { clock: systemClock, onError: () => {} };
  const server = await startServer({ WEB_HOST: "127.0.0.1", WEB_PORT: freePort() }, web.handler, ports);
  try {
    const { hostname, port } = new URL(server.url);
    using connection = await Deno.connect({ hostname, port: Number(port) });
    await connection.write(new TextEncoder().encode(`${request.head}\r\nConnection: close\r\n\r\n`));
    const answer = await new Response(connection.readable).text();
    const { status } = request;
    assert.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `));
    if (status === 200) assert.match(answer, /\r\n\r\nok\n$/);
  } finally {
    await server.close();
  }
});

Deno.test("an endless request delays the close of the server only by the grace period", async () => {
  const clock = new FakeClock();
  const [begun, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<Response>()];
  const server = await startServer({ WEB_HOST: "127.0.0.1", WEB_PORT: freePort() }, () => {
    begun.resolve();
    return answer.promise;
  }, { clock, onError: () => {} });
  const request = fetch(server.url);
  await begun.promise;
  let isClosed = false;
  const closed = server.close().then(() => isClosed = true);
  await clock.advance(4999);
  assert.equal(isClosed, false);
  await clock.advance(1);
  await closed;
  answer.resolve(new Response("late"));
  assert.equal(await (await request).text(), "late");
});
