import { quoteText } from "@gateway/shared/text";
import { command } from "../kit/command.ts";
import { describeEntry } from "../kit/entries.ts";
import { notFound } from "../kit/output.ts";
import { loadHosts } from "../kit/signer_file.ts";
import { byName } from "../kit/table.ts";
import { listContributions } from "./explain.ts";

/** `policy show`: the command policies, and the groups of hosts that they apply to. */
export const SHOW_POLICY = command({
  name: "show",
  summary: "Show the command policies.",
  takes: { "--host <name>": "only the policies of this host" },
  help: `
Examples:
  broker-ctl policy show
  broker-ctl policy show --host web01

Shows the rules of each command policy in the signer's config, and the host groups that use it. A host can also have its
own policy: broker-ctl host show. To decide a command: broker-ctl policy explain.
`,
  async run({ host: name, config }, { workingFolder }) {
    const { hosts, command_policies, group_command_policies } = await loadHosts(config, workingFolder);
    const host = name === undefined || !Object.hasOwn(hosts, name) ? undefined : hosts[name];
    if (name !== undefined && host === undefined) {
      throw notFound(`Cannot find host ${quoteText(name)} in the config`, undefined, "broker-ctl host list");
    }
    const used = host && listContributions({ command_policies, group_command_policies }, host);
    const policies = byName({
      ...command_policies,
      ...host?.command_policy !== undefined && { "<inline>": host.command_policy },
    }).filter(([policy]) => used === undefined || used.some(({ name }) => name === policy));
    const groupsOf = (policy: string) =>
      byName(group_command_policies).flatMap(([group, names]) => names.includes(policy) ? [group] : []);
    const shown = policies.map(([policy, rules]) => [policy, { groups: groupsOf(policy), ...rules }] as const);
    const lines = (await Promise.all(shown.map(([policy, rules]) => describeEntry(policy, rules)))).flat();
    return { json: Object.fromEntries(shown), lines: lines.length === 0 ? ["(no command policies)"] : lines };
  },
});
