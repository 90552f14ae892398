import assert from "node:assert/strict";
import { AppError, type ErrorCode } from "@gateway/shared/errors";
import { startPlainServer, startTlsServer, type UnknownPeer } from "@gateway/shared/http";
import { poll } from "../stage/poll.ts";
import { broker, ca, issue, RawConnection, serverIdentity, startServer } from "./mtls_fixture.ts";

const GET = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const CLOSES = /^connection: close\r$/im;
/** A slow client stays connected, even on a busy machine. */
const PATIENT = { identifyMs: 60_000, headersMs: 60_000, requestMs: 60_000 };
const hello = () => new Response("hello\n");
const operator = await issue({ subject: "CN=operator", usage: "client" });

/** Sends arbitrary text on an HTTP connection without TLS and returns the response. */
async function exchangePlain(port: number, text: string): Promise<string> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  await connection.write(new TextEncoder().encode(text));
  const buffer = new Uint8Array(65_536);
  let answer = "";
  for (let count; (count = await connection.read(buffer)) !== null;) {
    answer += new TextDecoder().decode(buffer.subarray(0, count));
  }
  return answer;
}

async function exchangeTls(port: number, text: string): Promise<string> {
  using connection = await RawConnection.open(port, null);
  await connection.write(text);
  return await connection.read();
}

/** Whether a peer closes a connection, possibly by a reset. */
async function isClosed(connection: Deno.Conn): Promise<boolean> {
  return await connection.read(new Uint8Array(1)).catch(() => null) === null;
}

Deno.test("an unauthenticated connection ends with its 401, even inside a body", async () => {
  await using server = await startServer(hello, { timeouts: PATIENT });
  for (const text of [GET, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"]) {
    const answer = await exchangeTls(server.port, text);
    assert.match(answer, /^HTTP\/1\.1 401 /);
    assert.match(answer, CLOSES);
  }
});

Deno.test.each<{ readonly code: ErrorCode }>([
  { code: "forbidden" },
  { code: "not_found" },
  { code: "method_not_allowed" },
  { code: "payload_too_large" },
  { code: "unsupported_media_type" },
  { code: "rate_limited" },
])(
  "a known peer's connection ends with an answer ($code) that is given before its body was read",
  async ({ code }) => {
    await using server = await startServer(() => {
      throw new AppError(code, "no");
    }, { timeouts: PATIENT });
    for (const length of ["Content-Length: 9", "Transfer-Encoding: chunked"]) {
      using connection = await RawConnection.open(server.port);
      await connection.write(`POST / HTTP/1.1\r\nHost: x\r\n${length}\r\n\r\n1`);
      const answer = await connection.read();
      assert.match(answer, /^HTTP\/1\.1 4/);
      assert.match(answer, CLOSES);
      // If the request has no body, the same answer leaves the connection open.
      using other = await RawConnection.open(server.port);
      for (let count = 0; count < 2; count++) {
        await other.write(GET);
        assert.doesNotMatch(await other.read("}\n"), CLOSES);
      }
    }
  },
);

Deno.test("a client that continues sending a body after the answer is cut off, and not answered again", async () => {
  let handled = 0;
  await using server = await startServer(() => {
    handled += 1;
    throw new AppError("forbidden", "no");
  }, { timeouts: PATIENT });
  using connection = await RawConnection.open(server.port);
  await connection.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n");
  const answer = await connection.read("}\n");
  await connection.write(`12345${GET}`).catch(() => {});
  assert.equal(await connection.read(), "");
  assert.match(answer, CLOSES);
  assert.equal(handled, 1);
});

Deno.test("an answer before the body reaches a client that sends everything first", async () => {
  await using server = await startServer(() => {
    throw new AppError("payload_too_large", "no");
  }, { timeouts: PATIENT });
  using connection = await RawConnection.open(server.port);
  const length = 300_000;
  await connection.write(
    `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n${"a".repeat(length - 1)}`,
  );
  assert.match(await connection.read(), /^HTTP\/1\.1 413 .*\}\n$/s);
});

Deno.test.each([
  { name: "sends nothing", text: undefined },
  { name: "completes TLS and sends nothing", text: "" },
  { name: "does not end its headers", text: "GET / HTTP/1.1\r\nHost: x\r\nX: " },
])("an unauthenticated client that $name is disconnected after the time limit", async ({ text }) => {
  await using server = await startServer(hello, { timeouts: { ...PATIENT, identifyMs: 500 } });
  if (text === undefined) {
    using silent = await Deno.connect({ hostname: "127.0.0.1", port: server.port });
    assert.equal(await isClosed(silent), true);
    return;
  }
  assert.equal(await exchangeTls(server.port, text).catch(() => ""), "");
});

Deno.test("a known peer's connection stays open past the time to identify itself", async () => {
  await using server = await startServer(hello, { timeouts: { ...PATIENT, identifyMs: 1000 } });
  using connection = await RawConnection.open(server.port);
  using silent = await Deno.connect({ hostname: "127.0.0.1", port: server.port });
  await isClosed(silent);
  await connection.write(GET);
  assert.match(await connection.read("hello"), /^HTTP\/1\.1 200 /);
});

