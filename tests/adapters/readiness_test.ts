import assert from "node:assert/strict";
import { Server } from "node:net";
import { systemClock, systemElapsed, systemRandom } from "@gateway/shared/clock";
import { brokerConfig } from "@gateway/broker/config";
import { loadConfig } from "@gateway/shared/config";
import { serveHttp } from "../../broker/serve.ts";
import { startControlPlane } from "../../control_plane/serve.ts";
import { startSigner } from "../../signer/serve.ts";
import { freePort } from "../stage/free_port.ts";
import { poll } from "../stage/poll.ts";
import { createFolder, run } from "./ctl_fixture.ts";
import { AppError } from "@gateway/shared/errors";
import { startMonitor } from "@gateway/shared/http/monitor";
import { createMetrics } from "@gateway/shared/service/metrics";
import { join } from "node:path";
import { buildDebian } from "../../deploy/release/debian.ts";
import { RUNTIME } from "../../deploy/release/packages.ts";
import { architectureOf, findRuntimes } from "../../deploy/release/runtimes.ts";
import { write } from "../../deploy/release/stage.ts";
import { elfHeader } from "../packages/elf_header.ts";
import { mustRun } from "../packages/machine.ts";

/** The machine's clock, which tests can advance. */
const clock = { ...systemClock, aheadMs: 0, now: () => systemClock.now() + clock.aheadMs };
const ENVIRONMENT = {
  clock,
  elapsed: systemElapsed,
  random: systemRandom,
  readHostname: () => "signer",
  readEnv: () => undefined,
  logger: { info() {}, warn() {}, error() {} },
};
const at = (port: number) => `127.0.0.1:${port}`;

interface Service {
  close(): Promise<unknown>;
}

function startBroker(configPath: string): Service {
  const stop = Promise.withResolvers<void>();
  const serving = loadConfig({ path: configPath, what: "broker config", schema: brokerConfig })
    .then((config) => serveHttp(config, ENVIRONMENT, stop.promise));
  return {
    close() {
      stop.resolve();
      return serving;
    },
  };
}

const signer = (folder: string) =>
  startSigner({ ...ENVIRONMENT, fetch, configPath: `${folder}/signer.json` });
const controlPlane = (folder: string) =>
  startControlPlane({ ...ENVIRONMENT, fetch, configPath: `${folder}/control-plane.json` });

/** Delays all new listeners of `node:net`, except those of a monitor, until it is released. */
class HeldListeners implements Disposable {
  readonly #listen = Server.prototype.listen;
  readonly #reached = Promise.withResolvers<void>();
  readonly #released = Promise.withResolvers<void>();

