/** A program that is shipped. */
export interface Executable {
  /** The file's name. */
  readonly name: string;
  /** What it is for. */
  readonly purpose: string;
  /** The member of the workspace whose `main.ts` it is, and whose `deno.json` holds its permissions. */
  readonly member: string;
  /** The name of the set in `permissions` of that `deno.json`. */
  readonly permissionSet: string;
}

/** Every executable that `deno task compile` makes. */
export const EXECUTABLES: readonly Executable[] = [
  { name: "signer", purpose: "issues certificates", member: "signer", permissionSet: "signer" },
  {
    name: "control-plane",
    purpose: "forwards to the signer, has people approve",
    member: "control_plane",
    permissionSet: "control-plane",
  },
  { name: "gateway", purpose: "the broker that agents talk to", member: "broker", permissionSet: "broker" },
  { name: "broker-ctl", purpose: "the operator's tool", member: "ctl", permissionSet: "broker-ctl" },
];

/** Where {@linkcode compileArguments} reads and writes. */
export interface CompileFolders {
  /** The workspace; absolute. */
  readonly workspace: string;
  /** The folder for executables; absolute. */
  readonly output: string;
  /** Folders to leave out; absolute. */
  readonly excludes: readonly string[];
}

/** The arguments of `deno` that make one executable, under its set and with no package that it does not use. */
export function compileArguments(
  executable: Executable,
  { workspace, output, excludes }: CompileFolders,
): string[] {
  return [
    "compile",
    "--quiet",
    "--no-prompt",
    "--exclude-unused-npm",
    ...excludes.map((folder) => `--exclude=${folder}`),
    `-P=${executable.permissionSet}`,
    `--output=${output}/${executable.name}`,
    `${workspace}/${executable.member}/main.ts`,
  ];
}
