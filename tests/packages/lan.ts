import { mustRun, runProgram } from "./machine.ts";

/** An isolated network for machines. */
export class Lan {
  readonly #prefix: string;
  readonly #made: string[] = [];

  private constructor(prefix: string) {
    this.#prefix = prefix;
  }

  static async create(): Promise<Lan> {
    const lan = new Lan(`judged-${Deno.pid}`);
    const hub = await lan.#add("hub");
    await mustRun("ip", "-n", hub, "link", "add", "br0", "type", "bridge");
    await mustRun("ip", "-n", hub, "link", "set", "br0", "up");
    return lan;
  }

  /** Name of a machine's network namespace for `ip netns`. */
  nameOf(name: string): string {
    return `${this.#prefix}-${name}`;
  }

  /** Gives a machine an address in the network. Returns the name of its namespace. */
  async join(name: string, address: string): Promise<string> {
    const [hub, namespace] = [this.nameOf("hub"), await this.#add(name)];
    const peer = ["peer", "name", name, "netns", hub];
    // The IP address determines the MAC, so neighbors reach a machine that gets the address of another machine without a new ARP.
    const mac = ["02", "00", ...address.split(".").map((part) => Number(part).toString(16).padStart(2, "0"))];
    const link = ["eth0", "address", mac.join(":"), "netns", namespace];
    await mustRun("ip", "link", "add", ...link, "type", "veth", ...peer);
    await mustRun("ip", "-n", hub, "link", "set", name, "master", "br0", "up");
    await mustRun("ip", "-n", namespace, "addr", "add", `${address}/24`, "dev", "eth0");
    for (const link of ["eth0", "lo"]) await mustRun("ip", "-n", namespace, "link", "set", link, "up");
    return namespace;
  }

  /** Disconnects a machine, which frees its address. */
  async leave(name: string): Promise<void> {
    await mustRun("ip", "-n", this.nameOf("hub"), "link", "del", name);
  }

  async #add(name: string): Promise<string> {
    const namespace = this.nameOf(name);
    await mustRun("ip", "netns", "add", namespace);
    this.#made.push(namespace);
    return namespace;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const namespace of this.#made) await runProgram("ip", "netns", "delete", namespace);
  }
}
