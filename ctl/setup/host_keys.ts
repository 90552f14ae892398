import type { BrokerConfig } from "@gateway/broker/config";
import { fingerprint, parsePublicKey } from "@gateway/shared/ssh";
import { visibleText } from "@gateway/shared/text";
import { scanHostKey } from "../hosts/add.ts";
import { confirm } from "../kit/confirm.ts";
import { conflict, type Environment, invalid } from "../kit/output.ts";
import type { GivenHost, InitHost } from "./layout.ts";

type Person = Pick<Environment, "terminal" | "keys"> & { readonly yes?: boolean; readonly withYes: string };

/**
 * Scans the keys of hosts that were given without one. A person confirms a scanned key, because an attacker in the network
 * can return another key.
 *
 * @param known the hosts of the installation, whose accounts, addresses and keys must not change
 */
export async function completeHosts(
  given: readonly GivenHost[],
  known: BrokerConfig["hosts"],
  person: Person,
): Promise<readonly InitHost[]> {
  const hosts = await Promise.all(given.map(async (host) => {
    return { ...host, hostKey: host.hostKey ?? (await scanHostKey(host.addr)).line };
  }));
  const scanned = hosts.filter((host, index) => {
    if (!Object.hasOwn(known, host.name)) return given[index]?.hostKey === undefined;
    const { addr = "", user = "", host_key: hostKey = "" } = known[host.name] ?? {};
    const before = describe({ ...host, addr, user, hostKey });
    if (before === describe(host)) return false;
    const message = `Cannot use ${describe(host)}: it may be an attacker's key; the config has ${before}`;
    const fix = "check the key on the host; if the host has changed, edit hosts in mcp.json";
    throw conflict(message, undefined, fix);
  });
  if (scanned.length > 0) await confirmKeys(scanned, person);
  return hosts;
}

async function confirmKeys(hosts: readonly InitHost[], { terminal, keys, yes, withYes }: Person) {
  const lines = [
    ...hosts.map((host) => `Scanned host key: ${describe(host)}`),
    "It can be the key of an attacker in the network. Compare it with the output of this command on the host:",
    "   ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub",
  ];
  terminal.err(lines.map((line) => `${visibleText(line)}\n`).join(""));
  if (yes === true) return;
  if (keys === undefined) {
    const fix =
      `compare the key, then run ${withYes}; or pass the key: --host "NAME=…,key=ssh-ed25519 AAAA…"`;
    throw invalid("Cannot ask about a host key without a terminal; nothing was written", undefined, fix);
  }
  if (await confirm({ terminal, keys }, "Is it the same?")) return;
  throw invalid("The host key was not confirmed; nothing was written");
}

function describe({ name, user, addr, hostKey }: InitHost): string {
  return `${name} (${user}@${addr}) ${fingerprint(parsePublicKey(hostKey).blob)}`;
}
