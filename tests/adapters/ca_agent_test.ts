import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { connectToAgent, loadAgentCaKey } from "../../shared/ca/agent.ts";
import type { CaKey } from "@gateway/shared/ca";
import { type Clock, systemClock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import {
  decodeCertificate,
  formatCertificate,
  issueCertificate,
  verifyCertificateSignature,
} from "@gateway/shared/ssh";
import { FakeClock } from "@gateway/shared/testing";
import { poll } from "../stage/poll.ts";
import { run } from "../stage/run.ts";
import { startAgent } from "./ca_agent_fixture.ts";

const ALONE = fileURLToPath(new URL("ca_agent_alone.ts", import.meta.url));

async function load(socket: string, publicKeyPath: string, clock: Clock = systemClock): Promise<CaKey> {
  const publicKey = await Deno.readTextFile(publicKeyPath);
  return await loadAgentCaKey({ publicKey, connect: () => connectToAgent(socket), clock });
}

const failsWith = (code: AppError["code"], text: RegExp) => (error: unknown) => {
  assert.ok(error instanceof AppError, String(error));
  assert.equal(error.code, code);
  assert.match(error.message, text);
  assert.doesNotMatch(error.message, /\.sock|\/tmp/, "no path in the message");
  return true;
};

const certificateFields = {
  publicKey: new Uint8Array(32),
  nonce: new Uint8Array(32),
  serial: 7n,
  keyId: "agent=broker-1 host=web01 role=target t=1700000000",
  principals: ["host:web01"],
  validAfter: 1_699_999_970,
  validBefore: 1_700_000_120,
  criticalOptions: { "force-command": "uptime" },
  extensions: [],
};

Deno.test("one of several keys in a real ssh-agent signs 20 certificates concurrently", async () => {
  await using agent = await startAgent();
  await agent.addKey("another", "ed25519");
  await agent.addKey("rsa", "rsa");
  const path = await agent.addKey("ca", "ed25519");
  await Deno.remove(path);
  const key = await load(agent.socket, `${path}.pub`);
  const issue = () => issueCertificate(certificateFields, key);
  const certificates = await Promise.all(Array.from({ length: 20 }, issue));
  for (const certificate of certificates) {
    assert.ok(verifyCertificateSignature(decodeCertificate(certificate)));
  }
  const [first = new Uint8Array()] = certificates;
  await Deno.writeTextFile(`${agent.folder}/cert.pub`, formatCertificate(first));
  const described = await run("ssh-keygen", ["-L", "-f", `${agent.folder}/cert.pub`]);
  const [, caFingerprint = "none"] = (await run("ssh-keygen", ["-l", "-f", `${path}.pub`])).split(" ");
  assert.ok(described.includes(caFingerprint), described);
});

Deno.test("a real ssh-agent without the pinned key is rejected at load, and signing fails after its removal", async () => {
  await using agent = await startAgent();
  const path = await agent.addKey("ca", "ed25519");
  const key = await load(agent.socket, `${path}.pub`);
  await agent.removeKeys();
  await assert.rejects(key.sign(Uint8Array.of(1)), failsWith("upstream_failure", /refused the request/));
  await assert.rejects(
    load(agent.socket, `${path}.pub`),
    failsWith("invalid_config", /does not have the key/),
  );
});

Deno.test.each(
  [
    { type: "rsa", bits: 2048, signs: "rsa-sha2-512" },
    { type: "rsa", bits: 4096, signs: "rsa-sha2-512" },
    { type: "ecdsa", bits: 256, signs: "ecdsa-sha2-nistp256" },
    { type: "ecdsa", bits: 384, signs: "ecdsa-sha2-nistp384" },
    { type: "ecdsa", bits: 521, signs: "ecdsa-sha2-nistp521" },
  ] as const,
)("a $type key of $bits bits in a real ssh-agent signs as $signs", async ({ type, bits, signs }) => {
  await using agent = await startAgent();
  const path = await agent.addKey("ca", type, bits);
  await Deno.remove(path);
  const key = await load(agent.socket, `${path}.pub`);
  assert.equal(key.algorithm, type === "rsa" ? "ssh-rsa" : signs);
  // Enough signatures to include numbers with leading zeros or a set top bit, which differ in SSH length.
  const count = type === "rsa" ? 4 : 64;
  const certificates = await Promise.all(
    Array.from(
      { length: count },
      (_, serial) => issueCertificate({ ...certificateFields, serial: BigInt(serial) }, key),
    ),
  );
  for (const certificate of certificates.map(decodeCertificate)) {
    assert.equal(certificate.signatureAlgorithm, signs);
    assert.ok(verifyCertificateSignature(certificate));
  }
  await Deno.writeTextFile(
    `${agent.folder}/cert.pub`,
    formatCertificate(certificates[0] ?? new Uint8Array()),
  );
  const described = await run("ssh-keygen", ["-L", "-f", `${agent.folder}/cert.pub`]);
  const [, fingerprint] = (await run("ssh-keygen", ["-l", "-f", `${path}.pub`])).split(" ");
  assert.ok(described.includes(`${fingerprint} (using ${signs})`), described);
});

Deno.test.each([{ bits: 1024 }, { bits: 2040 }])(
  "an RSA key of $bits bits in a real ssh-agent is rejected",
  async ({ bits }) => {
    await using agent = await startAgent();
    const path = await agent.addKey("ca", "rsa", bits);
    const text = new RegExp(`key is RSA of ${bits} bits, not of 2048 to 4096`);
    await assert.rejects(load(agent.socket, `${path}.pub`), failsWith("invalid_config", text));
  },
);

Deno.test.each([
  { name: "without flags, with SHA-1", flags: 0, text: /signed with "ssh-rsa", not with rsa-sha2-512/ },
  { name: "with SHA-256", flags: 2, text: /signed with "rsa-sha2-256", not with rsa-sha2-512/ },
])("a signature that a real ssh-agent makes $name is rejected", async ({ flags, text }) => {
  await using agent = await startAgent();
  const path = await agent.addKey("ca", "rsa", 2048);
  const socket = `${agent.folder}/relay.sock`;
  await using relay = startRelay(socket, agent.socket, (request) => {
    const changed = request.slice();
    // The flags are the last four bytes of a request to sign.
    if (changed[4] === 13) new DataView(changed.buffer).setUint32(changed.length - 4, flags);
    return changed;
  });
  const key = await load(socket, `${path}.pub`);
  await assert.rejects(key.sign(Uint8Array.of(1)), failsWith("upstream_failure", text));
  assert.equal(relay.requests, 2);
});

Deno.test("R6: signing fails with upstream_failure if a real ssh-agent hangs", async () => {
  await using agent = await startAgent();
  const path = await agent.addKey("ca", "ed25519");
  const clock = new FakeClock();
  const key = await load(agent.socket, `${path}.pub`, clock);
  agent.freeze();
  const signing = assert.rejects(key.sign(Uint8Array.of(1)), failsWith("upstream_failure", /in time/));
  await poll(async () => {
    await clock.advance(5_000);
    return clock.sleeping === 0;
  }, { what: "the deadline" });
  await signing;
});

Deno.test.each([
  { name: "no socket", prepare: () => Promise.resolve(), text: /no such socket/ },
  {
    name: "a socket without a listening program",
    prepare: (path: string) => Promise.resolve(Deno.listen({ transport: "unix", path }).close()),
    text: /nobody listens|no such socket/,
  },
  {
    name: "a file",
    prepare: (path: string) => Deno.writeTextFile(path, "x"),
    text: /no program listens on its socket/,
  },
])("an ssh-agent path with $name is rejected when the config loads", async ({ prepare, text }) => {
  await using agent = await startAgent();
  const path = await agent.addKey("ca", "ed25519");
  const socket = `${agent.folder}/elsewhere.sock`;
  await prepare(socket);
  await assert.rejects(load(socket, `${path}.pub`), failsWith("invalid_config", text));
});

Deno.test.each([
  {
    name: "a reply of four gigabytes",
    reply: Uint8Array.of(255, 255, 255, 255, 12),
    text: /4294967295 bytes/,
  },
  { name: "half a reply", reply: Uint8Array.of(0, 0, 0, 9, 12, 0), text: /closed the connection/ },
  { name: "no reply", reply: new Uint8Array(), text: /closed the connection|connection failed/ },
])("a socket that sends $name is rejected when the config loads", async ({ reply, text }) => {
  await using agent = await startAgent();
  const path = await agent.addKey("ca", "ed25519");
  const socket = `${agent.folder}/hostile.sock`;
  using listener = Deno.listen({ transport: "unix", path: socket });
  const served = (async () => {
    using connection = await listener.accept();
    await connection.read(new Uint8Array(100));
    if (reply.length > 0) await connection.write(reply);
  })();
  await assert.rejects(load(socket, `${path}.pub`), failsWith("invalid_config", text));
  await served;
});

Deno.test.each([
  { name: "signs with read, write and net on the socket alone", without: "none", shows: /^signed 83$/ },
  { name: "reports missing read permission", without: "read", shows: /outside this process's permissions/ },
  { name: "reports missing write permission", without: "write", shows: /outside this process's permissions/ },
  { name: "reports missing net permission", without: "net", shows: /outside this process's permissions/ },
])("the key of an ssh-agent in a separate process $name", async ({ without, shows }) => {
  await using agent = await startAgent();
  const publicKeyPath = `${await agent.addKey("ca", "ed25519")}.pub`;
  const flags = [
    `--allow-read=${without === "read" ? publicKeyPath : `${publicKeyPath},${agent.socket}`}`,
    ...(without === "write" ? [] : [`--allow-write=${agent.socket}`]),
    ...(without === "net" ? [] : [`--allow-net=unix:${agent.socket}`]),
  ];
  const output = await run(Deno.execPath(), [
    "run",
    "--quiet",
    "--no-prompt",
    "--cached-only",
    ...flags,
    ALONE,
    agent.socket,
    publicKeyPath,
  ]);
  assert.match(output, shows);
});

/** Listens in place of an agent and forwards changed requests to it. */
function startRelay(path: string, agentPath: string, change: (request: Uint8Array) => Uint8Array) {
  const listener = Deno.listen({ transport: "unix", path });
  let requests = 0;
  const relay = async (client: Deno.Conn) => {
    using _client = client;
    using agent = await Deno.connect({ transport: "unix", path: agentPath });
    const buffer = new Uint8Array(16 * 1024);
    const asked = await client.read(buffer) ?? 0;
    requests += 1;
    await agent.write(change(buffer.subarray(0, asked)));
    const answered = await agent.read(buffer) ?? 0;
    await client.write(buffer.subarray(0, answered));
  };
  const served = (async () => {
    for await (const client of listener) await relay(client);
  })();
  return {
    get requests() {
      return requests;
    },
    async [Symbol.asyncDispose]() {
      listener.close();
      await served;
    },
  };
}
