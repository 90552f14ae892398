/** A module that is bundled, with all that it imports, into `usr/lib/gateway/node_modules/gateway`. */
export interface Program {
  /** Where it starts, from the workspace. */
  readonly entry: string;
  /** The folder of its bundle there; what it starts with keeps its name, ending in `.js`. */
  readonly folder: string;
  /** The member whose settings it is bundled with. */
  readonly member: string;
}

/** Every program that packages hold. Those of one folder share what both of them use. */
export const PROGRAMS: readonly Program[] = [
  { entry: "signer/main.ts", folder: "signer", member: "signer" },
  { entry: "control_plane/main.ts", folder: "control_plane", member: "control_plane" },
  { entry: "broker/main.ts", folder: "broker", member: "broker" },
  { entry: "ctl/main.ts", folder: "broker_ctl", member: "ctl" },
  { entry: "ctl/start.ts", folder: "ctl", member: "ctl" },
  { entry: "ctl/bridge/main.ts", folder: "approval_bridge", member: "ctl" },
  { entry: "ctl/bridge/start.ts", folder: "approval_bridge", member: "ctl" },
  { entry: "debate/main.ts", folder: "debate", member: "debate" },
  { entry: "debate/start.ts", folder: "debate", member: "debate" },
];

/** Programs by the folder of their bundle. */
export function programsByFolder(): ReadonlyMap<string, readonly Program[]> {
  return Map.groupBy(PROGRAMS, ({ folder }) => folder);
}
