import { mustRun, runProgram } from "./machine.ts";

/** A network of its own for machines, which leads nowhere else. */
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

  /** Gives a machine an address in it; the name of its namespace. */
  async join(name: string, address: string): Promise<string> {
    const [hub, namespace] = [`${this.#prefix}-hub`, await this.#add(name)];
    const peer = ["peer", "name", name, "netns", hub];
    await mustRun("ip", "link", "add", "eth0", "netns", namespace, "type", "veth", ...peer);
    await mustRun("ip", "-n", hub, "link", "set", name, "master", "br0", "up");
    await mustRun("ip", "-n", namespace, "addr", "add", `${address}/24`, "dev", "eth0");
    for (const link of ["eth0", "lo"]) await mustRun("ip", "-n", namespace, "link", "set", link, "up");
    return namespace;
  }

  /** Takes a machine's cable away, which frees its address. */
  async leave(name: string): Promise<void> {
    await mustRun("ip", "-n", `${this.#prefix}-hub`, "link", "del", name);
  }

  async #add(name: string): Promise<string> {
    const namespace = `${this.#prefix}-${name}`;
    await mustRun("ip", "netns", "add", namespace);
    this.#made.push(namespace);
    return namespace;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const namespace of this.#made) await runProgram("ip", "netns", "delete", namespace);
  }
}