  constructor() {
    const [listen, reached, released] = [this.#listen, this.#reached, this.#released];
    Server.prototype.listen = function (this: Server, ...args: unknown[]) {
      reached.resolve();
      void released.promise.then(() => Reflect.apply(listen, this, args));
      return this;
    };
  }

  get reached(): Promise<void> {
    return this.#reached.promise;
  }

  release(): void {
    this.#released.resolve();
  }

  [Symbol.dispose](): void {
    this.release();
    Server.prototype.listen = this.#listen;
  }
}

/** The response of `/readyz`, or empty without a listener. */
async function readiness(monitor: string): Promise<string> {
  try {
    const response = await fetch(`http://${monitor}/readyz`);
    return `${response.status} ${await response.text()}`;
  } catch {
    return "";
  }
}

const isReady = async (monitor: string) => await readiness(monitor) === "200 ready\n";

/** A listener on the port of an ended service. It accepts connections and sends nothing. */
function silentListener(port: number): Service {
  const listener = Deno.listen({ hostname: "127.0.0.1", port });
  const connections: Deno.Conn[] = [];
  const accepting = (async () => {
    for await (const connection of listener) connections.push(connection);
  })();
  return {
    async close() {
      listener.close();
      await accepting;
      for (const connection of connections) connection.close();
    },
  };
}

Deno.test.each<{
  name: string;
  before: readonly ((folder: string) => Promise<Service>)[];
  start: (folder: string) => Service | Promise<Service>;
}>([
  { name: "signer", before: [], start: signer },
  { name: "control-plane", before: [], start: controlPlane },
  {
    name: "broker",
    before: [signer, controlPlane],
    start: (folder) => startBroker(`${folder}/config.json`),
  },
])("the $name is not ready before it accepts connections (R12)", async ({ name, before, start }) => {
  await using folder = await createFolder();
  const monitor = at(freePort());
  const monitors = ["signer", "control-plane", "broker"].flatMap((service) => [
    ...[`--listen-${service}`, at(freePort()), `--monitor-${service}`],
    service === name ? monitor : at(freePort()),
  ]);
  const { exit, err } = await run(folder.path, "init", "--dir=.", ...monitors);
  assert.equal(exit, 0, err);
  const others: Service[] = [];
  for (const startOther of before) others.push(await startOther(folder.path));
  using listeners = new HeldListeners();
  const starting = Promise.resolve(start(folder.path));
  await listeners.reached;
  assert.equal(await isReady(monitor), false);
  listeners.release();
  await poll(() => isReady(monitor), { what: `the ${name} to be ready` });
  await (await starting).close();
  for (const other of others.reverse()) await other.close();
});

Deno.test.each([
  {
    name: "ended",
    waiting: "control-plane",
    upstream: "signer",
    problem: "the signer",
    stand: undefined,
  },
  {
    name: "been silent",
    waiting: "control-plane",
    upstream: "signer",
    problem: "the signer",
    stand: silentListener,
  },
  {
    name: "ended",
    waiting: "broker",
    upstream: "control-plane",
    problem: "the control plane or signer at signer.url",
    stand: undefined,
  },
])("the $waiting reports that the $upstream has $name for 10 s, until it responds again", async (row) => {
  const { waiting, upstream, problem, stand } = row;
  await using folder = await createFolder();
  const ports = { signer: freePort(), "control-plane": freePort(), broker: freePort() };
  const monitors = { signer: freePort(), "control-plane": freePort(), broker: freePort() };
  const options = ["signer", "control-plane", "broker"] as const;
  const flags = options.flatMap((name) => [
    ...[`--listen-${name}`, at(ports[name])],
    ...[`--monitor-${name}`, at(monitors[name])],
  ]);
  assert.equal((await run(folder.path, "init", "--dir=.", ...flags)).exit, 0);
  const services = {
    signer: await signer(folder.path),
    "control-plane": await controlPlane(folder.path),
    broker: startBroker(`${folder.path}/config.json`),
  };
  await poll(() => isReady(at(monitors.broker)), { what: "the broker to be ready" });
  await poll(() => isReady(at(monitors["control-plane"])), { what: "the control plane to be ready" });

  const isSigner = upstream === "signer";
  await services[isSigner ? "signer" : "control-plane"].close();
  const stood = stand?.(ports[isSigner ? "signer" : "control-plane"]);
  clock.aheadMs += 10_000;
  const monitor = at(monitors[waiting === "broker" ? "broker" : "control-plane"]);
  const said = await readiness(monitor);
  assert.match(said, /^503 not ready: no answer from .* for 1\d s\n$/);
  assert.ok(said.includes(problem), said);
  if (isSigner) {
    // The broker's upstream answers and reports the problem.
    await poll(() => isReady(at(monitors.broker)), { what: "the broker to be ready still" });
  }

  await stood?.close();
  if (isSigner) services.signer = await signer(folder.path);
  else services["control-plane"] = await controlPlane(folder.path);
  await poll(() => isReady(monitor), { what: `the ${waiting} to be ready again` });
  for (const service of Object.values(services).reverse()) await service.close();
});

Deno.test("startMonitor() listens on a free port and serves all its paths", async () => {
  let ready = false;
  const metrics = createMetrics();
  metrics.counter("audit_blocked_total", "Actions denied because audit was unwritable.");
  await using monitor = await startMonitor({ listen: "127.0.0.1:0", isReady: () => ready, metrics });
  const get = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${monitor.address.port}${path}`);
    return [response.status, await response.text()];
  };
  assert.deepEqual(await get("/healthz"), [200, "ok\n"]);
  assert.deepEqual(await get("/readyz"), [503, "not ready\n"]);
  ready = true;
  assert.deepEqual(await get("/readyz"), [200, "ready\n"]);
  const [status, text] = await get("/metrics");
  assert.equal(status, 200);
  assert.match(String(text), /^audit_blocked_total 0$/m);
});

Deno.test("startMonitor() rejects a port in use", async () => {
  const options = { listen: "127.0.0.1:0", isReady: () => true, metrics: createMetrics() };
  await using monitor = await startMonitor(options);
  await assert.rejects(
    startMonitor({ ...options, listen: `127.0.0.1:${monitor.address.port}` }),
    (error) => error instanceof AppError && error.code === "invalid_config",
  );
});

const SCRIPT = `
import { waitForStop } from "@gateway/shared/service";
const stopped = waitForStop();
console.log("ready");
console.log(await stopped);
`;

Deno.test.each([{ signal: "SIGTERM" as const }, { signal: "SIGINT" as const }])(
  "waitForStop() returns when the process receives $signal",
  async ({ signal }) => {
    const root = new URL("../../", import.meta.url);
    await using child = new Deno.Command(Deno.execPath(), {
      args: ["eval", SCRIPT],
      cwd: root,
      stdout: "piped",
      stderr: "null",
    }).spawn();
    let output = "";
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      output += text;
      if (output === "ready\n") child.kill(signal);
    }
    assert.equal(output, `ready\n${signal}\n`);
    assert.equal((await child.status).code, 0);
  },
);

Deno.test("a release reads each runtime's architecture from its ELF header and rejects two for one architecture", async () => {
  await using folder = await createFolder();
  const at = (name: string) => join(folder.path, name);
  for (const [name, machine] of [["a", 62], ["b", 183], ["c", 40]] as const) {
    await Deno.writeFile(at(name), elfHeader(machine));
  }
  await Deno.writeTextFile(at("text"), "#!/bin/sh\nexec deno\n");
  assert.deepEqual(await findRuntimes([at("b"), at("a")], folder.path), [
    { architecture: "arm64", path: at("b") },
    { architecture: "amd64", path: at("a") },
  ]);
  await assert.rejects(findRuntimes([at("a"), at("a")], folder.path), /two runtimes for amd64/);
  for (const other of ["c", "text"]) {
    await assert.rejects(findRuntimes([at(other)], folder.path), /no ELF program for amd64 or arm64/);
  }
});

Deno.test("the runtime package has the architecture of its Deno program", async () => {
  await using folder = await createFolder();
  const build = { output: folder.path, version: "2.9.6", epoch: 1_700_000_000 };
  for (const [architecture, machine] of [["amd64", 62], ["arm64", 183]] as const) {
    const root = join(folder.path, architecture);
    await write(join(root, "usr/lib/gateway/deno"), elfHeader(machine), 0o755);
    const file = await buildDebian(RUNTIME, { ...build, root, architecture });
    assert.equal(file, `gateway-runtime_2.9.6_${architecture}.deb`);
    const path = join(folder.path, file);
    assert.equal((await mustRun("dpkg-deb", "--field", path, "Architecture")).trim(), architecture);
    const unpacked = join(folder.path, `of-${architecture}`);
    await mustRun("dpkg-deb", "--extract", path, unpacked);
    assert.equal(await architectureOf(join(unpacked, "usr/lib/gateway/deno")), architecture);
  }
});
