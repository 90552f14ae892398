import { applyEdits, modify } from "jsonc-parser";
import { systemClock } from "@gateway/shared/clock";
import { JsonClient, type JsonClientResponse } from "@gateway/shared/http";
import type { SshTarget, SshTargetOptions } from "../ssh_target/ssh_target.ts";
import { currentUser, startSshTarget } from "../ssh_target/target.ts";
import {
  brokerCommand,
  controlPlaneCommand,
  fromBundles,
  type ServiceCommand,
  signerCommand,
} from "./service_command.ts";
import { ServiceProcess } from "./service_process.ts";
import { createInstallation, type InitReport } from "./installation.ts";

export { runBrokerCtl } from "./broker_ctl.ts";

/** The target's name in the signer's config. */
export const HOST = "web01";

/** Identities of an installation. */
export type StageIdentity = "operator" | "approver" | "agent" | "broker" | "control_plane_client";

/** Options of a {@linkcode Stage}. */
export interface StageOptions {
  /** Existing directory for all files, which the caller removes. */
  readonly dir: string;
  /** True if brokers send requests to the control plane, otherwise to the signer. */
  readonly controlPlane?: boolean;
  /** Changes of `signer.json` before the start. */
  readonly signer?: readonly ConfigEdit[];
  readonly controlPlaneConfig?: readonly ConfigEdit[];
  readonly broker?: readonly ConfigEdit[];
  /** Directory of bundles from which services start, as in packages. If absent, they start from source. */
  readonly bundles?: string;
  readonly targetKind?: SshTargetOptions["forceKind"];
  /** True if the target's sshd reads {@linkcode revokedKeysIn}. It rejects every login until this file exists. */
  readonly revokedKeys?: boolean;
}

/** A value at a key path of a config. */
export interface ConfigEdit {
  /** -1 appends to a list. */
  readonly path: readonly (string | number)[];
  /** Absent removes the key. */
  readonly value?: unknown;
}

/** An installation of `init` in one directory, with an enrolled host. Its services start on demand. */
export class Stage implements AsyncDisposable {
  readonly init: InitReport;
  readonly target: SshTarget;
  readonly #bundles: string | undefined;
  readonly #resources: AsyncDisposableStack;

  private constructor(
    init: InitReport,
    { target, bundles }: { readonly target: SshTarget; readonly bundles: string | undefined },
    resources: AsyncDisposableStack,
  ) {
    this.init = init;
    this.target = target;
    this.#bundles = bundles;
    this.#resources = resources;
  }

  /** Creates the installation, starts the target, and adds it to the signer's config. */
  static async create(options: StageOptions): Promise<Stage> {
    await using resources = new AsyncDisposableStack();
    const init = await createInstallation(
      `${options.dir}/gateway`,
      options.controlPlane === true ? [] : ["--direct"],
    );
    const sshDir = `${options.dir}/ssh`;
    await Deno.mkdir(sshDir);
    const target = await startSshTarget({
      caPublicKeyLine: init.ssh_ca_public_key,
      principals: { [currentUser()]: [`host:${HOST}`] },
      dir: sshDir,
      ...(options.targetKind === undefined ? {} : { forceKind: options.targetKind }),
      ...(options.revokedKeys === true ? { revokedKeys: revokedKeysIn(options.dir) } : {}),
    });
    resources.defer(() => target.close());
    const host = {
      addr: `127.0.0.1:${target.port}`,
      user: target.user,
      host_key: target.hostKeyLine,
      principal: `host:${HOST}`,
      groups: ["local"],
    };
    await editConfig(init.signer_config, [{ path: ["hosts", HOST], value: host }, ...(options.signer ?? [])]);
    await editConfig(init.control_plane_config, options.controlPlaneConfig ?? []);
    const address = { path: ["networks"], value: [host.addr] };
    await editConfig(init.broker_config, [address, ...(options.broker ?? [])]);
    await editConfig(init.mcp_config, [address]);
    return new Stage(init, { target, bundles: options.bundles }, resources.move());
  }