Deno.test("unauthenticated clients displace each other, never authenticated peers", async () => {
  const limits = { unauthenticated: 4, unauthenticatedPerSource: 4 };
  await using server = await startServer(hello, { timeouts: PATIENT, limits });
  using known = await RawConnection.open(server.port);
  await known.write(GET);
  await known.read("hello");
  let closed = 0;
  await using opened = new AsyncDisposableStack();
  for (let count = 0; count < 30; count++) {
    const stranger = await Deno.connect({ hostname: "127.0.0.1", port: server.port });
    const end = isClosed(stranger).then(() => closed += 1);
    opened.defer(async () => {
      try {
        stranger.close();
      } catch {
        // The server has already closed it.
      }
      await end;
    });
  }
  await poll(() => closed >= 26, { what: "the unauthenticated connections above the limit to be closed" });
  await known.write(GET);
  assert.match(await known.read("hello"), /^HTTP\/1\.1 200 /);
  using late = await RawConnection.open(server.port);
  await late.write(GET);
  const answer = await late.read("hello");
  assert.match(answer, /^HTTP\/1\.1 200 /);
  assert.doesNotMatch(answer, CLOSES);
});

Deno.test("beyond the room of known peers a connection has one answer, and reserved peers have room of their own", async () => {
  await using server = await startServer(hello, {
    timeouts: PATIENT,
    limits: { authenticated: 1, reserved: 1 },
    isReserved: (caller) => caller === "operator",
  });
  const connections: RawConnection[] = [];
  const answers: string[] = [];
  for (const identity of [broker, broker, operator]) {
    const connection = await RawConnection.open(server.port, identity);
    connections.push(connection);
    await connection.write(GET);
    answers.push(await connection.read("hello"));
  }
  assert.deepEqual(answers.map((answer) => answer.split(" ")[1]), ["200", "200", "200"]);
  assert.deepEqual(answers.map((answer) => CLOSES.test(answer)), [false, true, false]);
  for (const connection of connections) connection[Symbol.dispose]();
});

Deno.test("one caller's connections leave room for the other callers", async () => {
  await using server = await startServer(hello, {
    timeouts: PATIENT,
    limits: { authenticated: 6, reserved: 0 },
  });
  await using opened = new AsyncDisposableStack();
  const staysOpen = async (identity: typeof broker) => {
    const connection = opened.use(await RawConnection.open(server.port, identity));
    await connection.write(GET);
    const answer = await connection.read("hello");
    assert.match(answer, /^HTTP\/1\.1 200 /);
    return !CLOSES.test(answer);
  };
  const greedy = [];
  for (let count = 0; count < 8; count++) greedy.push(await staysOpen(broker));
  assert.equal(greedy.filter(Boolean).length, 3);
  assert.equal(await staysOpen(operator), true);
});

const LISTENERS = [
  { kind: "plain", start: startPlainServer, exchange: exchangePlain },
  {
    kind: "TLS",
    start: (options: Parameters<typeof startPlainServer>[0]) =>
      startTlsServer({ ...options, ...serverIdentity }),
    exchange: exchangeTls,
  },
];

Deno.test.each(LISTENERS)(
  "where requests say who sends them ($kind), a connection stays open once one did",
  async ({ start, exchange }) => {
    await using server = await start({
      listen: "127.0.0.1:0",
      timeouts: PATIENT,
      handler: (request: Request, { trust }: UnknownPeer) => {
        if (request.headers.get("authorization") === "right") trust();
        return hello();
      },
      onError: () => {},
    });
    const { port } = server.address;
    const right = "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: right\r\n";
    const anonymous = await exchange(port, GET);
    assert.match(anonymous, CLOSES);
    const trusted = await exchange(port, `${right}\r\n${right}Connection: close\r\n\r\n`);
    assert.equal(trusted.match(/hello/g)?.length, 2);
    // A trusted connection stays open. The next request shows its identity again.
    const [first = ""] = trusted.split("hello");
    assert.doesNotMatch(first, CLOSES);
  },
);

Deno.test.each([
  ...LISTENERS,
  {
    kind: "mTLS",
    start: async () => (await startServer(hello, { timeouts: PATIENT })).server,
    exchange: async (port: number, text: string) => {
      using connection = await RawConnection.open(port);
      await connection.write(text);
      return await connection.read();
    },
  },
])("two Host headers do not make a request ($kind)", async ({ start, exchange }) => {
  await using server = await start({
    listen: "127.0.0.1:0",
    timeouts: PATIENT,
    handler: hello,
    onError: () => {},
  });
  for (const second of ["Host: x", "host: y"]) {
    const text = `GET / HTTP/1.1\r\nHost: x\r\n${second}\r\nConnection: close\r\n\r\n`;
    const answer = await exchange(server.address.port, text);
    assert.match(answer, /^HTTP\/1\.1 400 /);
    assert.match(answer, /"code":"invalid_request"/);
  }
});

Deno.test("time in which the event loop is blocked does not count against a handshake", async () => {
  const identifyMs = 5_000;
  await using server = await startServer(hello, { timeouts: { ...PATIENT, identifyMs } });
  const accepted = await Deno.connect({ hostname: "127.0.0.1", port: server.port });
  await poll(() => server.server.connections().open.unauthenticated === 1, {
    what: "the connection to be accepted",
  });
  // Blocks the thread, as an expensive request would.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, identifyMs + 500);
  using connection = await Deno.startTls(accepted, { hostname: "127.0.0.1", caCerts: [ca] });
  await connection.write(new TextEncoder().encode(GET));
  const buffer = new Uint8Array(64);
  const count = await connection.read(buffer);
  assert.match(new TextDecoder().decode(buffer.subarray(0, count ?? 0)), /^HTTP\/1\.1 401 /);
});
