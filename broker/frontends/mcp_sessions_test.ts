import assert from "node:assert/strict";
import fc from "fast-check";
import { AppError } from "@gateway/shared/errors";
import { FakeClock } from "@gateway/shared/testing";
import { AuthenticatedEndUser } from "./oauth.ts";
import { initialize, McpHttpFixture, rpc } from "../testing/mcp_http_fixture.ts";
import { fixedTools } from "../testing/broker_fixture.ts";
import { createMcpServer } from "./mcp_server.ts";
import { type McpSession, McpSessions } from "./mcp_sessions.ts";

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

  /** Opens a session and a stream in it that stays. */
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

Deno.test("McpSessions ends a session that has been idle for long, and not before", async () => {
  await using scene = new Scene();
  const { id } = scene.sessions.open("alice");
  await scene.clock.advance(29 * MINUTE_MS);
  assert.equal(scene.sessions.find(id, "alice").id, id);
  await scene.clock.advance(2 * MINUTE_MS);
  assert.equal(codeOf(() => scene.sessions.find(id, "alice")), "not_found");
});

Deno.test("McpSessions spares a session with an open stream, and counts from the stream's end", async () => {
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

Deno.test("McpSessions counts a stream that is given up once", async () => {
  await using scene = new Scene();
  const { session, stream } = await scene.openBusy("alice");
  await stream.body?.cancel();
  const again = await scene.openStream(session);
  assert.equal(session.isBusy, true);
  await again.body?.cancel();
});

Deno.test("McpSessions gives a user one more by ending that user's longest unused", async () => {
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

Deno.test("McpSessions refuses a user one more while all of that user's are busy", async () => {
  await using scene = new Scene();
  const busy = [await scene.openBusy("alice"), await scene.openBusy("alice")];
  assert.equal(codeOf(() => scene.sessions.open("alice")), "rate_limited");
  assert.equal(codeOf(() => scene.sessions.open("bob")), "none");
  for (const { stream } of busy) await stream.body?.cancel();
});

Deno.test("McpSessions never ends another user's session to make room", async () => {
  await using scene = new Scene();
  const alice = scene.sessions.open("alice");
  scene.sessions.open("bob");
  scene.sessions.open("carol");
  assert.equal(codeOf(() => scene.sessions.open("dave")), "rate_limited");
  assert.equal(scene.sessions.find(alice.id, "alice"), alice);
});

Deno.test("McpSessions is of any use to the session's user only, whatever users do (property)", async () => {
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
