import { applyEdits, modify } from "jsonc-parser";
import { systemClock } from "@gateway/shared/clock";
import { JsonClient } from "@gateway/shared/http";
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
import { type InitReport, makeSetUp } from "./set_up.ts";

export { runBrokerCtl } from "./broker_ctl.ts";

/** The name the target has in the signer's config. */
export const HOST = "web01";

/** Who has a certificate in a set-up. */
export type StageIdentity = "operator" | "approver" | "agent" | "broker" | "control_plane_client";

/** What a {@linkcode Stage} is to look like. */
export interface StageOptions {
  /** An existing folder that everything is put in; it is the caller's to remove. */
  readonly dir: string;
  /** The brokers ask the control plane; otherwise they ask the signer. */
  readonly controlPlane?: boolean;
  /** Changes to `signer.json`: key path to value, before anything starts. */
  readonly signer?: readonly ConfigEdit[];
  readonly controlPlaneConfig?: readonly ConfigEdit[];
  readonly broker?: readonly ConfigEdit[];
  /** Services start from bundles in this folder, as packages have them; from source when absent. */
  readonly bundles?: string;
  readonly targetKind?: SshTargetOptions["forceKind"];
  /** The target's sshd looks at {@linkcode revokedKeysIn}, and refuses everybody until that is there. */
  readonly revokedKeys?: boolean;
}

/** A value at a key path of a config. */
export interface ConfigEdit {
  /** -1 appends to a list. */
  readonly path: readonly (string | number)[];
  /** Absent removes the key. */
  readonly value?: unknown;
}

/** A whole set-up in one folder: made by `init`, with a host enrolled in it; its services start on demand. */
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

  /** Has what `init` makes, starts the target, and names it in the signer's config. */
  static async create(options: StageOptions): Promise<Stage> {
    await using resources = new AsyncDisposableStack();
    const init = await makeSetUp(`${options.dir}/gateway`, options.controlPlane === true ? [] : ["--direct"]);
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

  /** Starts the signer; it ends with the stage, if it has not before. */
  async startSigner(signal?: AbortSignal): Promise<ServiceProcess> {
    return await this.start(await signerCommand(this.init.signer_config), signal);
  }

  /** Starts the control plane; it ends with the stage, if it has not before. */
  async startControlPlane(signal?: AbortSignal): Promise<ServiceProcess> {
    return await this.start(await controlPlaneCommand(this.init.control_plane_config), signal);
  }

  /** Starts the broker's HTTP frontend; it ends with the stage, if it has not before. */
  async startBroker(signal?: AbortSignal): Promise<ServiceProcess> {
    return await this.start(await brokerCommand(this.init.broker_config, "serve-http"), signal);
  }

  /** The broker over stdio, for an MCP client to start. */
  async mcpCommand(): Promise<ServiceCommand> {
    return this.#placed(await brokerCommand(this.init.mcp_config, "serve-mcp"));
  }

  /** Starts a service; it ends with the stage, if it has not before. */
  async start(command: ServiceCommand, signal?: AbortSignal): Promise<ServiceProcess> {
    return this.#resources.use(await ServiceProcess.start(this.#placed(command), signal));
  }

  #placed(command: ServiceCommand): ServiceCommand {
    return this.#bundles === undefined ? command : fromBundles(command, this.#bundles);
  }

  /** Ends something with the stage, before what was started earlier. */
  defer(onEnd: () => Promise<void> | void): void {
    this.#resources.defer(onEnd);
  }

  /** A client of the signer with one of the identities. */
  async signerClient(identity: StageIdentity): Promise<JsonClient> {
    return await this.#client(await this.#listen(this.init.signer_config), identity);
  }

  /** A client of the control plane with one of the identities. */
  async controlPlaneClient(identity: StageIdentity): Promise<JsonClient> {
    return await this.#client(await this.#listen(this.init.control_plane_config), identity);
  }

  /** A client of the broker's HTTP frontend, as the agent. */
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

/** Where the target of a set-up in a folder looks for revoked keys. */
export function revokedKeysIn(dir: string): string {
  return `${dir}/krl/revoked_keys`;
}

/** Changes values of a JSONC file, comments kept. */
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
