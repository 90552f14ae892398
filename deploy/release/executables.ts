import { type BrokerFrontend, brokerRunOptions } from "@gateway/broker/permissions";
import { formatV8Flags, type RunOptions } from "@gateway/shared/permissions";
import { SIGNER_RUN_OPTIONS } from "@gateway/signer/permissions";

export interface Executable {
  readonly name: string;
  readonly purpose: string;
  /** The member of the workspace whose `deno.json` has its permissions. */
  readonly member: string;
  /** The first module, relative to the workspace; the member's `main.ts` if absent. */
  readonly entry?: string;
  /** Arguments that precede those of the command line. */
  readonly arguments?: readonly string[];
  readonly permissionSet: string;
  /** Options of V8, the same as from source; V8's defaults if absent. */
  readonly runOptions?: RunOptions;
}

export const EXECUTABLES: readonly Executable[] = [
  {
    ...{ name: "signer", purpose: "issues certificates", member: "signer", permissionSet: "signer" },
    runOptions: SIGNER_RUN_OPTIONS,
  },
  {
    ...{ name: "control-plane", purpose: "forwards requests to the signer, asks people for approvals" },
    ...{ member: "control_plane", permissionSet: "control-plane", runOptions: {} },
  },
  {
    ...{ name: "gateway", purpose: "broker for agents, with every frontend" },
    ...{ member: "broker", permissionSet: "gateway", entry: "deploy/gateway.ts" },
    // The frontend is not known yet, and HTTP needs the most memory.
    runOptions: brokerRunOptions("serve-http"),
  },
  { name: "broker-ctl", purpose: "the operator's tool", member: "ctl", permissionSet: "broker-ctl" },
  {
    ...{ name: "approval-bridge", purpose: "asks people for approvals in a chat", member: "ctl" },
    ...{ entry: "ctl/bridge/main.ts", permissionSet: "approval-bridge", runOptions: {} },
  },
  { name: "debate", purpose: "diagnoses incidents by a debate", member: "debate", permissionSet: "run" },
  {
    name: "gateway-shim-verify",
    purpose: "checks the envelopes of a sealed host for shim/gateway-shim-v1",
    member: "shim",
    permissionSet: "gateway-shim",
    arguments: ["/etc/gateway/envelope.pub", "/var/lib/gateway-shim/nonces"],
  },
  // Deprecated names, kept for the client entries and unit files that start them.
  formerFrontend("broker", "broker", "serve-http"),
  formerFrontend("mcp-broker", "broker-mcp", "serve-mcp"),
  formerFrontend("mcp-broker-http", "broker-mcp-http", "serve-mcp-http"),
];

function formerFrontend(name: string, permissionSet: string, frontend: BrokerFrontend): Executable {
  const purpose = `gateway ${frontend}, by its former name`;
  const runOptions = brokerRunOptions(frontend);
  return { name, purpose, member: "broker", permissionSet, arguments: [frontend], runOptions };
}

/** The arguments of `deno` that compile an executable with its permission set, without unused packages. */
export function compileArguments(executable: Executable, { workspace, output, excludes }: {
  readonly workspace: string;
  readonly output: string;
  readonly excludes: readonly string[];
}): string[] {
  const { member } = executable;
  return [
    "compile",
    "--quiet",
    "--no-prompt",
    "--exclude-unused-npm",
    ...executable.runOptions === undefined ? [] : [formatV8Flags(executable.runOptions)],
    ...excludes.map((folder) => `--exclude=${folder}`),
    `--config=${workspace}/${member}/deno.json`,
    `-P=${executable.permissionSet}`,
    `--output=${output}/${executable.name}`,
    `${workspace}/${executable.entry ?? `${member}/main.ts`}`,
    ...executable.arguments ?? [],
  ];
}
