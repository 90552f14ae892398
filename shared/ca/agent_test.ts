import assert from "node:assert/strict";
import { AppError } from "../errors.ts";
import { encodeKeyBlob, encodeOpensshPrivateKey, formatPublicKey, verifySignature } from "../ssh/keys.ts";
import { parsePrivateKey } from "./pem.ts";
import { SshReader, SshWriter } from "../ssh/wire_format.ts";
import { FakeClock } from "../testing/fake_clock.ts";
import { type AgentConnection, loadAgentCaKey } from "./agent.ts";

const ca = parsePrivateKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca"));
const other = parsePrivateKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(2), "other"));
const publicKey = formatPublicKey(ca.algorithm, ca.publicKey, "ca");
const DATA = Uint8Array.of(1, 2, 3);

const namedSignature = (algorithm: string) =>
  new SshWriter().text(algorithm).string(new Uint8Array(64)).bytes();

/** The line of an RSA public key of this length. Its private key does not exist. */
function rsaLine(bits: number): string {
  const modulus = new Uint8Array(Math.ceil(bits / 8)).fill(0xff).with(0, 0xff >> ((8 - bits % 8) % 8));
  return formatPublicKey(
    "ssh-rsa",
    encodeKeyBlob({ kind: "rsa", exponent: Uint8Array.of(1, 0, 1), modulus }),
  );
}

type Answer = (request: Uint8Array) => Uint8Array | "silence";

/** A connection to an agent that sends the given answers, a few bytes at a time, and then closes. */
class FakeConnection implements AgentConnection {
  closed = false;
  readonly #answer: Answer;
  #request = new Uint8Array();
  #reply: Uint8Array | undefined;

  constructor(answer: Answer) {
    this.#answer = answer;
  }

  write(bytes: Uint8Array): Promise<number> {
    const count = Math.min(bytes.length, 7);
    this.#request = Uint8Array.of(...this.#request, ...bytes.subarray(0, count));
    return Promise.resolve(count);
  }

  read(buffer: Uint8Array): Promise<number | null> {
    if (this.#reply === undefined) {
      const reply = this.#answer(this.#request);
      if (reply === "silence") return new Promise(() => {});
      this.#reply = reply;
    }
    const chunk = this.#reply.subarray(0, Math.min(buffer.length, 7));
    buffer.set(chunk);
    this.#reply = this.#reply.subarray(chunk.length);
    return Promise.resolve(chunk.length === 0 ? null : chunk.length);
  }

  close(): void {
    this.closed = true;
  }
}

const message = (type: number, body = new Uint8Array()) =>
  new SshWriter().u32(1 + body.length).raw(Uint8Array.of(type)).raw(body).bytes();

const identities = (...blobs: readonly Uint8Array[]) =>
  message(
    12,
    blobs.reduce((w, blob) => w.string(blob).text("note"), new SshWriter().u32(blobs.length)).bytes(),
  );

const signatureBy = (key: typeof ca): Answer => (request) => {
  const reader = new SshReader(request.subarray(5));
  reader.string();
  return message(14, new SshWriter().string(key.sign(reader.string())).bytes());
};

const HONEST = [() => identities(other.publicKey, ca.publicKey), signatureBy(ca)] as const;

/** A key whose agent gives one answer a connection, in this order. */
function setUp(answers: readonly Answer[] = HONEST) {
  const clock = new FakeClock();
  const connections: FakeConnection[] = [];
  const connect = () => {
    const connection = new FakeConnection(answers[connections.length] ?? (() => "silence"));
    connections.push(connection);
    return Promise.resolve(connection);
  };
  return { clock, connections, load: () => loadAgentCaKey({ publicKey, connect, clock }) };
}

const failsWith = (code: AppError["code"], text: RegExp) => (error: unknown) => {
  assert.ok(error instanceof AppError, String(error));
  assert.equal(error.code, code);
  assert.match(error.message, text);
  return true;
};

Deno.test("loadAgentCaKey() gives a key that signs over a connection of its own, closed after use", async () => {
  const { clock, connections, load } = setUp();
  const key = await load();
  assert.equal(key.backend, "agent");
  assert.ok(verifySignature(ca.publicKey, await key.sign(DATA), DATA));
  assert.deepEqual(connections.map(({ closed }) => closed), [true, true]);
  assert.equal(clock.sleeping, 0);
});

