import assert from "node:assert/strict";
import { encodeKeyBlob, encodeOpensshPrivateKey, formatPublicKey, verifySignature } from "../ssh/keys.ts";
import { parsePrivateKey } from "./pem.ts";
import { SshReader, SshWriter } from "../ssh/wire_format.ts";
import { FakeClock } from "../testing/fake_clock.ts";
import { type AgentConnection, loadAgentCaKey } from "./agent.ts";

const ca = parsePrivateKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca"));
const other = parsePrivateKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(2), "other"));
const publicKey = formatPublicKey(ca.algorithm, ca.publicKey, "ca");
const DATA = Uint8Array.of(1, 2, 3);
const INVALID = { name: "AppError", code: "invalid_config" };
const FAILURE = { name: "AppError", code: "upstream_failure" };

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

/** A key whose agent gives one answer per connection, in this order. */
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

Deno.test("loadAgentCaKey() returns a key that opens a connection per signature and closes it", async () => {
  const { clock, connections, load } = setUp();
  const key = await load();
  assert.equal(key.backend, "agent");
  assert.ok(verifySignature(ca.publicKey, await key.sign(DATA), DATA));
  assert.deepEqual(connections.map(({ closed }) => closed), [true, true]);
  assert.equal(clock.sleeping, 0);
});

type Fault = readonly [name: string, answer: Answer, message: RegExp];
const CLOSED = /closed the connection/;
const NOT_ITS = /a signature that is not the CA's/;
const announcing = (length: number): Answer => () => new SshWriter().u32(length).bytes();
const signing = (signature: Uint8Array, ...more: readonly number[]): Answer => () =>
  message(14, new SshWriter().string(signature).raw(Uint8Array.from(more)).bytes());

const AGENT_FAULTS: readonly Fault[] = [
  ["refuses", () => message(5), /refused the request/],
  ["closes at once", () => new Uint8Array(), CLOSED],
  ["closes in the length", () => Uint8Array.of(0, 0), CLOSED],
  ["closes in the reply", () => Uint8Array.of(0, 0, 0, 9, 12, 0), CLOSED],
  ["announces four gigabytes", announcing(2 ** 32 - 1), /a reply of 4294967295 bytes/],
  ["announces one byte more than allowed", announcing(256 * 1024 + 1), /a reply of 262145 bytes/],
  ["announces nothing", announcing(0), /a reply of 0 bytes/],
  ["sends another type", () => message(6), /a reply of type 6/],
  ["sends an empty body for 12 and 14", (request) => message(request[4] === 11 ? 12 : 14), /malformed/],
];

Deno.test.each([...AGENT_FAULTS])(
  "loadAgentCaKey() fails if the agent %s",
  async (_name, answer, message) => {
    const { connections, load } = setUp([answer]);
    await assert.rejects(load(), { ...INVALID, message });
    assert.deepEqual(connections.map(({ closed }) => closed), [true]);
  },
);

Deno.test.each<Fault>([
  ...AGENT_FAULTS,
  ["signs with another key", signatureBy(other), NOT_ITS],
  ["signs something else", signing(ca.sign(Uint8Array.of(9))), NOT_ITS],
  ["returns junk for a signature", signing(Uint8Array.of(1, 2, 3)), /malformed/],
  [
    "names another algorithm",
    signing(new SshWriter().text("ssh-rsa\n").string(new Uint8Array(64)).bytes()),
    /signed with "ssh-rsa\\n", not with ssh-ed25519/,
  ],
  ["sends bytes after the signature", signing(ca.sign(DATA), 0, 0, 0, 0), /malformed/],
])("signing with an agent's key fails if the agent %s", async (_name, answer, message) => {
  const { connections, load } = setUp([HONEST[0], answer]);
  const key = await load();
  await assert.rejects(key.sign(DATA), { ...FAILURE, message });
  assert.deepEqual(connections.map(({ closed }) => closed), [true, true]);
});

Deno.test("R6: signing fails after 10 s if the agent does not answer", async () => {
  const { clock, connections, load } = setUp([HONEST[0], () => "silence"]);
  const key = await load();
  let failure: unknown;
  const signing = key.sign(DATA);
  signing.catch((error) => failure = error);
  await clock.advance(9_999);
  assert.equal(failure, undefined);
  await clock.advance(1);
  await assert.rejects(signing, { ...FAILURE, message: /did not answer in time/ });
  assert.equal(connections[1]?.closed, true);
});

Deno.test("R6: an agent that does not accept a connection is abandoned after 5 s, and a late connection is closed", async () => {
  const clock = new FakeClock();
  const dialing = Promise.withResolvers<AgentConnection>();
  let failure: unknown;
  const loading = loadAgentCaKey({ publicKey, connect: () => dialing.promise, clock });
  loading.catch((error) => failure = error);
  await clock.advance(4_999);
  assert.equal(failure, undefined);
  await clock.advance(1);
  await assert.rejects(loading, { ...INVALID, message: /did not accept a connection in time/ });
  const late = new FakeConnection(() => "silence");
  dialing.resolve(late);
  await clock.advance(0);
  assert.equal(late.closed, true);
});

Deno.test("signing with an agent's key stops if the request is aborted", async () => {
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
])("loadAgentCaKey() rejects %s as the public key before it connects", async (_name, line, message) => {
  const connect = () => Promise.reject(new Error("dialed"));
  const loading = loadAgentCaKey({ publicKey: line, connect, clock: new FakeClock() });
  await assert.rejects(loading, { ...INVALID, message });
});
