import assert from "node:assert/strict";
import fc from "fast-check";
import { AppError } from "@gateway/shared/errors";
import { FakeClock } from "@gateway/shared/testing";
import { AuthenticatedEndUser } from "./oauth.ts";
import {
  CALL,
  initialize,
  LIST,
  McpHttpFixture,
  parseEvents,
  rpc,
  statelessHeaders,
  statelessRpc,
} from "../testing/mcp_http_fixture.ts";
import { BrokerFixture, fixedTools } from "../testing/broker_fixture.ts";
import { createMcpServer } from "./mcp_server.ts";
import { type McpSession, McpSessions } from "./mcp_sessions.ts";
import type { ClustersResponse } from "@gateway/shared/wire";
import { CLUSTER, ClusterFixture } from "../testing/cluster_fixture.ts";
import { GENERATIONS, RawMcpClient, until } from "../testing/raw_mcp_client.ts";
import { SessionFixture } from "../testing/session_fixture.ts";
import { createToolset } from "../tools/toolset.ts";
import { hangUntilAborted, printed } from "../testing/fake_runner.ts";

const MINUTE_MS = 60_000;

class Scene implements AsyncDisposable {
  readonly clock = new FakeClock();
  readonly sessions: McpSessions;
  #random = 0;

  constructor() {
    this.sessions = new McpSessions({
      clock: this.clock,
      random: { bytes: (length) => new Uint8Array(length).fill(this.#random++) },
      limits: { perUser: 2, total: 3, idleMs: 30 * MINUTE_MS },
      createServer: (onCall) =>
        createMcpServer({
          tools: fixedTools([]),
          instructions: "",
          run: () => Promise.reject(new Error("no tool")),
          era: "legacy",
          clock: this.clock,
          onCall,
          onError: () => {},
        }),
      onProtocolError: () => {},
    });
  }

  /** Opens a session with a stream that stays open. */
  async openBusy(user: string) {
    const session = this.sessions.open(user);
    const post = new Request("https://localhost/", {
      method: "POST",
      headers: { "content-type": "application/json" },
    });
    await (await this.respond(session, post, initialize())).text();
    return { session, stream: await this.openStream(session) };
  }

  async openStream(session: McpSession): Promise<Response> {
    const request = new Request("https://localhost/", { headers: { "mcp-session-id": session.id } });
    return await this.respond(session, request);
  }

  async respond(session: McpSession, request: Request, body?: object): Promise<Response> {
    const endUser = new AuthenticatedEndUser("t", { endUser: session.user, groups: null });
    return endUser.exchange.endWith(await session.handle(request, endUser, body));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.sessions.close();
  }
}

const codeOf = (run: () => unknown) => {
  try {
    run();
  } catch (error) {
    if (error instanceof AppError) return error.code;
    throw error;
  }
  return "none";
};

Deno.test("McpSessions ends a session after the idle timeout and not before", async () => {
  await using scene = new Scene();
  const { id } = scene.sessions.open("alice");
  await scene.clock.advance(29 * MINUTE_MS);
  assert.equal(scene.sessions.find(id, "alice").id, id);
  await scene.clock.advance(2 * MINUTE_MS);
  assert.equal(codeOf(() => scene.sessions.find(id, "alice")), "not_found");
});

Deno.test("McpSessions keeps a session with an open stream and counts idle time after it", async () => {
  await using scene = new Scene();
  const { session, stream } = await scene.openBusy("alice");
  await scene.clock.advance(600 * MINUTE_MS);
  assert.equal(scene.sessions.size, 1);
  await stream.body?.cancel();
  assert.equal(session.isBusy, false);
  await scene.clock.advance(29 * MINUTE_MS);
  assert.equal(scene.sessions.size, 1);
  await scene.clock.advance(2 * MINUTE_MS);
  assert.equal(scene.sessions.size, 0);
});

Deno.test("McpSessions counts a canceled stream as ended only once", async () => {
  await using scene = new Scene();
  const { session, stream } = await scene.openBusy("alice");
  await stream.body?.cancel();
  const again = await scene.openStream(session);
  assert.equal(session.isBusy, true);
  await again.body?.cancel();
});

Deno.test("McpSessions ends a user's longest unused session to open one above the limit", async () => {
  await using scene = new Scene();
  const first = scene.sessions.open("alice");
  await scene.clock.advance(1000);
  const second = scene.sessions.open("alice");
  await scene.clock.advance(1000);
  const third = scene.sessions.open("alice");
  assert.equal(codeOf(() => scene.sessions.find(first.id, "alice")), "not_found");
  assert.equal(scene.sessions.find(second.id, "alice"), second);
  assert.equal(scene.sessions.find(third.id, "alice"), third);
});

Deno.test("McpSessions rejects a user's session above the limit while all others are busy", async () => {
  await using scene = new Scene();
  const busy = [await scene.openBusy("alice"), await scene.openBusy("alice")];
  assert.equal(codeOf(() => scene.sessions.open("alice")), "rate_limited");
  assert.equal(codeOf(() => scene.sessions.open("bob")), "none");
  for (const { stream } of busy) await stream.body?.cancel();
});

Deno.test("McpSessions rejects a session above the total limit and ends no other session", async () => {
  await using scene = new Scene();
  const alice = scene.sessions.open("alice");
  scene.sessions.open("bob");
  scene.sessions.open("carol");
  assert.equal(codeOf(() => scene.sessions.open("dave")), "rate_limited");
  assert.equal(scene.sessions.find(alice.id, "alice"), alice);
});

Deno.test("McpSessions serves a session only to its own user, whatever the users do (property)", async () => {
  const users = ["alice", "bob", "Alice", "alice ", ""] as const;
  const user = fc.constantFrom(...users);
  const action = fc.record({
    what: fc.constantFrom("open", "list", "stream", "end"),
    user,
    session: fc.nat({ max: 8 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(action, { maxLength: 30 }), async (actions) => {
      await using frontend = new McpHttpFixture();
      const owners = new Map<string, string>();
      for (const { what, user, session: index } of actions) {
        const token = `${user}:`;
        if (what === "open") {
          owners.set(await frontend.open(encodeURIComponent(token)), encodeURIComponent(user));
          continue;
        }
        const [id, owner] = [...owners][index % Math.max(1, owners.size)] ?? ["0".repeat(40), undefined];
        const request = { token: encodeURIComponent(token), session: id };
        const sent = {
          list: { ...request, body: rpc(1, "tools/list") },
          stream: request,
          end: { ...request, method: "DELETE" },
        }[what];
        const outcome = await frontend.send(sent).then((response) => response, (error) => error);
        if (owner === encodeURIComponent(user)) {
          assert.ok(outcome instanceof Response && outcome.status < 300);
          await outcome.body?.cancel();
          if (what === "end") owners.delete(id);
        } else {
          assert.ok(outcome instanceof AppError);
          assert.equal(outcome.code, owner === undefined ? "not_found" : "forbidden");
        }
      }
    }),
    { numRuns: 60 },
  );
});

const K8S_TOOLS = ["k8s_apply", "k8s_delete", "k8s_get", "k8s_list", "k8s_list_clusters", "k8s_logs"];
const { sessions } = new SessionFixture();

/** The tools of a broker, and a function that sets the clusters that it knows. */
function scene() {
  const fixture = new ClusterFixture();
  fixture.authority.clusterList = () => ({});
  const { clusters, currentClusters, runAction } = fixture;
  const tools = createToolset(
    Object.assign(new BrokerFixture(), { sessions, clusters, currentClusters, runAction }),
  );
  const know = async (...names: readonly string[]) => {
    fixture.authority.clusterList = () => Object.fromEntries(names.map((name) => [name, CLUSTER]));
    await clusters.inventory.refresh();
  };
  return { tools, know, authority: fixture.authority };
}

const k8sOf = ({ result }: { result: { tools: readonly { name: string }[] } }) =>
  result.tools.map(({ name }) => name).filter((name) => name.startsWith("k8s_"));

Deno.test("MCP over stdio lists six cluster tools while a cluster exists and announces changes", async () => {
  const { tools, know } = scene();
  await using client = await RawMcpClient.connect("2025-11-25", { tools });
  assert.deepEqual(k8sOf(await client.request("tools/list")), []);
  const { error } = await client.request("tools/call", { name: "k8s_get", arguments: {} });
  assert.equal(error.message, 'unknown tool "k8s_get"');
  await know("a");
  assert.equal((await client.message()).method, "notifications/tools/list_changed");
  assert.deepEqual(k8sOf(await client.request("tools/list")), K8S_TOOLS);
  await know("a", "b");
  assert.deepEqual((await client.call("k8s_list_clusters")).structuredContent, {
    clusters: [{ name: "a" }, { name: "b" }],
  });
  await know();
  assert.equal((await client.message()).method, "notifications/tools/list_changed");
  assert.deepEqual(k8sOf(await client.request("tools/list")), []);
});

/** The total length of all descriptions in a JSON value. */
function describedLength(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return Object.entries(value).reduce(
    (sum, [key, member]) =>
      sum + (key === "description" && typeof member === "string" ? member.length : describedLength(member)),
    0,
  );
}

Deno.test("the instructions and all descriptions for a model have at most 8,000 characters in total", async () => {
  const { tools, know } = scene();
  const client = new RawMcpClient("2025-11-25", { tools });
  const { result: { instructions } } = await client.initialize("2025-11-25");
  await client.notify("notifications/initialized", {});
  await know("a");
  await client.message();
  const { result } = await client.request("tools/list");
  assert.equal(result.tools.length, 13);
  // The instructions over HTTP contain two more limits, about 100 characters.
  assert.ok(instructions.length + describedLength(result) <= 7_900, "move shared text to the instructions");
  await client.end();
});

Deno.test("MCP over stdio delays the answers to an early client until the clusters are loaded", async () => {
  const { tools, authority } = scene();
  const list = Promise.withResolvers<ClustersResponse>();
  authority.clusterList = () => list.promise;
  await using client = await RawMcpClient.connect("2025-11-25", { tools });
  const listed = await client.start("tools/list");
  const called = await client.start("tools/call", { name: "k8s_list_clusters", arguments: {} });
  list.resolve({ a: CLUSTER });
  const messages = [await client.message(), await client.message(), await client.message()];
  const answerTo = (wanted: number) => messages.find(({ id }) => id === wanted);
  assert.deepEqual(k8sOf(answerTo(listed)), K8S_TOOLS);
  assert.deepEqual(answerTo(called).result.structuredContent, { clusters: [{ name: "a" }] });
});

Deno.test("MCP over stdio lists the cluster tools in the stateless generation", async () => {
  const { tools, know } = scene();
  await using client = await RawMcpClient.connect("2026-07-28", { tools });
  assert.deepEqual(k8sOf(await client.request("tools/list")), []);
  await know("a");
  assert.deepEqual(k8sOf(await client.request("tools/list")), K8S_TOOLS);
});

Deno.test("MCP over HTTP lists the cluster tools and announces changes on the session's stream", async () => {
  const { tools: toolset, know } = scene();
  await using frontend = new McpHttpFixture({ toolset });
  const list = async (session: string) => {
    const text = await (await frontend.send({ token: "alice", session, body: LIST })).text();
    return k8sOf(JSON.parse(/^data: (\{.*)$/m.exec(text)?.[1] ?? ""));
  };
  const session = await frontend.open("alice");
  assert.deepEqual(await list(session), []);
  const stream = await frontend.send({ token: "alice", session });
  const reader = stream.body?.getReader();
  assert.ok(reader);
  await know("a");
  let heard = "";
  while (!heard.includes("notifications/tools/list_changed")) {
    const read: ReadableStreamReadResult<Uint8Array> = await reader.read();
    assert.ok(!read.done, heard);
    heard += new TextDecoder().decode(read.value);
  }
  await reader.cancel();
  assert.deepEqual(await list(session), K8S_TOOLS);
});

const IN_USE = /belongs to a request that is still running/;

Deno.test.each(GENERATIONS)(
  "MCP %s over stdio rejects the ID of a running call, and the call still gets its answer",
  async (generation) => {
    await using client = await RawMcpClient.connect(generation);
    const finish = Promise.withResolvers<void>();
    client.broker.runner.answer = async () => {
      await finish.promise;
      return printed("first\n");
    };
    const id = await client.start("tools/call", CALL);
    await until(() => client.broker.runner.runs.length === 1);
    for (const method of ["tools/call", "tools/list"]) {
      await client.startAs(id, method, CALL);
      const { error, ...rest } = await client.message();
      assert.deepEqual([rest.id, error.code], [id, -32600]);
      assert.match(error.message, IN_USE);
    }
    finish.resolve();
    const { result } = await client.message();
    assert.equal(result.structuredContent.stdout, "first\n");
    assert.equal(client.broker.runner.runs.length, 1);
    await client.startAs(id, "tools/call", CALL);
    assert.equal((await client.message()).result.structuredContent.exit_code, 0, "free again");
  },
);

Deno.test.each([
  { name: "alone", body: rpc(7, "tools/call", CALL) },
  { name: "of another method", body: rpc(7, "ping") },
  { name: "in a batch", body: [rpc(8, "tools/call", CALL), rpc(7, "tools/call", CALL)] },
])(
  "MCP over HTTP rejects an ID $name of a running call, and a cancellation reaches that call",
  async ({ body }) => {
    await using frontend = new McpHttpFixture();
    const session = await frontend.open("alice", "2025-03-26");
    frontend.broker.runner.answer = hangUntilAborted;
    const headers = { "mcp-protocol-version": "2025-03-26" };
    const first = await frontend.send({ token: "alice", session, headers, body: rpc(7, "tools/call", CALL) });
    await until(() => frontend.broker.runner.runs.length === 1);
    const { code, message } = await frontend.refusalOf({ token: "alice", session, headers, body });
    assert.equal(code, "invalid_request");
    assert.match(message, IN_USE);
    assert.equal(frontend.broker.runner.runs.length, 1);
    const other = await frontend.open("alice");
    const list = await frontend.send({ token: "alice", session: other, body: rpc(7, "tools/list") });
    assert.equal(parseEvents(await list.text()).length, 2, "another session has ids of its own");

    const cancel = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 7 } };
    await frontend.send({ token: "alice", session, headers, body: cancel });
    await until(() => frontend.broker.log.entries.length === 1);
    assert.equal(frontend.broker.log.entries[0]?.err, "canceled");
    frontend.broker.runner.answer = () => printed("second\n");
    const again = await frontend.send({ token: "alice", session, headers, body: rpc(7, "tools/call", CALL) });
    assert.match(await again.text(), /second/);
    await first.body?.cancel();
  },
);

Deno.test("MCP over HTTP returns each answer to its own request if stateless IDs collide", async () => {
  await using frontend = new McpHttpFixture();
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  frontend.broker.runner.answer = async ({ command }) => {
    await gates[command === "first" ? 0 : 1]?.promise;
    return printed(`${command}\n`);
  };
  const call = (command: string) =>
    frontend.send({
      token: "alice",
      headers: statelessHeaders("tools/call", "ssh_execute"),
      body: statelessRpc(7, "tools/call", { name: "ssh_execute", arguments: { server: "web01", command } }),
    }).then((response) => response.text());
  const [first, second] = [call("first"), call("second")];
  await until(() => frontend.broker.runner.runs.length === 2);
  gates[1]?.resolve();
  assert.match(await second, /"stdout":"second\\n"/);
  gates[0]?.resolve();
  assert.match(await first, /"stdout":"first\\n"/);
});
