import { AppError } from "@gateway/shared/errors";
import { formatPublicKey, parsePublicKey } from "@gateway/shared/ssh";
import { quoteText } from "@gateway/shared/text";
import { readOperatorText } from "../kit/files.ts";
import { badConfig } from "../kit/output.ts";
import { runToEnd } from "../kit/programs.ts";
import { type GivenHost, parseHost } from "./layout.ts";

export interface ImportedHosts {
  readonly hosts: readonly GivenHost[];
  readonly notes: readonly string[];
}

/**
 * Imports the hosts of an ssh config. ssh itself resolves each alias, and keys come from known_hosts. A host without a
 * known key is skipped, because an attacker in the network could supply a key.
 *
 * @param path absolute
 */
export async function importSshConfig(path: string): Promise<ImportedHosts> {
  const text = await readOperatorText(path, "ssh config");
  const [hosts, notes]: [GivenHost[], string[]] = [[], []];
  for (const alias of listAliases(text)) {
    // A name that is safe in names, principals and files.
    const name = alias.toLowerCase().replaceAll(/[^a-z0-9._-]/g, "-");
    const host = hosts.some((host) => host.name === name)
      ? `host ${quoteText(name)} exists already`
      : await importHost(path, alias, name);
    if (typeof host === "string") notes.push(`${alias} in ${path} was skipped: ${host}`);
    else hosts.push(host);
  }
  return { hosts, notes };
}

/** @returns the host, or the reason why it is skipped */
async function importHost(path: string, alias: string, name: string): Promise<GivenHost | string> {
  const { success, stdout, stderr } = await runToEnd("ssh", ["-G", "-F", path, "--", alias]);
  if (!success) throw badConfig(`Cannot read ssh config ${quoteText(path)}: ${stderr.trim()}`);
  const { hostname, user, port, hostKeyAlias, through, knownHostsFiles } = parseSshFacts(stdout);
  if (through !== undefined) {
    return `it is behind ${quoteText(through)}; add it with broker-ctl host add --jump`;
  }
  const lookedUp = hostKeyAlias ?? (port === "22" ? hostname : `[${hostname}]:${port}`);
  const key = await findHostKey(knownHostsFiles, lookedUp);
  if (key === undefined) {
    return "its key is not in known_hosts; log in to it once, or use broker-ctl host add --scan";
  }
  try {
    const host = hostname.includes(":") ? `[${hostname}]` : hostname;
    return parseHost(`${name}=${host}:${port},user=${user},key=${key}`);
  } catch (error) {
    if (error instanceof AppError) return error.message;
    throw error;
  }
}

function parseSshFacts(text: string) {
  const facts: Readonly<Record<string, string>> = Object.fromEntries(
    text.split("\n").map((line) => {
      const space = line.indexOf(" ");
      return [line.slice(0, space), line.slice(space + 1)];
    }),
  );
  const given = (name: string) => facts[name] === "none" ? undefined : facts[name];
  const files = `${facts["userknownhostsfile"] ?? ""} ${facts["globalknownhostsfile"] ?? ""}`;
  return {
    hostname: facts["hostname"] ?? "",
    user: facts["user"] ?? "",
    port: facts["port"] ?? "22",
    /** The name of the key, if it is not the hostname. */
    hostKeyAlias: given("hostkeyalias"),
    /** The alias of a bastion, or a command. */
    through: given("proxyjump") ?? given("proxycommand"),
    knownHostsFiles: files.split(" ").filter((path) => path.startsWith("/") && path !== "/dev/null"),
  };
}

const ALGORITHMS = [
  ...["ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa"],
];

/**
 * Finds the key of a host in files of `known_hosts` (sshd(8)), as an authorized_keys line without comment. ssh-keygen
 * matches patterns and hashed names. Keys that any file revokes and keys of authorities are ignored.
 *
 * @param name `host`, or `[host]:port` for another port than 22
 */
export async function findHostKey(files: readonly string[], name: string): Promise<string | undefined> {
  const found = await Promise.all(files.map((file) => runToEnd("ssh-keygen", ["-F", name, "-f", file])));
  const lines = found.flatMap(({ stdout }) => stdout.split("\n")).flatMap(readLine);
  const revoked = new Set(lines.filter(({ marker }) => marker === "@revoked").map(({ key }) => key));
  const keys = lines.filter(({ marker, key }) => marker === "" && !revoked.has(key));
  return keys.toSorted((a, b) => ALGORITHMS.indexOf(a.algorithm) - ALGORITHMS.indexOf(b.algorithm))[0]?.key;
}

function readLine(line: string) {
  const words = line.split(/[ \t]+/);
  const marker = words[0]?.startsWith("@") === true ? words.shift() ?? "" : "";
  const [, algorithm = "", blob = ""] = words;
  if (!ALGORITHMS.includes(algorithm)) return [];
  try {
    const parsed = parsePublicKey(`${algorithm} ${blob}`);
    return [{ marker, algorithm, key: formatPublicKey(parsed.algorithm, parsed.blob).trim() }];
  } catch {
    return [];
  }
}

/** The aliases in a text of ssh_config(5), in order, without patterns and names that look like options. */
export function listAliases(text: string): readonly string[] {
  const names = text.split("\n").flatMap((line) => {
    const [, words = ""] = /^host(?:\s*=|\s)([^]*)$/i.exec(line.trim()) ?? [];
    return words.trim().split(/\s+/).map((word) => word.replace(/^"(.*)"$/, "$1"));
  });
  return [...new Set(names.filter((name) => /^[A-Za-z0-9_][A-Za-z0-9._:-]*$/.test(name)))];
}
