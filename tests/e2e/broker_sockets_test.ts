import assert from "node:assert/strict";
import { poll } from "../stage/poll.ts";
import { ROOT } from "../stage/service_command.ts";
import { ServiceProcess } from "../stage/service_process.ts";
import { BrokerScene } from "./broker_scene.ts";
import { McpProcess } from "./mcp_process.ts";

const SOCKETS = [
  { path: "sockets/ann.sock", caller: "ann", mode: "0600" },
  { path: "sockets/bob.sock", caller: "bob", mode: "0660" },
] as const;

/** A scene whose directory of sockets has the given mode. */
async function createScene({ mode = 0o755 }: { readonly mode?: number } = {}): Promise<BrokerScene> {
  const scene = await BrokerScene.create({ sockets: SOCKETS });
  await Deno.mkdir(`${scene.dir}/sockets`);
  await Deno.chmod(`${scene.dir}/sockets`, mode);
  return scene;
}

/** `gateway connect` with permissions for only this socket. */
function connect(scene: BrokerScene, name: string): McpProcess {
  const socket = `${scene.dir}/sockets/${name}.sock`;
  const permissions = ["--allow-read=", "--allow-write=", "--allow-net=unix:"].map((flag) => flag + socket);
  const run = ["run", "--no-prompt", "--cached-only", ...permissions];
  return new McpProcess({ args: [...run, `${ROOT}broker/main.ts`, "connect", socket] });
}

function dial(scene: BrokerScene, name: string): Promise<Deno.UnixConn> {
  return Deno.connect({ transport: "unix", path: `${scene.dir}/sockets/${name}.sock` });
}

async function modeOf(path: string): Promise<string> {
  return ((await Deno.stat(path)).mode! & 0o7777).toString(8);
}

Deno.test("gateway connect runs commands as its socket's caller, has no key and sees no other caller's sessions", async () => {
  await using scene = await createScene();
  await using broker = await ServiceProcess.start(await scene.command("serve-http"));
  await using ann = connect(scene, "ann");
  await using bob = connect(scene, "bob");
  assert.equal((await ann.initialize()).serverInfo.name, "gateway");
  await bob.initialize();
  assert.equal((await ann.call("ssh_execute", { server: "web01", command: "echo hi" })).isError, undefined);
  assert.equal(scene.signer.requests[0]?.end_user, "ann");

  const opened = await ann.call("ssh_session_open", { server: "web01" });
  const session_id = /"session_id":"([^"]+)"/.exec(JSON.stringify(opened))?.[1];
  const foreign = await bob.call("ssh_session_exec", { session_id, command: "echo stolen" });
  assert.equal(foreign.isError, true);
  assert.match(foreign.content[0].text, /does not belong to the current caller/);
  const own = await ann.call("ssh_session_exec", { session_id, command: "echo mine" });
  assert.equal(own.structuredContent.stdout, "mine\n");

  assert.equal(await ann.end(), 0);
  assert.equal((await broker.stop()).code, 0);
  // The broker ends, so that the client is disconnected.
  assert.equal(await bob.ended(), 1);
  assert.match(bob.log, /the broker closed the connection/);
  assert.deepEqual(await Array.fromAsync(Deno.readDir(`${scene.dir}/sockets`)), []);
  const callers = (await scene.records()).map(({ caller }) => caller);
  assert.deepEqual(callers.filter((caller) => caller !== "bob").every((caller) => caller === "ann"), true);
});

Deno.test("a socket has the configured mode and replaces a socket left after kill -9", async () => {
  await using scene = await createScene({ mode: 0o2750 });
  const command = await scene.command("serve-http");
  {
    await using broker = await ServiceProcess.start(command);
    await broker.stop("SIGKILL");
  }
  await Deno.mkdir(`${scene.dir}/sockets/ann.sock.new`);
  await using _broker = await ServiceProcess.start(command);
  await using ann = connect(scene, "ann");
  await ann.initialize();
  assert.deepEqual(
    (await Array.fromAsync(Deno.readDir(`${scene.dir}/sockets`), ({ name }) => name)).sort(),
    ["ann.sock", "bob.sock"],
  );
  for (const { path, mode } of SOCKETS) assert.equal(`0${await modeOf(`${scene.dir}/${path}`)}`, mode);
});

Deno.test.each<{ name: string; spoil: (scene: BrokerScene) => Promise<unknown>; says: RegExp }>([
  {
    name: "a regular file in place of the socket",
    spoil: ({ dir }) => Deno.writeTextFile(`${dir}/sockets/bob.sock`, "mine"),
    says: /Cannot listen on socket ".*bob\.sock": a file that is not a socket exists/,
  },
  {
    name: "a directory that its group can write to",
    spoil: ({ dir }) => Deno.chmod(`${dir}/sockets`, 0o770),
    says: /Cannot listen on socket ".*ann\.sock": other users can write to its directory; chmod go-w/,
  },
])("a broker does not start with $name and creates no socket", async ({ spoil, says }) => {
  await using scene = await createScene();
  await spoil(scene);
  await using broker = ServiceProcess.spawn(await scene.command("serve-http"));
  assert.equal((await broker.status).code, 1);
  await broker.stop();
  assert.match(broker.log, says);
  assert.equal(await Deno.lstat(`${scene.dir}/sockets/ann.sock`).then(() => true, () => false), false);
});

