import type { HostInfo } from "@gateway/shared/wire/host";
import { z } from "@zod/zod";
import type { Hosts } from "../hosts_view.ts";
import { defineTool, type Tool } from "./tool.ts";

const server = z.strictObject({
  name: z.string().describe("Name to pass as server"),
  allow_sudo: z.boolean().describe("Commands may run through sudo"),
  allow_pty: z.boolean().describe("Commands may have a terminal"),
  allow_file_transfer: z.boolean().describe("Files may be read and written"),
  jump: z.string().optional().describe("The bastion in front of it"),
});
type Server = z.infer<typeof server>;

const description = [
  "List the servers you may use and what each permits. Call this first: server names of the other tools come",
  "from here. allow_sudo, allow_pty and allow_file_transfer say which options work on a server; where a flag is",
  "false, do not try. A listed server may still refuse a command by policy: ssh_execute with dry_run tells.",
].join(" ");

/** `ssh_list_servers`: the hosts and what they permit, from the view as it is. Never an address, account or key. */
export function createSshListServersTool(currentHosts: () => Promise<Hosts>): Tool {
  return defineTool({
    name: "ssh_list_servers",
    title: "List servers",
    description,
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    input: z.strictObject({}),
    output: z.strictObject({ servers: z.array(server) }),
    guarded: [],
    async handle(_args, { callerGroups }) {
      const servers = [...await currentHosts()]
        .filter(([_name, host]) => isVisible(host, callerGroups))
        .map(([name, host]) => describe(name, host))
        .sort((left, right) => left.name < right.name ? -1 : 1);
      return { text: servers.map(renderLine).join(""), structured: { servers } };
    },
  });
}

/** Whoever has a group list sees only hosts that share a group with it; an empty list sees none. */
function isVisible(host: HostInfo, callerGroups: readonly string[] | null): boolean {
  return callerGroups === null || (host.groups ?? []).some((group) => callerGroups.includes(group));
}

function describe(name: string, host: HostInfo): Server {
  return {
    name,
    allow_sudo: host.allow_sudo ?? false,
    allow_pty: host.allow_pty ?? false,
    allow_file_transfer: host.allow_file_transfer ?? false,
    ...(host.jump ? { jump: host.jump } : {}),
  };
}

function renderLine(server: Server): string {
  const via = server.jump === undefined ? "" : ` via=${server.jump}`;
  return `${server.name} (sudo=${server.allow_sudo} pty=${server.allow_pty} ` +
    `file_transfer=${server.allow_file_transfer}${via})\n`;
}
