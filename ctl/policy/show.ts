import { command } from "../kit/command.ts";
import { describeEntry } from "../kit/entries.ts";
import { requireEntry } from "../kit/signer_change.ts";
import { loadHosts } from "../kit/signer_file.ts";
import { byName } from "../kit/table.ts";
import { listContributions } from "./explain.ts";

/** `policy show`: the rules of the command policies, and the groups of hosts that they apply to. */
export const SHOW_POLICY = command({
  name: "show",
  summary: "Show the command policies.",
  takes: { "--host <name>": "only the policies of this host" },
  help: `
Examples:
  broker-ctl policy show --host web01

Shows the rules of each command policy in the signer's config, and the host groups that use it. <inline> is the host's
own policy. To decide a command: broker-ctl policy explain.
`,
  async run({ host: name, config: path }, { workingFolder }) {
    const config = await loadHosts(path, workingFolder);
    const host = name === undefined ? undefined : requireEntry("host", config.hosts, name);
    const used = host && listContributions(config, host).map(({ name }) => name);
    const policies = byName({
      ...config.command_policies,
      ...host?.command_policy !== undefined && { "<inline>": host.command_policy },
    }).filter(([policy]) => used?.includes(policy) ?? true);
    const entries = Object.fromEntries(policies.map(([policy, rules]) => {
      const groups = byName(config.group_command_policies);
      const of = groups.flatMap(([group, names]) => names.includes(policy) ? [group] : []);
      return [policy, { groups: of, ...rules }];
    }));
    return { json: entries, lines: await describeEntry("command_policies", entries) };
  },
});
