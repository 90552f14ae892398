import type { CommandGroup } from "../kit/command.ts";
import { ADD, REMOVE } from "./add.ts";
import { ENROL, UNENROL } from "./enrol.ts";
import { INSTALL_SHIM } from "./install_shim.ts";
import { KRL } from "./krl.ts";
import { LIST } from "./list.ts";
import { SEAL, UNSEAL } from "./seal.ts";

/** `host`: the hosts, their permissions, and their seals. */
export const HOST: CommandGroup = {
  name: "host",
  summary: "See, change and seal the hosts.",
  commands: [ADD, REMOVE, ENROL, UNENROL, INSTALL_SHIM, SEAL, UNSEAL, KRL, LIST],
};
