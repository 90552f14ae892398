/** Nobody is told that a service is ready before it takes connections. */
import assert from "node:assert/strict";
import { Server } from "node:net";
import { systemClock } from "@gateway/shared/clock";
import { brokerConfig } from "@gateway/broker/config";
import { loadConfig } from "@gateway/shared/config/load";
import { systemRandom } from "@gateway/shared/random";
import { serveHttp } from "../../broker/serve_http.ts";
import { startControlPlane } from "../../control_plane/serve.ts";
import { startSigner } from "../../signer/serve.ts";
import { freePort } from "../stage/free_port.ts";
import { poll } from "../stage/poll.ts";
import { createFolder, run } from "./ctl_fixture.ts";

const ENVIRONMENT = {
  clock: systemClock,
  random: systemRandom,
  readEnv: () => undefined,
  logger: { info() {}, warn() {}, error() {} },
};
const at = (port: number) => `127.0.0.1:${port}`;

/** Something that runs until it is closed. */
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

const signer = (folder: string) => startSigner({ ...ENVIRONMENT, configPath: `${folder}/signer.json` });
const controlPlane = (folder: string) =>
  startControlPlane({ ...ENVIRONMENT, fetch, configPath: `${folder}/control-plane.json` });

/** Keeps every listener of `node:net` from taking connections until it is released; a monitor is none of these. */
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

  /** Resolves when a service is about to take connections. */
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

/** What `/readyz` answers; 0 when nobody listens there. */
async function statusOf(monitor: string): Promise<number> {
  try {
    const response = await fetch(`http://${monitor}/readyz`);
    await response.body?.cancel();
    return response.status;
  } catch {
    return 0;
  }
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
])("the $name is not ready before it takes connections (R12)", async ({ name, before, start }) => {
  await using folder = await createFolder();
  const monitor = at(freePort());
  const monitors = ["signer", "control-plane", "broker"].flatMap((service) => [
    ...[`--listen-${service}`, at(freePort()), `--monitor-${service}`],
    service === name ? monitor : at(freePort()),
  ]);
  const { exit, err } = await run(folder.path, "init", ...monitors);
  assert.equal(exit, 0, err);
  const others: Service[] = [];
  for (const startOther of before) others.push(await startOther(folder.path));
  using listeners = new HeldListeners();
  const starting = Promise.resolve(start(folder.path));
  await listeners.reached;
  assert.notEqual(await statusOf(monitor), 200);
  listeners.release();
  await poll(async () => await statusOf(monitor) === 200, { what: `the ${name} to be ready` });
  await (await starting).close();
  for (const other of others.reverse()) await other.close();
});
