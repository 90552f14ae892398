import { diffLines } from "./diff.ts";

type Hosts = Readonly<Record<string, unknown>>;

/** What two sets of hosts differ in, host by host, by name; each with the lines that differ. */
export function diffHosts(before: Hosts, after: Hosts): readonly string[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  return names.flatMap((name) => diffLines(format(before, name), format(after, name), `hosts.${name}`));
}

/** Empty: there is none. The order of keys means nothing. */
function format(hosts: Hosts, name: string): string {
  return Object.hasOwn(hosts, name) ? JSON.stringify(sorted(hosts[name]), null, 2) : "";
}

function sorted(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value).sort(([one], [other]) => one < other ? -1 : 1);
  return Object.fromEntries(entries.map(([key, member]) => [key, sorted(member)]));
}
