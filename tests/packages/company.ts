import { join } from "node:path";
import { poll } from "../stage/poll.ts";
import { Lan } from "./lan.ts";
import { type Machine, mustRun, RootFilesystem } from "./machine.ts";

const NAMES = {
  gw: "10.77.0.1",
  web01: "10.77.0.11",
  web02: "10.77.0.12",
  web03: "10.77.0.13",
  desk: "10.77.0.20",
} as const;
const GATEWAY = "gw.example.org";

/** A name in {@linkcode Company}'s network. */
export type Name = keyof typeof NAMES | "gw2";

/** Machines without our software in a separate network: a gateway, hosts, a desk. */
export class Company {
  readonly #folder: string;
  readonly #lan: Lan;
  readonly #machines = new Map<Name, Machine>();

  private constructor(folder: string, lan: Lan) {
    this.#folder = folder;
    this.#lan = lan;
  }

  /** @param folder directory of the root file systems */
  static async found(folder: string): Promise<Company> {
    const company = new Company(folder, await Lan.create());
    const more = ["openssh-server", "iproute2", "curl", "age"];
    await RootFilesystem.create(company.pathOf("base" as Name), more);
    return company;
  }

  pathOf(name: Name): string {
    return join(this.#folder, name);
  }

  /** Returns the network namespace of a machine. */
  networkOf(name: Name): string {
    return this.#lan.nameOf(name);
  }

  machine(name: Name): Machine {
    const machine = this.#machines.get(name);
    if (machine === undefined) throw new TypeError(`no machine ${name}`);
    return machine;
  }

  /** Boots a machine for the first time. */
  async start(name: Name, address: string = NAMES[name as keyof typeof NAMES]): Promise<Machine> {
    const path = this.pathOf(name);
    await mustRun("cp", "-a", this.pathOf("base" as Name), path);
    const lines = Object.entries(NAMES).map(([known, at]) => `${at} ${known === "gw" ? GATEWAY : known}`);
    await Deno.writeTextFile(join(path, "etc/hosts"), `127.0.0.1 localhost\n${lines.join("\n")}\n`);
    await Deno.writeTextFile(join(path, "etc/hostname"), `${name}\n`);
    // Each machine has different host keys, like installed machines.
    await mustRun("sh", "-c", `rm ${path}/etc/ssh/ssh_host_* && ssh-keygen -q -A -f ${path}`);
    const machine = await new RootFilesystem(path).boot(await this.#lan.join(name, address));
    this.#machines.set(name, machine);
    if (!name.startsWith("web")) return machine;
    await machine.must("useradd", "--create-home", "--shell=/bin/bash", "deploy");
    await poll(async () => (await machine.run("systemctl", "is-active", "ssh")).code === 0, { what: "sshd" });
    return machine;
  }

  /** Stops a machine permanently. */
  async lose(name: Name): Promise<void> {
    await this.machine(name)[Symbol.asyncDispose]();
    this.#machines.delete(name);
    await this.#lan.leave(name);
  }

  /** Copies files from one machine to another. */
  async carry(from: Name, to: Name, files: string, folder: string): Promise<void> {
    await mustRun(
      "sh",
      "-c",
      `mkdir -p ${this.pathOf(to)}${folder} && cd ${this.pathOf(from)} && cp -a ${files} ${
        this.pathOf(to)
      }${folder}`,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const machine of this.#machines.values()) await machine[Symbol.asyncDispose]();
    await this.#lan[Symbol.asyncDispose]();
  }
}
