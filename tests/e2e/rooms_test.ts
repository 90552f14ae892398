import assert from "node:assert/strict";
import limits from "../lint/sizes.json" with { type: "json" };
import { freePort } from "../stage/free_port.ts";
import { poll } from "../stage/poll.ts";
import { controlPlaneCommand, ROOT, type ServiceCommand, signerCommand } from "../stage/service_command.ts";
import { HOST } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { McpProcess } from "./mcp_process.ts";

interface Coverage {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly { readonly ranges: readonly { readonly count: number }[] }[];
  }[];
}

/** Determines, with V8's coverage, which files of this workspace a process executes. */
class Inspector implements Disposable {
  readonly port: number = freePort();
  #socket: WebSocket | undefined;

  /** Wraps the command to start Deno's inspector. */
  wrap({ args: [run = "", ...args], ...command }: ServiceCommand): ServiceCommand {
    return { ...command, args: [run, `--inspect=127.0.0.1:${this.port}`, ...args] };
  }

  async attach(): Promise<void> {
    let url = "";
    await poll(async () => {
      const answer = await fetch(`http://127.0.0.1:${this.port}/json/list`).catch(() => undefined);
      const targets = await answer?.json() ?? [];
      return (url = targets[0]?.webSocketDebuggerUrl ?? "") !== "";
    }, { what: "the inspector" });
    const socket = this.#socket = new WebSocket(url);
    await new Promise((resolve) => socket.onopen = resolve);
    await this.#send("Profiler.enable");
    await this.#send("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  }

  /** The files that were executed since the previous call. */
  async take(): Promise<ReadonlySet<string>> {
    const { result } = await this.#send("Profiler.takePreciseCoverage") as Coverage;
    return new Set(
      result.filter(({ url, functions }) =>
        url.startsWith(`file://${ROOT}`) && functions.some(({ ranges: [whole] }) => (whole?.count ?? 0) > 0)
      ).map(({ url }) => url),
    );
  }

  [Symbol.dispose](): void {
    this.#socket?.close();
  }

  async #send(method: string, params = {}): Promise<unknown> {
    const answered = new Promise((resolve) => {
      this.#socket!.onmessage = ({ data }) => resolve(JSON.parse(data).result);
    });
    this.#socket!.send(JSON.stringify({ id: 1, method, params }));
    return await answered;
  }
}

const LIMITED = ["signer", "ssh_execute"] as const;
const MOST_SAMPLES = 60;

Deno.test("a request enters at most as many files as tests/lint/sizes.json allows", () =>
  withStage({ controlPlane: true }, async (stage) => {
    using signer = new Inspector();
    using controlPlane = new Inspector();
    using broker = new Inspector();
    const inspectors = [signer, controlPlane, broker];
    await stage.start(signer.wrap(await signerCommand(stage.init.signer_config)));
    await stage.start(controlPlane.wrap(await controlPlaneCommand(stage.init.control_plane_config)));
    await using mcp = new McpProcess(broker.wrap(await stage.mcpCommand()));
    await mcp.initialize();
    for (const inspector of inspectors) await inspector.attach();

    // Work in the background falls into some of the samples; a request enters its files in each of them.
    let entered: readonly ReadonlySet<string>[] = [];
    const counts = () => ({
      signer: entered[0]?.size ?? 0,
      ssh_execute: entered.reduce((sum, files) => sum.union(files), new Set()).size,
    });
    const isWithin = () => LIMITED.every((name) => counts()[name] <= limits.files_entered[name]);
    for (let sample = 0; sample < 6 || (sample < MOST_SAMPLES && !isWithin()); sample++) {
      for (const inspector of inspectors) await inspector.take();
      const result = await mcp.call("ssh_execute", { server: HOST, command: "uptime" });
      assert.notEqual(result.isError, true, JSON.stringify(result));
      const taken = await Promise.all(inspectors.map((inspector) => inspector.take()));
      // The first calls connect and fill caches.
      if (sample > 1) entered = taken.map((files, at) => entered[at]?.intersection(files) ?? files);
    }
    assert.ok(isWithin(), `${JSON.stringify(counts())} files; fold some, or raise the number`);
  }));
