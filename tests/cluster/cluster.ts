/** Two signers, two control planes and two PostgreSQL servers, with a breakable wire for each connection. */
import { PostgresServer } from "../stage/postgres_server.ts";
import { poll } from "../stage/poll.ts";
import type { ServiceProcess } from "../stage/service_process.ts";
import type { Stage, StageIdentity } from "../stage/stage.ts";
import { addMember, clientOf, type Member, readiness, startMember } from "./signers.ts";
import { Wire } from "./wire.ts";
import { type Clients, GATED } from "./workload.ts";

/** Makes a process read its time from a file (Debian package `libfaketime`). */
const CLOCK_LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/** The error at the start without a database, or the time without readiness. */
const NO_DATABASE =
  /exited with status 1:[^]*(?:Cannot (?:open|use) state_db|state database)|waited \d+ ms for/;
const MOST_STARTS = 20;

/** Longer than a freeze waits for a silent instance. */
const CLIENT_TIMEOUT_MS = 6_000;

/** The config of a stage in which one command needs an approval. */
export const GATE = {
  path: ["command_policies", "starter", "require_approval"],
  value: [`^${GATED}$`],
} as const;

export function hasClocks(): boolean {
  try {
    return Deno.statSync(CLOCK_LIBRARY).isFile;
  } catch {
    return false;
  }
}

export interface Instance {
  readonly member: Member;
  readonly clients: Wire;
  /** The wires to the two database servers. */
  readonly database: readonly [Wire, Wire];
  /** The wire from a control plane to its signer. */
  readonly signer?: Wire;
  /** The file with the offset of its clock, for `libfaketime`. */
  readonly clockFile: string;
  process: ServiceProcess | undefined;
}

export class Cluster implements AsyncDisposable {
  readonly signers: Instance[] = [];
  readonly controlPlanes: Instance[] = [];
  readonly #stage: Stage;
  readonly #resources = new AsyncDisposableStack();
  /** Indexed by the slot in the instances' URLs. */
  readonly #servers: [PostgresServer, PostgresServer];
  #primary: 0 | 1 = 0;

  private constructor(stage: Stage, servers: [PostgresServer, PostgresServer]) {
    this.#stage = stage;
    this.#servers = servers;
  }

