import { stringifyJson } from "@gateway/shared/json";
import { quoteText, visibleText } from "@gateway/shared/text";
import {
  type HostInfo,
  type HostRules,
  type HostsResponse,
  MAX_RULES_HOSTS,
  SESSION_MODES,
} from "@gateway/shared/wire";
import * as z from "@zod/zod";
import type { Hosts } from "../request/route.ts";
import { jsonLength } from "./executed.ts";
import { defineTool, READ, READABLE_BYTES, RESULT_BYTES, type Tool, visibleTo } from "./tool.ts";

export interface ListServersPorts {
  readonly currentHosts: () => Promise<Hosts>;
  readonly hostRules: (names: readonly string[], signal: AbortSignal) => Promise<HostsResponse>;
}

/** The most bytes of servers in a result, so that the result fits with the JSON around them. */
const PAGE_BYTES = RESULT_BYTES - READABLE_BYTES - 16_384;

/** The hosts as they were last listed. The result never has an address, account or key. */
export function createSshListServersTool({ currentHosts, hostRules }: ListServersPorts): Tool {
  return defineTool({
    name: "ssh_list_servers",
    title: "List servers",
    description:
      "List the servers you may use. Call this first. If allow_sudo, allow_pty or allow_file_transfer is " +
      "false, do not try that option. policy: true adds what may run, what needs a human's approval, and the rules for " +
      "sudo, sessions and files, but no denied commands and temporary grants: check a command with ssh_execute and dry_run.",
    annotations: { ...READ, openWorldHint: false },
    input: z.strictObject({
      policy: z.boolean().optional().describe(`${MAX_RULES_HOSTS} servers per call`),
      server: z.string().optional().describe("Only this server"),
      after: z.string().optional().describe("next_after of the previous call"),
    }),
    output: z.strictObject({
      servers: z.array(z.strictObject({
        name: z.string(),
        allow_sudo: z.boolean(),
        allow_pty: z.boolean(),
        allow_file_transfer: z.boolean(),
        jump: z.string().optional().describe("Bastion"),
        policy: z.strictObject({
          in_words: z.array(z.string()),
          commands: z.enum(["any", "allowlist", "denylist"]),
          enforcement: z.enum(["enforce", "audit"]).describe("audit: violations only warn"),
          shell_parse: z.boolean().describe("Each command of a line is checked"),
          allow: z.array(z.string()).optional().describe("A command must match one (RE2)"),
          allow_omitted: z.int().optional(),
          some_denied: z.boolean().optional().describe("Some commands are denied and not shown"),
          require_approval: z.array(z.string()).optional(),
          require_approval_omitted: z.int().optional(),
          sudo_users: z.array(z.string()).optional(),
          session_modes: z.array(z.enum(SESSION_MODES)),
          file_transfer: z.boolean(),
          max_ttl_seconds: z.int(),
        }).optional(),
      })),
      next_after: z.string().optional().describe("Pass it as after"),
    }),
    async handle({ policy = false, server, after = "" }, { callerGroups, signal }) {
      const visible = visibleTo(callerGroups, await currentHosts())
        .filter(([name]) => name > after && (server === undefined || name === server));
      const wanted = policy ? visible.slice(0, MAX_RULES_HOSTS) : visible;
      const names = wanted.map(([name]) => name);
      const rules = new Map(
        Object.entries(policy && names.length > 0 ? await hostRules(names, signal) : {}),
      );
      const found = wanted.map(([name, host]) => describe(name, host, rules.get(name)?.policy));
      const lengths = found.map((server) => jsonLength(stringifyJson(server)));
      const servers = found.slice(0, countFitting(lengths, PAGE_BYTES));
      const last = servers.at(-1);
      const more = last !== undefined && servers.length < visible.length ? last.name : undefined;
      return {
        text: renderServers(servers, { policy, more }),
        structured: more === undefined ? { servers } : { servers, next_after: more },
      };
    },
  });
}

function describe(name: string, host: HostInfo, rules: HostRules | undefined) {
  return {
    name,
    allow_sudo: host.allow_sudo ?? false,
    allow_pty: host.allow_pty ?? false,
    allow_file_transfer: host.allow_file_transfer ?? false,
    ...(host.jump ? { jump: host.jump } : {}),
    ...(rules === undefined ? {} : { policy: { in_words: describeRules(rules), ...rules } }),
  };
}

type Server = ReturnType<typeof describe>;