  /** Starts the signer. It stops with the stage. */
  async startSigner(signal?: AbortSignal): Promise<ServiceProcess> {
    return await this.start(await signerCommand(this.init.signer_config), signal);
  }

  /** Starts the control plane. It stops with the stage. */
  async startControlPlane(signal?: AbortSignal): Promise<ServiceProcess> {
    return await this.start(await controlPlaneCommand(this.init.control_plane_config), signal);
  }

  /** Starts the broker's HTTP frontend. It stops with the stage. */
  async startBroker(signal?: AbortSignal): Promise<ServiceProcess> {
    return await this.start(await brokerCommand(this.init.broker_config, "serve-http"), signal);
  }

  /** Returns the command of a broker over stdio, which an MCP client starts. */
  async mcpCommand(): Promise<ServiceCommand> {
    return this.#placed(await brokerCommand(this.init.mcp_config, "serve-mcp"));
  }

  /** Starts a service. It stops with the stage. */
  async start(command: ServiceCommand, signal?: AbortSignal): Promise<ServiceProcess> {
    return this.#resources.use(await ServiceProcess.start(this.#placed(command), signal));
  }

  #placed(command: ServiceCommand): ServiceCommand {
    return this.#bundles === undefined ? command : fromBundles(command, this.#bundles);
  }

  /** Disposes a resource with the stage, before earlier resources. */
  defer(onEnd: () => Promise<void> | void): void {
    this.#resources.defer(onEnd);
  }

  /** Returns a client of the signer with one of the identities. */
  async signerClient(identity: StageIdentity): Promise<JsonClient> {
    return await this.#client(await this.#listen(this.init.signer_config), identity);
  }

  /** Returns a client of the control plane with one of the identities. */
  async controlPlaneClient(identity: StageIdentity): Promise<JsonClient> {
    return await this.#client(await this.#listen(this.init.control_plane_config), identity);
  }

  /** Returns a client of the broker's HTTP frontend with the agent's identity. */
  async brokerClient(): Promise<JsonClient> {
    return await this.#client(await this.#listen(this.init.broker_config), "agent");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }

  async #listen(configPath: string): Promise<string> {
    const text = await Deno.readTextFile(configPath);
    const [, listen] = text.match(/"listen": "([^"]+)"/) ?? [];
    if (listen === undefined) throw new Error(`no listen address in ${configPath}`);
    return listen;
  }

  async #client(listen: string, identity: StageIdentity): Promise<JsonClient> {
    const pair = this.init[identity];
    const client = new JsonClient({
      clock: systemClock,
      baseUrl: `https://${listen}`,
      cert: await Deno.readTextFile(pair.cert),
      key: await Deno.readTextFile(pair.key),
      ca: await Deno.readTextFile(this.init.mtls_ca),
      timeoutMs: 60_000,
    });
    this.#resources.defer(() => client.close());
    return client;
  }
}

/** Returns the path of the revoked keys that the target's sshd reads. */
export function revokedKeysIn(dir: string): string {
  return `${dir}/krl/revoked_keys`;
}

/** Changes values of a JSONC file and keeps comments. */
export async function editConfig(path: string, edits: readonly ConfigEdit[]): Promise<void> {
  let text = await Deno.readTextFile(path);
  for (const edit of edits) {
    text = applyEdits(
      text,
      modify(text, [...edit.path], edit.value, { formattingOptions: { insertSpaces: true, tabSize: 2 } }),
    );
  }
  await Deno.writeTextFile(path, text);
}

/** Posts JSON. */
export function post(
  client: Pick<JsonClient, "request">,
  path: string,
  body?: unknown,
): Promise<JsonClientResponse> {
  return client.request({ method: "POST", path, ...(body === undefined ? {} : { body }) });
}
