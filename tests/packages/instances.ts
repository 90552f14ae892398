/** The running compose file of several instances, as an operator and a broker use it from outside. */
import { join } from "node:path";
import { type Ended, mustRun, runProgram } from "./machine.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const CTL = ["run", "--quiet", "--no-prompt", "--cached-only", "--allow-all", `${ROOT}ctl/main.ts`] as const;

/** Published ports of a service: its listener and its monitor. */
const PORTS = {
  "signer-1": [9443, 9160],
  "signer-2": [9443, 9160],
  "control-plane-1": [7443, 9170],
  "control-plane-2": [7443, 9170],
} as const;

/** A signer or control plane of the compose file. */
export type Instance = keyof typeof PORTS;

const INSTANCES = Object.keys(PORTS) as readonly Instance[];

/** The compose deployment at free ports. */
export class Deployment implements AsyncDisposable {
  readonly #folder: string;
  readonly #addresses = new Map<string, string>();

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** Starts it like docs/guides/several-instances.md: `prepare`, then `podman-compose up`. */
  static async bringUp(folder: string): Promise<Deployment> {
    await mustRun("cp", "-a", `${ROOT}deploy/compose`, folder);
    // The test broker sends requests without a limit, to detect a lost one.
    await mustRun(
      "sed",
      "-i",
      's/"sign_rate_limit_per_min": .*/"sign_rate_limit_per_min": 100000,/',
      join(folder, "signer.json"),
    );
    const free = INSTANCES.map((name) => {
      const ports = PORTS[name].map((port) => `"127.0.0.1::${port}"`);
      return `  ${name}: { ports: !override [${ports.join(", ")}] }\n`;
    });
    await Deno.writeTextFile(join(folder, "free_ports.yaml"), `services:\n${free.join("")}`);
    Deno.env.set("POSTGRES_IMAGE", "localhost/gateway-database");
    Deno.env.set("BROKER_CTL", [Deno.execPath(), ...CTL].join(" "));
    await mustRun(join(folder, "prepare"));
    const deployment = new Deployment(folder);
    await deployment.#compose("up", "-d").catch(async (error) => {
      await deployment[Symbol.asyncDispose]();
      throw error;
    });
    for (const name of INSTANCES) {
      for (const port of PORTS[name]) {
        const address = await mustRun("podman", "port", `gateway_${name}_1`, String(port));
        deployment.#addresses.set(`${name}:${port}`, address.trim());
      }
    }
    return deployment;
  }

  /** Runs `broker-ctl status` for all instances. */
  async status(): Promise<Ended> {
    return await runProgram(
      Deno.execPath(),
      ...CTL,
      "status",
      ...INSTANCES.map((name) => this.#address(name, 1)),
    );
  }

  /** Runs an operator's request at one signer. */
  async operates(signer: "signer-1" | "signer-2", ...command: readonly string[]): Promise<Ended> {
    const options = ["--url", this.#address(signer, 0), ...this.#identity("operator", "--ca")];
    return await runProgram(Deno.execPath(), ...CTL, ...command, ...options);
  }

  /** Sends the broker's sign request for an agent to one instance. Returns curl's output with the status at its end. */
  async sign(instance: Instance, agent: string): Promise<string> {
    const port = PORTS[instance][0];
    const publicKey = await Deno.readTextFile(join(this.#folder, "etc/client/ssh_ca.pub"));
    const request = {
      ...{ host: "web01", role: "target", purpose: "oneshot", command: "uptime", end_user: agent },
      public_key: publicKey.split(" ").slice(0, 2).join(" "),
    };
    const { stdout, stderr } = await runProgram(
      "curl",
      ...["-sS", "--max-time", "60", "-w", " %{http_code}", "-H", "Content-Type: application/json"],
      ...["--connect-to", `${instance}:${port}:${this.#address(instance, 0)}`],
      ...[...this.#identity("broker", "--cacert"), "-d", JSON.stringify(request)],
      `https://${instance}:${port}/v1/sign`,
    );
    return `${stderr}${stdout}`;
  }

  #address(name: Instance, index: 0 | 1): string {
    return this.#addresses.get(`${name}:${PORTS[name][index]}`) ?? "";
  }

  #identity(name: "operator" | "broker", ca: "--ca" | "--cacert"): readonly string[] {
    const folder = join(this.#folder, "etc/client");
    return ["--cert", `${folder}/${name}.crt`, "--key", `${folder}/${name}.key`, ca, `${folder}/mtls_ca.crt`];
  }

  async #compose(...command: readonly string[]): Promise<void> {
    const files = ["compose.yaml", "free_ports.yaml"].flatMap((name) => ["-f", join(this.#folder, name)]);
    await mustRun("podman-compose", ...files, ...command);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#compose("down", "--volumes");
  }
}
