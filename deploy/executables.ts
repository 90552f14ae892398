import { brokerRunOptions } from "@gateway/broker/permissions";
import { formatV8Flags, type RunOptions } from "@gateway/shared/permissions";
import { SIGNER_RUN_OPTIONS } from "@gateway/signer/permissions";

interface Executable {
  readonly name: string;
  readonly purpose: string;
  /** The member of the workspace whose `deno.json` holds its permissions. */
  readonly member: string;
  /** The module that it starts with, from the workspace; the member's `main.ts` when absent. */
  readonly entry?: string;
  /** What stands before the arguments of whoever runs it. */
  readonly arguments?: readonly string[];
  /** The name of the set in `permissions` of that `deno.json`. */
  readonly permissionSet: string;
  /** What V8 is told, as when the service runs from source; V8 decides when absent. */
  readonly runOptions?: RunOptions;
}

/** Every executable that `deno task compile` makes. */
export const EXECUTABLES: readonly Executable[] = [
  {
    name: "signer",
    purpose: "issues certificates",
    member: "signer",
    permissionSet: "signer",
    runOptions: SIGNER_RUN_OPTIONS,
  },
  {
    name: "control-plane",
    purpose: "forwards to the signer, has people approve",
    member: "control_plane",
    permissionSet: "control-plane",
    runOptions: {},
  },
  {
    name: "gateway",
    purpose: "the broker that agents talk to, with any frontend",
    member: "broker",
    permissionSet: "gateway",
    entry: "deploy/gateway.ts",
    // Which frontend it is to be is not known yet: what is too little for HTTP would cost it throughput.
    runOptions: brokerRunOptions("serve-http"),
  },
  { name: "broker-ctl", purpose: "the operator's tool", member: "ctl", permissionSet: "broker-ctl" },
  {
    name: "approval-bridge",
    purpose: "has people approve in a chat",
    member: "ctl",
    entry: "ctl/bridge/main.ts",
    permissionSet: "approval-bridge",
    runOptions: {},
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
  {
    name: "broker",
    purpose: "gateway serve-http, by its former name",
    member: "broker",
    permissionSet: "broker",
    arguments: ["serve-http"],
    runOptions: brokerRunOptions("serve-http"),
  },
  {
    name: "mcp-broker",
    purpose: "gateway serve-mcp, by its former name",
    member: "broker",
    permissionSet: "broker-mcp",
    arguments: ["serve-mcp"],
    runOptions: brokerRunOptions("serve-mcp"),
  },
  {
    name: "mcp-broker-http",
    purpose: "gateway serve-mcp-http, by its former name",
    member: "broker",
    permissionSet: "broker-mcp-http",
    arguments: ["serve-mcp-http"],
    runOptions: brokerRunOptions("serve-mcp-http"),
  },
];

/** Where {@linkcode compileArguments} reads and writes. */
interface CompileFolders {
  readonly workspace: string;
  readonly output: string;
  readonly excludes: readonly string[];
}

/** The arguments of `deno` that make one executable, under its set and with no package that it does not use. */
export function compileArguments(
  executable: Executable,
  { workspace, output, excludes }: CompileFolders,
): string[] {
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
