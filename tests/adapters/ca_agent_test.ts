import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { connectToAgent, loadAgentCaKey } from "../../shared/ca/agent.ts";
import type { CaKey } from "@gateway/shared/ca/custody";
import { type Clock, systemClock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import {
  decodeCertificate,
  formatCertificate,
  issueCertificate,
  verifyCertificateSignature,
} from "@gateway/shared/ssh/certificate";
import { userCertificate } from "../../shared/ssh/user_certificate.ts";
import { FakeClock } from "@gateway/shared/testing/fake_clock";
import { poll } from "../stage/poll.ts";
import { run, startAgent } from "./ca_agent_fixture.ts";

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

const certificateFields = userCertificate({
  publicKey: new Uint8Array(32),
  nonce: new Uint8Array(32),
  serial: 7n,
  keyId: "agent=broker-1 host=web01 role=target t=1700000000",
  principal: "host:web01",
  sourceAddress: "",
  forceCommand: "uptime",
  bastion: false,
  pty: false,
  nowMs: 1_700_000_000_000,
  ttlSeconds: 120,
});

Deno.test("a key in a real ssh-agent, among others, signs certificates, many at once", async () => {
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

Deno.test("a real ssh-agent without the pinned key is refused at load, one that lost it at signing", async () => {
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

Deno.test.each([{ name: "ecdsa" }, { name: "rsa" }] as const)(
  "a key of type $name in a real ssh-agent is refused",
  async ({ name }) => {
    await using agent = await startAgent();
    const path = await agent.addKey("ca", name);
    await assert.rejects(
      load(agent.socket, `${path}.pub`),
      failsWith("invalid_config", /only ssh-ed25519 is used/),
    );
  },
);

Deno.test("R6: a real ssh-agent that hangs is given up", async () => {
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
  { name: "nothing", prepare: () => Promise.resolve(), text: /no such socket/ },
  {
    name: "a socket without listener",
    prepare: (path: string) => Promise.resolve(Deno.listen({ transport: "unix", path }).close()),
    text: /nobody listens|no such socket/,
  },
  {
    name: "a file",
    prepare: (path: string) => Deno.writeTextFile(path, "x"),
    text: /nobody listens/,
  },
])("an agent's path with $name is refused at load", async ({ prepare, text }) => {
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
])("a listener that sends $name is refused at load", async ({ reply, text }) => {
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
  { name: "says so without read", without: "read", shows: /outside this process's permissions/ },
  { name: "says so without write", without: "write", shows: /outside this process's permissions/ },
  { name: "says so without net", without: "net", shows: /outside this process's permissions/ },
])("an agent's key in a process of its own $name", async ({ without, shows }) => {
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
