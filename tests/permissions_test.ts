import assert from "node:assert/strict";
import { BROKER_FRONTENDS } from "@gateway/broker/permissions";
import { OpenIdServer } from "./e2e/open_id_server.ts";
import { freePort } from "./stage/free_port.ts";
import { poll } from "./stage/poll.ts";
import {
  brokerCommand,
  controlPlaneCommand,
  type ServiceCommand,
  signerCommand,
} from "./stage/service_command.ts";
import { ServiceProcess } from "./stage/service_process.ts";
import { editConfig, type Stage } from "./stage/stage.ts";
import { withStage } from "./stage/with_stage.ts";

/** An action that a process tries, as a JavaScript expression. */
interface Attempt {
  readonly what: string;
  readonly code: string;
  /** Name of the expected error; NotCapable if absent. */
  readonly refusal?: string;
}

const read = (path: string): Attempt => ({
  what: `read ${path}`,
  code: `Deno.readFile(${JSON.stringify(path)})`,
});
const write = (path: string): Attempt => ({
  what: `write ${path}`,
  code: `Deno.writeTextFile(${JSON.stringify(path)}, "x")`,
});
const connect = (port: number, hostname = "127.0.0.1"): Attempt => ({
  what: `connect to ${hostname === "127.0.0.1" ? "" : `${hostname} `}port ${port}`,
  code: `Deno.connect({ hostname: "${hostname}", port: ${port} })`,
});
const listen = (port: number): Attempt => ({
  what: `listen on port ${port}`,
  code: `(async () => Deno.listen({ hostname: "127.0.0.1", port: ${port} }).close())()`,
});
const SPAWN: Attempt = { what: "spawn", code: `new Deno.Command("/bin/true").output()` };
/** The environment is empty, so that a package that reads a variable does not stop the service. */
const ENVIRONMENT: Attempt = {
  what: "read the environment",
  code: `(async () => Deno.env.get("PATH").length)()`,
  refusal: "TypeError",
};
const NATIVE: Attempt = { what: "load native code", code: `(async () => Deno.dlopen("libc.so.6", {}))()` };
/** The process loads only cached modules, even from addresses that it can connect to. */
const IMPORT: Attempt = {
  what: "import code from the network",
  code: `import("https://127.0.0.1:1/x.js")`,
  refusal: "TypeError",
};
/** Imports a path that is computed at run time, because the loader adds constant paths to the program. */
const importFile = (path: string): Attempt => ({
  what: `import ${path}`,
  code: `import(["file:/", ${JSON.stringify(path)}].join("/"))`,
  refusal: "TypeError",
});

/** Storage of the runtime, which no permission covers, and workers, which could open it again. */
const STORAGE: readonly Attempt[] = [
  {
    what: "use localStorage",
    code: `(async () => localStorage.setItem("a", "b"))()`,
    refusal: "ReferenceError",
  },
  {
    what: "use sessionStorage",
    code: `(async () => sessionStorage.setItem("a", "b"))()`,
    refusal: "ReferenceError",
  },
  { what: "use caches", code: `(async () => await caches.open("a"))()`, refusal: "ReferenceError" },
  { what: "use a key-value store", code: `(async () => await Deno.openKv())()`, refusal: "TypeError" },
  {
    what: "start a worker",
    code: `(async () => new Worker("data:text/javascript,", { type: "module" }).terminate())()`,
    refusal: "ReferenceError",
  },
];

/**
 * Starts a service with a preloaded module. When the service has started, the module tries actions with the service's
 * permissions. The service continues to serve.
 */
async function probe(
  command: ServiceCommand,
  attempts: readonly Attempt[],
): Promise<ReadonlyMap<string, string>> {
  const tries = attempts.map(({ what, code }) =>
    `results[${JSON.stringify(what)}] = await (async () => ${code})().then(() => "done", (e) => e.name);`
  );
  // Loaded before all modules of the service. The service serves when it listens for the signal that stops it.
  const module = `const { addSignalListener } = Deno;
  Deno.addSignalListener = async (...listener) => {
    addSignalListener(...listener);
    Deno.addSignalListener = addSignalListener;
    const results = {};
    ${tries.join("\n")}
    console.error("PROBE " + JSON.stringify(results));
  };`;
  const [run = "run", ...rest] = command.args;
  const args = [run, "--preload", `data:application/javascript,${encodeURIComponent(module)}`, ...rest];
  await using service = await ServiceProcess.start({ ...command, args });
  await poll(() => /^PROBE .*$/m.test(service.log), { what: "what the probe found" });
  const [, json = "{}"] = service.log.match(/^PROBE (.*)$/m) ?? [];
  return new Map(Object.entries(JSON.parse(json)));
}

async function assertRefused(
  command: ServiceCommand,
  forbidden: readonly Attempt[],
  allowed: readonly Attempt[],
) {
  const results = await probe(command, [...forbidden, ...allowed]);
  const shown = [...results].map(([what, result]) => `  ${command.name}: ${what}: ${result}`);
  Deno.stdout.writeSync(new TextEncoder().encode(`${shown.join("\n")}\n`));
  for (const { what, refusal = "NotCapable" } of forbidden) {
    assert.equal(results.get(what), refusal, `${command.name} may ${what}`);
  }
  for (const { what } of allowed) assert.equal(results.get(what), "done", `${command.name} may not ${what}`);
}

