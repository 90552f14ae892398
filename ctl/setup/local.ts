/**
 * A local installation: one broker over stdio, which has the SSH CA and the policy. There are no services.
 *
 * @module
 */
import { basename, dirname, join } from "node:path";
import { type BrokerConfig, localPolicy } from "@gateway/broker/config";
import { loadConfig, parseConfig, setValue } from "@gateway/shared/config";
import { ifThere, readRegularFile, readRegularText, tryLockFile } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { badConfig, conflict } from "../kit/output.ts";
import { editFile, LOCAL_FILE } from "../kit/signer_change.ts";
import { CONFIG_KINDS } from "../kit/signer_file.ts";
import { formatLocalConfig, hostEntries, type Kept } from "./config_text.ts";
import type { InitHost, Layout } from "./layout.ts";
import type { KeyMaterial } from "./write.ts";

/** Loads the config of a local installation; undefined if the directory has none. */
export async function loadLocal({ mcpConfig: path }: Layout): Promise<BrokerConfig | undefined> {
  if (await ifThere(Deno.stat(path)) === undefined) return undefined;
  const config = await loadConfig({ path, ...CONFIG_KINDS.broker });
  return config.signer === undefined ? config : undefined;
}

/** Adds the hosts that are missing in a local installation. */
export async function addLocalHosts(
  { mcpConfig: source }: Layout,
  hosts: readonly InitHost[],
): Promise<void> {
  await editFile(LOCAL_FILE, source, (text, { hosts: known }) => {
    const added = Object.entries(hostEntries(hosts)).filter(([name]) => !Object.hasOwn(known, name));
    return added.reduce((text, [name, host]) => setValue(text, ["hosts", name], host), text);
  });
}

/** Keys of the local config that the services keep or replace. */
const KEPT_KEYS = [
  "hosts",
  "command_policies",
  "group_command_policies",
  "max_ttl_seconds",
  "approval_via_elicitation",
  "policy_tests",
];

/**
 * Reads CA, hosts, policy and audit log of a local installation, which its services will keep.
 *
 * @param locks receives the locks of the audit log, so that no broker writes to it
 */
export async function keepLocal(layout: Layout, config: BrokerConfig, locks: DisposableStack) {
  const { mcpConfig, sshCa, sshCaPublic, policyTests, audit: { mcp } } = layout;
  const ours = parseConfig({
    ...CONFIG_KINDS.broker,
    text: formatLocalConfig(layout, []),
    source: mcpConfig,
  });
  const changed = (Object.keys({ ...ours, ...config }) as (keyof BrokerConfig)[]).find((key) =>
    !KEPT_KEYS.includes(key) && JSON.stringify(config[key]) !== JSON.stringify(ours[key])
  );
  if (changed !== undefined) {
    const why = `the services do not keep your ${quoteText(changed)}`;
    throw badConfig(
      `Cannot convert ${quoteText(mcpConfig)}: ${why}; remove it, and set it in their configs later`,
    );
  }
  const entries = Object.entries(localPolicy(config).hosts);
  const hosts = entries.map(([name, { groups = [], ...host }]) => {
    return [name, {
      ...host,
      groups: groups.length > 0 ? groups : ["local"],
      unsealed_sessions: false,
    }] as const;
  });
  const { command_policies, group_command_policies, max_ttl_seconds, policy_tests } = config;
  const policy = {
    hosts: Object.fromEntries(hosts),
    command_policies,
    group_command_policies,
    max_ttl_seconds,
    ...policy_tests !== "" && { policy_tests },
  };
  const groups = [...new Set(["local", ...hosts.flatMap(([, { groups }]) => groups)])];
  const tests = await ifThere(readRegularFile(policyTests));
  const kept: Kept = {
    files: [
      ...await readLogs(dirname(mcp.log), locks),
      ...tests === undefined ? [] : [{ path: basename(policyTests), mode: 0o640, content: tests }],
    ],
    withPolicy: (text) =>
      Object.entries(policy).reduce(
        (text, [key, value]) => setValue(text, [key], value),
        setValue(text, ["callers", "broker-local", "allowed_groups"], groups),
      ),
  };
  const keys = {
    sshCa: await readRegularText(sshCa),
    sshCaPublic: (await readRegularText(sshCaPublic)).trim(),
  };
  const seed = await readRegularFile(mcp.key);
  return {
    kept,
    hosts: entries.map(([name, { addr, user, host_key: hostKey }]) => ({ name, addr, user, hostKey })),
    keepKeys: (fresh: KeyMaterial) => ({ ...fresh, ...keys, seeds: { ...fresh.seeds, mcp: seed } }),
  };
}

async function readLogs(folder: string, locks: DisposableStack): Promise<Kept["files"]> {
  const names = await Array.fromAsync(Deno.readDir(folder), ({ name }) => name);
  const logs = names.filter((name) => !name.endsWith(".lock"));
  for (const name of names.filter((name) => !logs.includes(name))) {
    const lock = await tryLockFile(join(folder, name));
    if (lock === undefined) throw conflict("Cannot convert: the local broker runs; close its MCP clients");
    locks.use(lock);
  }
  return await Promise.all(logs.map(async (name) => {
    return { path: `log/mcp/${name}`, mode: 0o600, content: await readRegularFile(join(folder, name)) };
  }));
}