const agentFaults: readonly { readonly name: string; readonly answer: Answer; readonly text: RegExp }[] = [
  { name: "refuses", answer: () => message(5), text: /refused the request/ },
  { name: "closes at once", answer: () => new Uint8Array(), text: /closed the connection/ },
  { name: "closes in the length", answer: () => Uint8Array.of(0, 0), text: /closed the connection/ },
  {
    name: "closes in the reply",
    answer: () => Uint8Array.of(0, 0, 0, 9, 12, 0),
    text: /closed the connection/,
  },
  {
    name: "announces four gigabytes",
    answer: () => Uint8Array.of(255, 255, 255, 255),
    text: /a reply of 4294967295 bytes/,
  },
  {
    name: "announces one byte more than allowed",
    answer: () => new SshWriter().u32(256 * 1024 + 1).bytes(),
    text: /a reply of 262145 bytes/,
  },
  { name: "announces nothing", answer: () => new Uint8Array(4), text: /a reply of 0 bytes/ },
  { name: "sends another type", answer: () => message(6), text: /a reply of type 6/ },
  {
    name: "sends an empty body for 12 and 14",
    answer: (r) => message(r[4] === 11 ? 12 : 14),
    text: /malformed/,
  },
];

Deno.test.each(agentFaults)("loadAgentCaKey() fails when the agent $name", async ({ answer, text }) => {
  const { connections, load } = setUp([answer]);
  await assert.rejects(load(), failsWith("invalid_config", text));
  assert.deepEqual(connections.map(({ closed }) => closed), [true]);
});

Deno.test.each([
  ...agentFaults,
  {
    name: "signs with another key",
    answer: signatureBy(other),
    text: /a signature that is not the CA's/,
  },
  {
    name: "signs something else",
    answer: () => message(14, new SshWriter().string(ca.sign(Uint8Array.of(9))).bytes()),
    text: /a signature that is not the CA's/,
  },
  {
    name: "returns junk for a signature",
    answer: () => message(14, new SshWriter().string(Uint8Array.of(1, 2, 3)).bytes()),
    text: /malformed/,
  },
  {
    name: "names another algorithm",
    answer: () => message(14, new SshWriter().string(namedSignature("ssh-rsa\n")).bytes()),
    text: /signed with "ssh-rsa\\n", not with ssh-ed25519/,
  },
  {
    name: "sends bytes behind the signature",
    answer: () => message(14, new SshWriter().string(ca.sign(DATA)).u32(0).bytes()),
    text: /malformed/,
  },
])("an agent's key does not sign when the agent $name", async ({ answer, text }) => {
  const { connections, load } = setUp([HONEST[0], answer]);
  const key = await load();
  await assert.rejects(key.sign(DATA), failsWith("upstream_failure", text));
  assert.deepEqual(connections.map(({ closed }) => closed), [true, true]);
});

Deno.test("R6: an agent that does not answer is given up after 10 seconds", async () => {
  const { clock, connections, load } = setUp([HONEST[0], () => "silence"]);
  const key = await load();
  let failure: unknown;
  const signing = key.sign(DATA).catch((error) => failure = error);
  await clock.advance(9_999);
  assert.equal(failure, undefined);
  await clock.advance(1);
  await signing;
  assert.ok(failsWith("upstream_failure", /did not answer in time/)(failure));
  assert.equal(connections[1]?.closed, true);
});

Deno.test("R6: an agent that does not accept is given up after 5 seconds, and a late connection closed", async () => {
  const clock = new FakeClock();
  const dialing = Promise.withResolvers<AgentConnection>();
  let failure: unknown;
  const loading = loadAgentCaKey({ publicKey, connect: () => dialing.promise, clock })
    .catch((error) => failure = error);
  await clock.advance(4_999);
  assert.equal(failure, undefined);
  await clock.advance(1);
  await loading;
  assert.ok(failsWith("invalid_config", /did not accept a connection in time/)(failure));
  const late = new FakeConnection(() => "silence");
  dialing.resolve(late);
  await clock.advance(0);
  assert.equal(late.closed, true);
});

Deno.test("an agent's key gives up with the request", async () => {
  const { clock, connections, load } = setUp([HONEST[0], () => "silence"]);
  const key = await load();
  const controller = new AbortController();
  const signing = key.sign(DATA, controller.signal);
  controller.abort();
  await assert.rejects(signing, { name: "AbortError" });
  await clock.advance(0);
  assert.equal(connections[1]?.closed, true);
});

Deno.test.each([
  ["RSA of 2047 bits", rsaLine(2047), /RSA of 2047 bits, not of 2048 to 4096/],
  ["RSA of 4097 bits", rsaLine(4097), /RSA of 4097 bits, not of 2048 to 4096/],
  ["no key", "hello", /Cannot use public_key_path for the CA: Cannot read SSH public key/],
  ["two keys", `${publicKey}\n${publicKey}\n`, /more than one line/],
])("loadAgentCaKey() refuses %s as public key, before it dials", async (_name, line, text) => {
  const connect = () => Promise.reject(new Error("dialed"));
  await assert.rejects(
    loadAgentCaKey({ publicKey: line, connect, clock: new FakeClock() }),
    failsWith("invalid_config", text),
  );
});