/** A file next to the installation that is named in no config. */
async function strangersFile({ init }: Stage): Promise<string> {
  const path = `${init.folder}/stranger.js`;
  await Deno.writeTextFile(path, "export default 1;");
  return path;
}

/** Adds a cluster to the signer's config, with an API server that does not exist and a credential for tokens. */
async function addCluster({ init }: Stage): Promise<{ readonly port: number; readonly tokenFile: string }> {
  const port = freePort();
  const tokenFile = `${init.folder}/prod.token`;
  await Deno.writeTextFile(tokenFile, "token", { mode: 0o600 });
  const value = {
    api_server: `https://127.0.0.1:${port}`,
    ca_cert: init.mtls_ca,
    token_file: tokenFile,
    groups: ["local"],
    sa_bindings: [{ namespace: "gateway", service_account: "agent" }],
    rules: [{ verbs: ["get"], effect: "allow" }],
  };
  await editConfig(init.signer_config, [{ path: ["kubernetes", "clusters", "prod"], value }]);
  return { port, tokenFile };
}

/** A connection that the permissions allow, to a port without a listener. */
const reach = (port: number): Attempt => ({ ...connect(port), refusal: "ConnectionRefused" });

Deno.test("the signer's permissions allow only the actions that its config needs", () =>
  withStage({}, async (stage) => {
    const { init } = stage;
    const stranger = await strangersFile(stage);
    const cluster = await addCluster(stage);
    await assertRefused(await signerCommand(init.signer_config), [
      read(init.broker.key),
      read(init.broker_audit_key),
      read(stranger),
      write(stranger),
      write(init.mcp_config),
      write(init.ssh_ca),
      write(init.broker_audit_log),
      write(cluster.tokenFile),
      reach(cluster.port),
      connect(stage.target.port),
      connect(freePort()),
      listen(freePort()),
      SPAWN,
      ...STORAGE,
      ENVIRONMENT,
      NATIVE,
      IMPORT,
      importFile(stranger),
    ], [
      read(cluster.tokenFile),
      read(init.ssh_ca),
      read(init.signer_audit_key),
      write(`${init.folder}/log/signer/probe`),
    ]);
  }));

Deno.test("the control plane's permissions allow only the actions that its config needs", () =>
  withStage({ controlPlane: true }, async (stage) => {
    const { init } = stage;
    const stranger = await strangersFile(stage);
    const cluster = await addCluster(stage);
    await assertRefused(await controlPlaneCommand(init.control_plane_config), [
      read(cluster.tokenFile),
      connect(cluster.port),
      read(init.ssh_ca),
      read(init.signer_audit_key),
      read(init.signer_config),
      read(init.broker.key),
      read(init.operator.key),
      read(init.approver.key),
      read(stranger),
      write(stranger),
      write(init.control_plane_config),
      write(init.control_plane_client.key),
      write(init.signer_audit_log),
      write(`${init.folder}/state/signer.db`),
      connect(stage.target.port),
      connect(freePort()),
      listen(freePort()),
      SPAWN,
      ...STORAGE,
      ENVIRONMENT,
      NATIVE,
      IMPORT,
      importFile(stranger),
    ], [
      read(init.control_plane_client.key),
      write(`${init.folder}/log/control-plane/probe`),
    ]);
  }));

Deno.test("the broker's permissions allow only the actions that its config needs (C15)", () =>
  withStage({}, async (stage) => {
    const { init } = stage;
    const stranger = await strangersFile(stage);
    const { tokenFile } = await addCluster(stage);
    await stage.startSigner();
    await using provider = await OpenIdServer.start({ agents: [], groups: [] });
    using inNetwork = Deno.listen({ hostname: "127.0.0.2", port: 0 });
    const { port } = inNetwork.addr;
    await editConfig(init.broker_config, [
      { path: ["networks"], value: [`127.0.0.1:${stage.target.port}`, `127.0.0.2/31:${port}`] },
      { path: ["resource_url"], value: "https://gateway.example" },
      { path: ["oauth"], value: { issuer: provider.issuer, audience: "https://gateway.example" } },
    ]);
    for (const frontend of BROKER_FRONTENDS) {
      await assertRefused(await brokerCommand(init.broker_config, frontend), [
        read(init.ssh_ca),
        read(init.signer_audit_key),
        read(init.signer_config),
        read(init.operator.key),
        read(tokenFile),
        read(stranger),
        write(stranger),
        write(init.broker_config),
        write(init.broker.key),
        write(init.signer_audit_log),
        connect(freePort()),
        connect(port),
        connect(freePort(), "127.0.0.2"),
        connect(port, "127.0.0.4"),
        connect(port, "localhost"),
        listen(freePort()),
        SPAWN,
        ...STORAGE,
        ENVIRONMENT,
        NATIVE,
        IMPORT,
        importFile(stranger),
      ], [
        read(init.broker.key),
        write(`${init.folder}/log/broker/probe`),
        connect(stage.target.port),
        connect(port, "127.0.0.2"),
      ]);
    }
  }));