  static async start(stage: Stage): Promise<Cluster> {
    const primary = await PostgresServer.start();
    const cluster = new Cluster(stage, [primary, await primary.startStandby()]);
    try {
      for (const name of ["signer-a", "signer-b"]) {
        cluster.signers.push(await cluster.#add(name, "signer"));
      }
      for (const [index, name] of ["control-a", "control-b"].entries()) {
        cluster.controlPlanes.push(await cluster.#add(name, "control-plane", cluster.signers[index]));
      }
      await Promise.all(cluster.instances.map((instance) => cluster.startProcess(instance)));
      return cluster;
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
  }

  get instances(): readonly Instance[] {
    return [...this.signers, ...this.controlPlanes];
  }

  /** All wires, each with the names of its two ends. */
  get wires(): readonly { readonly name: string; readonly wires: readonly Wire[] }[] {
    return this.instances.flatMap(({ clients, database, signer }) => [
      { name: "clients", wires: [clients] },
      { name: "database", wires: database },
      ...(signer === undefined ? [] : [{ name: "signer", wires: [signer] }]),
    ]);
  }

  async clients(): Promise<Clients> {
    const of = (instances: readonly Instance[], who: StageIdentity) =>
      Promise.all(
        instances.map(({ clients }) =>
          clientOf(this.#stage, { listen: `127.0.0.1:${clients.port}` }, who, CLIENT_TIMEOUT_MS)
        ),
      );
    return {
      operators: await of(this.signers, "operator"),
      brokers: await of(this.signers, "broker"),
      agents: await of(this.controlPlanes, "broker"),
      approvers: await of(this.controlPlanes, "approver"),
    };
  }

  async startProcess(instance: Instance): Promise<void> {
    const clock = hasClocks()
      ? {
        LD_PRELOAD: CLOCK_LIBRARY,
        FAKETIME_TIMESTAMP_FILE: instance.clockFile,
        FAKETIME_CACHE_DURATION: "1",
        FAKETIME_DONT_FAKE_MONOTONIC: "1",
        FAKETIME_DONT_RESET: "1",
      }
      : undefined;
    for (let attempt = 1;; attempt++) {
      try {
        instance.process = await startMember(this.#stage, instance.member, clock);
        return;
      } catch (error) {
        // Without a database the process ends, and its supervisor restarts it.
        if (!NO_DATABASE.test(`${error}`) || attempt === MOST_STARTS) throw error;
      }
    }
  }

  /** `kill -9`, and a start. */
  async restart(instance: Instance): Promise<void> {
    instance.process?.kill("SIGKILL");
    await instance.process?.status;
    await this.startProcess(instance);
  }

  /** Sets the offset of an instance's clock. It takes effect within a second. */
  async setClock({ clockFile }: Instance, seconds: number): Promise<void> {
    await setClock(clockFile, seconds);
  }

  async isReady({ member }: Instance): Promise<void> {
    const isReady = () => readiness(member).then((text) => text === "200 ready", () => false);
    await poll(isReady, { what: `${member.name} to be ready`, intervalMs: 20 });
  }

  /** The primary stops immediately, or stays up for connected clients. The standby replaces it. */
  async failOver({ lingersMs }: { readonly lingersMs: number }): Promise<void> {
    const old = this.#servers[this.#primary];
    const slot = this.#primary === 0 ? 1 : 0;
    if (lingersMs === 0) await old.kill("SIGKILL");
    await this.#servers[slot].promote();
    await new Promise((resolve) => setTimeout(resolve, lingersMs));
    await old.kill("SIGKILL");
    const standby = await this.#servers[slot].startStandby();
    for (const { database } of this.instances) database[this.#primary].target = standby.port;
    this.#servers[this.#primary] = standby;
    this.#primary = slot;
    await old[Symbol.asyncDispose]();
  }

  async withoutStandby(ms: number): Promise<void> {
    const standby = this.#servers[this.#primary === 0 ? 1 : 0];
    // Kill all processes, because a remaining one would prevent the next start.
    await standby.kill();
    await new Promise((resolve) => setTimeout(resolve, ms));
    await standby.run();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Broken wires would prevent the processes from ending.
    for (const { wires } of this.wires) for (const wire of wires) wire.mend();
    await Promise.all(this.instances.map(({ process }) => process?.stop("SIGKILL")));
    await this.#resources.disposeAsync();
    for (const server of this.#servers) await server[Symbol.asyncDispose]();
  }

  async #add(name: string, service: Member["service"], upstream?: Instance): Promise<Instance> {
    const open = async (port: number) => this.#resources.use(await Wire.open(port));
    const database = [await open(this.#servers[0].port), await open(this.#servers[1].port)] as const;
    const state_db = `postgres://gateway@${database.map(({ port }) => `127.0.0.1:${port}`).join()}/gateway`;
    const signer = upstream && await open(Number(upstream.member.listen.split(":")[1]));
    const edits = signer === undefined ? [{ path: ["sign_rate_limit_per_min"] }] : [
      { path: ["signer", "url"], value: `https://127.0.0.1:${signer.port}` },
      // Clocks jump by an hour.
      { path: ["approval", "timeout_seconds"], value: 86_400 },
      { path: ["approval", "max_pending_per_caller"], value: 100_000 },
      { path: ["behavior", "mode"], value: "off" },
    ];
    const member = await addMember(this.#stage, { name, state_db, service, edits });
    const clockFile = `${this.#stage.init.folder}/${name}/clock`;
    await setClock(clockFile, 0);
    return {
      ...{ member, database, clockFile, process: undefined },
      clients: await open(Number(member.listen.split(":")[1])),
      ...(signer && { signer }),
    };
  }
}

/** Renames a complete file into place, because the library may read it at any time. */
async function setClock(path: string, seconds: number): Promise<void> {
  await Deno.writeTextFile(`${path}.new`, `${seconds < 0 ? "" : "+"}${seconds}\n`);
  await Deno.rename(`${path}.new`, path);
}