function countFitting(lengths: readonly number[], room: number): number {
  let left = room;
  const end = lengths.findIndex((length, index) => (left -= length) < 0 && index > 0);
  return end === -1 ? lengths.length : end;
}

/** Shows as many servers as a model can read. The first server is always shown in full. */
function renderServers(
  servers: readonly Server[],
  { policy, more }: { readonly policy: boolean; readonly more: string | undefined },
): string {
  const lines = servers.map((server) => renderServer(server, policy));
  const shown = lines.slice(0, countFitting(lines.map(jsonLength), READABLE_BYTES));
  const left = lines.length - shown.length;
  return [
    ...shown,
    ...(left > 0 ? [`[note] structuredContent has ${left} more servers\n`] : []),
    ...(more === undefined ? [] : [`[note] more servers: call again with after ${quoteText(more)}\n`]),
  ].join("");
}

function renderServer(server: Server, policy: boolean): string {
  const via = server.jump === undefined ? "" : ` via=${server.jump}`;
  const line = `${server.name} (sudo=${server.allow_sudo} pty=${server.allow_pty} ` +
    `file_transfer=${server.allow_file_transfer}${via})\n`;
  if (!policy) return line;
  const words = server.policy?.in_words ?? ["the signer does not report the rules of this server"];
  return line + words.map((text) => `  ${text}\n`).join("");
}

export function describeRules(rules: HostRules): readonly string[] {
  const { require_approval = [], require_approval_omitted = 0, sudo_users, session_modes } = rules;
  const isGated = require_approval.length + require_approval_omitted > 0;
  return [
    ...describeCommands(rules),
    ...(isGated ? ["commands that need approval:", ...require_approval.map(item)] : []),
    ...(require_approval_omitted > 0
      ? [`- and commands that ${require_approval_omitted} more patterns match`]
      : []),
    sudo_users === undefined ? "no sudo" : `sudo to ${sudo_users.map(visibleText).join(", ")}`,
    session_modes.length === 0 ? "no sessions" : `sessions: ${session_modes.join(", ")}`,
    rules.file_transfer ? "file transfer where the rules above allow it" : "no file transfer",
    `certificates of at most ${rules.max_ttl_seconds} s`,
  ];
}

function describeCommands(
  { commands, enforcement, shell_parse, allow = [], allow_omitted = 0, some_denied = false }: HostRules,
): readonly string[] {
  const which = {
    any: ["any command"],
    denylist: ["any command except some denied ones, which are not shown"],
    allowlist: [
      "only these commands:",
      ...allow.map(item),
      ...(allow_omitted > 0
        ? [`- and commands that ${allow_omitted} more patterns match, which are not shown`]
        : []),
      ...(some_denied ? ["some of them are denied and not shown"] : []),
    ],
  }[commands];
  const parsed =
    "each command of a line is checked separately; redirections, substitutions and assignments are denied";
  return [
    ...which,
    ...(shell_parse ? [parsed] : []),
    ...(enforcement === "audit" ? ["for now, violations of these rules only cause a warning"] : []),
  ];
}

function item(source: string): string {
  return `- ${describePattern(source)}`;
}

/** Text without special meaning in a pattern, or with a backslash that removes the meaning. */
const LITERAL = String.raw`(?<text>(?:[^\\^$.|?*+()[\]{}]|\\[^0-9A-Za-z])+)`;

/** Patterns that have a short description, the most specific first. */
const SHAPES: readonly (readonly [RegExp, (text: string) => string])[] = [
  [
    new RegExp(String.raw`^\^${LITERAL}(?:\(\?:|\()(?: \.\*\)\?\$| \|\$\)|\$\| \))$`),
    (text) => `${text}, alone or with arguments`,
  ],
  [new RegExp(String.raw`^\^${LITERAL}\$$`), (text) => `exactly ${text}`],
  [new RegExp(String.raw`^\^${LITERAL}(?:\.\*\$?)?$`), (text) => `commands that begin with ${text}`],
  [new RegExp(`^${LITERAL}$`), (text) => `commands that contain ${text}`],
];

export function describePattern(source: string): string {
  for (const [shape, describe] of SHAPES) {
    const text = shape.exec(source)?.groups?.["text"];
    if (text !== undefined) return describe(`"${visibleText(text.replaceAll(/\\(.)/gu, "$1"))}"`);
  }
  return `commands that match /${visibleText(source)}/ (RE2)`;
}