Deno.test("a broker creates its socket directory with mode 0700", async () => {
  await using scene = await createScene();
  await Deno.remove(`${scene.dir}/sockets`);
  await using _broker = await ServiceProcess.start(await scene.command("serve-http"));
  assert.equal(await modeOf(`${scene.dir}/sockets`), "700");
});

Deno.test("a broker does not replace a socket that another process serves", async () => {
  await using scene = await createScene();
  const path = `${scene.dir}/sockets/ann.sock`;
  using other = Deno.listen({ transport: "unix", path });
  const accepted = other.accept();
  await using broker = ServiceProcess.spawn(await scene.command("serve-http"));
  assert.equal((await broker.status).code, 1);
  await broker.stop();
  assert.match(broker.log, /ann\.sock": another process serves it/);
  (await accepted).close();
  assert.equal((await Deno.lstat(path)).isSocket, true);
});

const OTHER = 61_004;
Deno.test(
  "another account can connect to a socket of mode 0660 only by its group, and reads no key (needs root)",
  { ignore: Deno.uid() !== 0 },
  async () => {
    await using scene = await createScene();
    await Deno.chown(`${scene.dir}/sockets`, null, OTHER);
    await Deno.chmod(`${scene.dir}/sockets`, 0o2755);
    await Deno.chmod(scene.dir, 0o755);
    await using _broker = await ServiceProcess.start(await scene.command("serve-http"));
    const may = async (operator: "-r" | "-w", file: string, gid: number) =>
      (await new Deno.Command("test", { args: [operator, `${scene.dir}/${file}`], uid: OTHER, gid }).output())
        .success;
    const group = await Promise.all([
      may("-w", "sockets/bob.sock", OTHER),
      may("-w", "sockets/ann.sock", OTHER),
      may("-r", "broker.key", OTHER),
      may("-r", "audit.seed", OTHER),
      may("-w", "sockets", OTHER),
    ]);
    assert.deepEqual(group, [true, false, false, false, false]);
    assert.equal(await may("-w", "sockets/bob.sock", OTHER + 1), false);
  },
);

function ping(id: number): Uint8Array {
  return new TextEncoder().encode(`{"jsonrpc":"2.0","id":${id},"method":"ping"}\n`);
}

/** Reads up to this many lines and returns their count. */
async function readLines(connection: Deno.UnixConn, count: number): Promise<number> {
  let lines = 0;
  const buffer = new Uint8Array(65_536);
  while (lines < count) {
    const length = await connection.read(buffer).catch(() => null);
    if (length === null) break;
    lines += buffer.subarray(0, length).filter((byte) => byte === 0x0a).length;
  }
  return lines;
}

/** A connection that the broker accepts, not one closed because of the connection limit. */
async function dialServed(scene: BrokerScene, name: string): Promise<Deno.UnixConn> {
  for (;;) {
    const connection = await dial(scene, name);
    await connection.write(ping(1)).catch(() => {});
    if (await readLines(connection, 1) === 1) return connection;
    connection.close();
  }
}

async function flood(connection: Deno.UnixConn, text: string): Promise<void> {
  const bytes = new TextEncoder().encode(text);
  try {
    for (;;) await connection.write(bytes);
  } catch {
    // The broker has closed it.
  }
}

async function readAll(connection: Deno.UnixConn): Promise<string> {
  let text = "";
  try {
    for await (const chunk of connection.readable.pipeThrough(new TextDecoderStream())) text += chunk;
  } catch {
    // The broker has closed it.
  }
  return text;
}

Deno.test("invalid input on one agent's socket does not affect another agent", async () => {
  await using scene = await createScene();
  await using broker = await ServiceProcess.start(await scene.command("serve-http"));
  await using bob = connect(scene, "bob");
  await bob.initialize();
  const works = async () => {
    const { structuredContent } = await bob.call("ssh_execute", { server: "web01", command: "echo bob" });
    assert.equal(structuredContent.stdout, "bob\n");
  };

  // A line longer than the maximum message length ends its connection.
  const long = await dial(scene, "ann");
  await flood(long, "x".repeat(65_536));
  long.close();
  await works();

  // Invalid input gets error answers, and one line in the log.
  const garbage = await dial(scene, "ann");
  await garbage.write(new Uint8Array([0, 255, 10, 123, 10, 91, 93, 10]));
  await garbage.closeWrite();
  assert.equal((await readAll(garbage)).split("\n").length, 4);
  await poll(() => broker.log.includes("MCP message rejected"), { what: "the log" });
  await works();

  // 16 connections hold half a message each: ann gets no 17th connection, but bob gets one.
  const halves = await Promise.all(Array.from({ length: 16 }, () => dial(scene, "ann")));
  for (const half of halves) await half.write(new TextEncoder().encode('{"jsonrpc":'));
  const one = await dial(scene, "ann");
  assert.equal(await readAll(one), "");
  await works();
  for (const half of halves) half.close();

  // Reading from a client that accepts no answers is paused until it accepts them.
  const deaf = await dialServed(scene, "ann");
  const count = 20_000;
  let isSent = false;
  const sent = (async () => {
    for (let id = 2; id <= count; id++) await deaf.write(ping(id));
    isSent = true;
  })();
  for (let round = 0; round < 3; round++) await works();
  assert.equal(isSent, false);
  const answers = readLines(deaf, count - 1);
  await sent;
  await works();
  assert.equal(await answers, count - 1);
  deaf.close();
  assert.ok((broker.log.match(/MCP message rejected/g) ?? []).length <= 3, broker.log);
});
