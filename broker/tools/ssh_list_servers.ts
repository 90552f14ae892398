import { stringifyJson } from "@gateway/shared/json";
import { quoteText } from "@gateway/shared/text";
import {
  type HostInfo,
  type HostRules,
  type HostsResponse,
  MAX_RULES_HOSTS,
  SESSION_MODES,
} from "@gateway/shared/wire";
import * as z from "@zod/zod";
import type { Hosts } from "../request/inventory.ts";
import { jsonLength } from "./stream_view.ts";
import { defineTool, isVisible, READABLE_BYTES, RESULT_BYTES, type Tool } from "./tool.ts";
import { describeRules } from "./rules_words.ts";

/** What the tool needs of a broker. */
export interface ListServersPorts {
  readonly currentHosts: () => Promise<Hosts>;
  /** The rules of hosts, for those that the signer tells of. */
  readonly hostRules: (names: readonly string[], signal: AbortSignal) => Promise<HostsResponse>;
}

const input = z.strictObject({
  policy: z.boolean().optional().describe(
    `Also what you may run there; ${MAX_RULES_HOSTS} servers at a time`,
  ),
  server: z.string().optional().describe("Only the server of this name"),
  after: z.string().optional().describe("Only servers after this name: next_after of the call before"),
});

const policyView = z.strictObject({
  in_words: z.array(z.string()).describe("The rules, a line each"),
  commands: z.enum(["any", "allowlist", "denylist"]),
  enforcement: z.enum(["enforce", "audit"]).describe("audit: what the rules refuse runs with a warning"),
  shell_parse: z.boolean().describe("Each command of a line is judged for itself"),
  allow: z.array(z.string()).optional().describe("RE2 patterns; a command must match one"),
  allow_omitted: z.int().optional().describe("How many patterns are not shown"),
  some_denied: z.boolean().optional().describe("Some commands are denied all the same; which, is not shown"),
  require_approval: z.array(z.string()).optional()
    .describe("RE2 patterns of commands that a human has to approve"),
  require_approval_omitted: z.int().optional(),
  sudo_users: z.array(z.string()).optional().describe("Accounts that sudo may change to"),
  session_modes: z.array(z.enum(SESSION_MODES)),
  file_transfer: z.boolean().describe("Files may be moved where the rules allow the command behind that"),
  max_ttl_seconds: z.int(),
});

const server = z.strictObject({
  name: z.string().describe("Name to pass as server"),
  allow_sudo: z.boolean().describe("Commands may run through sudo"),
  allow_pty: z.boolean().describe("Commands may have a terminal"),
  allow_file_transfer: z.boolean().describe("Files may be read and written"),
  jump: z.string().optional().describe("The bastion in front of it"),
  policy: policyView.optional().describe("Only with policy; absent where the signer does not tell"),
});
type Server = z.infer<typeof server>;

const output = z.strictObject({
  servers: z.array(server),
  next_after: z.string().optional().describe("There are more servers: call again with this as after"),
});

const description = [
  "List the servers you may use and what each permits. Call this first: server names of the other tools come",
  "from here. allow_sudo, allow_pty and allow_file_transfer say which options work on a server; where a flag is",
  "false, do not try. policy: true also says in words which commands may run, which a human has to approve, and",
  "what holds for sudo, sessions and files; look there before you try a command that may be refused. What is",
  "denied by name, and temporary grants, are not shown: ssh_execute with dry_run tells about one command.",
].join(" ");

/** As many of the bytes of a result as servers may take; with the frame around them it still fits. */
const PAGE_BYTES = RESULT_BYTES - READABLE_BYTES - 16_384;

/** `ssh_list_servers`: the hosts and what they permit, from the view as it is. Never an address, account or key. */
export function createSshListServersTool({ currentHosts, hostRules }: ListServersPorts): Tool {
  return defineTool({
    name: "ssh_list_servers",
    title: "List servers",
    description,
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    input,
    output,
    guarded: ["server", "after"],
    async handle({ policy = false, server, after = "" }, { callerGroups, signal }) {
      const visible = [...await currentHosts()]
        .filter(([name, host]) => isVisible(host, callerGroups) && name > after)
        .filter(([name]) => server === undefined || name === server)
        .sort(([left], [right]) => left < right ? -1 : 1);
      const wanted = policy ? visible.slice(0, MAX_RULES_HOSTS) : visible;
      const names = wanted.map(([name]) => name);
      const rules = policy && names.length > 0 ? await hostRules(names, signal) : {};
      const servers = firstPage(wanted.map(([name, host]) => describe(name, host, rulesOf(rules, name))));
      const last = servers.at(-1);
      const more = last !== undefined && servers.length < visible.length ? last.name : undefined;
      return {
        text: renderServers(servers, { policy, more }),
        structured: more === undefined ? { servers } : { servers, next_after: more },
      };
    },
  });
}

/** A host may be named like a member of every object. */
function rulesOf(hosts: HostsResponse, name: string): HostRules | undefined {
  return Object.hasOwn(hosts, name) ? hosts[name]?.policy : undefined;
}

function describe(name: string, host: HostInfo, rules: HostRules | undefined): Server {
  return {
    name,
    allow_sudo: host.allow_sudo ?? false,
    allow_pty: host.allow_pty ?? false,
    allow_file_transfer: host.allow_file_transfer ?? false,
    ...(host.jump ? { jump: host.jump } : {}),
    ...(rules === undefined ? {} : { policy: viewRules(rules) }),
  };
}

function viewRules(rules: HostRules): z.infer<typeof policyView> {
  const { allow, require_approval, sudo_users, session_modes, ...rest } = rules;
  return {
    in_words: [...describeRules(rules)],
    ...rest,
    ...(allow === undefined ? {} : { allow: [...allow] }),
    ...(require_approval === undefined ? {} : { require_approval: [...require_approval] }),
    ...(sudo_users === undefined ? {} : { sudo_users: [...sudo_users] }),
    session_modes: [...session_modes],
  };
}

/** The first servers, as many as fit into one result; one at least. */
function firstPage(servers: readonly Server[]): readonly Server[] {
  let room = PAGE_BYTES;
  for (const [index, server] of servers.entries()) {
    room -= jsonLength(stringifyJson(server));
    if (room < 0 && index > 0) return servers.slice(0, index);
  }
  return servers;
}

/** As much as can be read; a first server is always shown in full. */
function renderServers(
  servers: readonly Server[],
  { policy, more }: { readonly policy: boolean; readonly more: string | undefined },
): string {
  const lines: string[] = [];
  let room = READABLE_BYTES;
  for (const [index, server] of servers.entries()) {
    const line = renderServer(server, policy);
    room -= jsonLength(line);
    if (room < 0 && index > 0) {
      lines.push(`[note] structuredContent has ${servers.length - index} more servers\n`);
      break;
    }
    lines.push(line);
  }
  if (more !== undefined) {
    lines.push(`[note] there are more servers: call again with after ${quoteText(more)}\n`);
  }
  return lines.join("");
}

function renderServer(server: Server, policy: boolean): string {
  const via = server.jump === undefined ? "" : ` via=${server.jump}`;
  const line = `${server.name} (sudo=${server.allow_sudo} pty=${server.allow_pty} ` +
    `file_transfer=${server.allow_file_transfer}${via})\n`;
  if (!policy) return line;
  const words = server.policy?.in_words ?? ["the signer does not tell what may run here"];
  return line + words.map((text) => `  ${text}\n`).join("");
}
