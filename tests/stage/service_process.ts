import type { ServiceCommand } from "./service_command.ts";
import { poll } from "./poll.ts";
import { residentBytes } from "./proc_file.ts";

/** A service in a separate process under its permissions. */
export class ServiceProcess implements AsyncDisposable {
  readonly command: ServiceCommand;
  readonly #child: Deno.ChildProcess;
  readonly #stderr: Promise<void>;
  #log = "";
  #status: Deno.CommandStatus | undefined;

  private constructor(command: ServiceCommand, child: Deno.ChildProcess) {
    this.command = command;
    this.#child = child;
    this.#stderr = this.#collect(child.stderr);
    child.status.then((status) => this.#status = status);
  }

  /**
   * Starts a service and waits until its monitor reports that it is ready.
   *
   * @throws {Error} with the service's stderr if the service exits first
   */
  static async start(command: ServiceCommand, signal?: AbortSignal): Promise<ServiceProcess> {
    const service = ServiceProcess.spawn(command);
    try {
      await poll(() => service.#isReady(), { what: `${command.name} to be ready`, signal });
    } catch (error) {
      await service[Symbol.asyncDispose]();
      // If the service has exited, the error contains its log.
      if (service.log === "" || `${error}`.includes(service.log)) throw error;
      throw new Error(`${error}:\n${service.log}`, { cause: error });
    }
    return service;
  }

  /** Starts a service without waiting. */
  static spawn(command: ServiceCommand): ServiceProcess {
    const child = new Deno.Command(Deno.execPath(), {
      args: [...command.args],
      // A broker over stdio exits when its client closes the input.
      stdin: "piped",
      stdout: "null",
      stderr: "piped",
      env: { ...command.env, NO_COLOR: "1" },
    }).spawn();
    return new ServiceProcess(command, child);
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** The service's stderr so far. */
  get log(): string {
    return this.#log;
  }

  /** Exit status; pending while the service runs. */
  get status(): Promise<Deno.CommandStatus> {
    return this.#child.status;
  }

  /** Resident memory in bytes. */
  async residentBytes(): Promise<number> {
    return await residentBytes(this.pid);
  }

  /** Sends a signal, unless the process has exited. */
  kill(signal: Deno.Signal): void {
    if (this.#status !== undefined) return;
    try {
      this.#child.kill(signal);
    } catch (error) {
      // The process exited between the check and the signal.
      if (!(error instanceof TypeError) && !(error instanceof Deno.errors.NotFound)) throw error;
    }
  }

  /** Stops the service and waits until it has exited. */
  async stop(signal: Deno.Signal = "SIGTERM"): Promise<Deno.CommandStatus> {
    this.kill(signal);
    const status = await this.#child.status;
    await this.#stderr;
    if (!this.#child.stdin.locked) await this.#child.stdin.abort().catch(() => undefined);
    return status;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const force = setTimeout(() => this.kill("SIGKILL"), 5000);
    try {
      await this.stop();
    } finally {
      clearTimeout(force);
    }
  }

  async #isReady(): Promise<boolean> {
    if (this.#status !== undefined) {
      await this.#stderr;
      throw new Error(`${this.command.name} exited with status ${this.#status.code}:\n${this.#log}`);
    }
    if (this.command.monitor === "") throw new Error(`${this.command.name} has no monitor`);
    try {
      const response = await fetch(`http://${this.command.monitor}/readyz`);
      await response.body?.cancel();
      return response.ok;
    } catch {
      return false;
    }
  }

  async #collect(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    for await (const bytes of stream) this.#log += decoder.decode(bytes, { stream: true });
  }
}
