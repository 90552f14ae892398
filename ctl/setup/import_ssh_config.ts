import { AppError } from "@gateway/shared/errors";
import { ifThere, readRegularFile } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { readOperatorFile } from "../kit/files.ts";
import { runToEnd } from "../kit/run_program.ts";
import { type InitHost, parseHost } from "./options.ts";
import { createHmac, timingSafeEqual } from "node:crypto";
import { formatPublicKey, parsePublicKey } from "@gateway/shared/ssh";

export interface ImportedHosts {
  readonly hosts: readonly InitHost[];
  /** Why others were left out, a line each. */
  readonly notes: readonly string[];
}

/**
 * The hosts of a config of ssh: what ssh itself says of each alias, with the key that it knows the host by. A host whose
 * key ssh does not know is left out, for the network could show any.
 *
 * @param path absolute
 * @throws {AppError} when the config can't be read, or ssh not be asked
 */
export async function importSshConfig(path: string): Promise<ImportedHosts> {
  const text = new TextDecoder().decode(await readOperatorFile(path, "ssh config"));
  const [hosts, notes]: [InitHost[], string[]] = [[], []];
  for (const alias of listAliases(text)) {
    const leaveOut = (why: string) => void notes.push(`${alias} of ${path} is left out: ${why}`);
    const name = nameOfAlias(alias);
    if (hosts.some((host) => host.name === name)) {
      leaveOut(`there is a host ${quoteText(name)} already`);
      continue;
    }
    const facts = parseSshFacts(await askSsh(path, alias));
    if (facts.through !== undefined) {
      leaveOut(`it is reached through ${quoteText(facts.through)}: broker-ctl host add --jump`);
      continue;
    }
    const key = await findKey(facts);
    if (key === undefined) {
      leaveOut("its key is in no known_hosts: log in to it once, or broker-ctl host add --scan");
      continue;
    }
    try {
      const host = facts.hostname.includes(":") ? `[${facts.hostname}]` : facts.hostname;
      hosts.push(parseHost(`${name}=${host}:${facts.port},user=${facts.user},key=${key}`));
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      leaveOut(error.message);
    }
  }
  return { hosts, notes };
}

async function findKey({ hostname, port, hostKeyAlias, knownHostsFiles }: SshTargetFacts) {
  const texts: string[] = [];
  for (const file of knownHostsFiles) {
    const bytes = await ifThere(readRegularFile(file));
    if (bytes !== undefined) texts.push(new TextDecoder().decode(bytes));
  }
  return findHostKey(texts, hostKeyAlias ?? (port === "22" ? hostname : `[${hostname}]:${port}`));
}

async function askSsh(path: string, alias: string): Promise<string> {
  const { success, stdout, stderr } = await runToEnd("ssh", ["-G", "-F", path, "--", alias]);
  if (success) return stdout;
  throw new AppError("invalid_config", `Cannot read ssh config ${quoteText(path)}: ${stderr.trim()}`);
}

/** The preferred first: what every sshd has had for ten years. */
const ALGORITHMS = [
  "ssh-ed25519",
  "ecdsa-sha2-nistp256",
  "ecdsa-sha2-nistp384",
  "ecdsa-sha2-nistp521",
  "ssh-rsa",
];

/**
 * The key of a host in texts of the format of `known_hosts` (sshd(8)), as an authorized_keys line without comment.
 * Names may be hashed. A key that is revoked anywhere is none; keys of authorities are none of a host's.
 *
 * @param name as ssh looks it up: `host`, or `[host]:port` beside port 22
 */
export function findHostKey(texts: readonly string[], name: string): string | undefined {
  const lines = texts.flatMap((text) => text.split("\n")).flatMap(readLine);
  const named = lines.filter(({ names }) => matches(names, name));
  const revoked = new Set(named.filter(({ marker }) => marker === "@revoked").map(({ key }) => key));
  const keys = named.filter(({ marker, key }) => marker === "" && !revoked.has(key));
  return keys.toSorted((a, b) => ALGORITHMS.indexOf(a.algorithm) - ALGORITHMS.indexOf(b.algorithm))[0]?.key;
}

interface KnownLine {
  readonly marker: string;
  readonly names: string;
  readonly algorithm: string;
  readonly key: string;
}

function readLine(line: string): readonly KnownLine[] {
  const match = /^(?:(?<marker>@\S+)[ \t]+)?(?<names>[^\s#@]\S*)[ \t]+(?<algorithm>\S+)[ \t]+(?<blob>\S+)/
    .exec(line);
  const { marker = "", names = "", algorithm = "", blob = "" } = match?.groups ?? {};
  if (!ALGORITHMS.includes(algorithm)) return [];
  try {
    const parsed = parsePublicKey(`${algorithm} ${blob}`);
    return [{ marker, names, algorithm, key: formatPublicKey(parsed.algorithm, parsed.blob).trim() }];
  } catch {
    return [];
  }
}

/** Patterns with commas between, of which one with `!` takes a name out; or one hashed name. */
function matches(names: string, name: string): boolean {
  const [, salt, hash] = /^\|1\|([A-Za-z0-9+/=]+)\|([A-Za-z0-9+/=]+)$/.exec(names) ?? [];
  if (salt !== undefined && hash !== undefined) {
    const expected = createHmac("sha1", Uint8Array.fromBase64(salt)).update(name).digest();
    const found = Uint8Array.fromBase64(hash);
    return found.length === expected.length && timingSafeEqual(found, expected);
  }
  const patterns = names.split(",");
  const is = (pattern: string) => toRegExp(pattern).test(name);
  return !patterns.some((pattern) => pattern.startsWith("!") && is(pattern.slice(1))) &&
    patterns.some((pattern) => !pattern.startsWith("!") && is(pattern));
}

/** Of `known_hosts` only patterns without more than a few stars are looked at: time stays linear in the name. */
function toRegExp(pattern: string): RegExp {
  if ((pattern.match(/\*/g)?.length ?? 0) > 3) return /$^/;
  const text = pattern.replaceAll(/[\\^$.|+()[\]{}]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".");
  return new RegExp(`^${text}$`, "i");
}

/**
 * The concrete aliases of a text of ssh_config(5), in order: no patterns, and nothing that a program could take for an
 * option. What they mean is for ssh to say.
 */
export function listAliases(text: string): readonly string[] {
  const names = text.split("\n").flatMap((line) => {
    const [, words = ""] = /^host(?:\s*=|\s)([^]*)$/i.exec(line.trim()) ?? [];
    return words.trim().split(/\s+/).map((word) => word.replace(/^"(.*)"$/, "$1"));
  });
  return [...new Set(names.filter((name) => /^[A-Za-z0-9_][A-Za-z0-9._:-]*$/.test(name)))];
}

/** What ssh says that an alias means. */
interface SshTargetFacts {
  readonly hostname: string;
  readonly user: string;
  readonly port: string;
  /** Under which name the key is looked up; absent: that of the host. */
  readonly hostKeyAlias?: string;
  /** What the connection goes through: another host's alias, or a command. */
  readonly through?: string;
  readonly knownHostsFiles: readonly string[];
}

/** Reads what `ssh -G` prints: a keyword and its value on each line. */
function parseSshFacts(text: string): SshTargetFacts {
  const facts = new Map(
    text.split("\n").map((line) => {
      const space = line.indexOf(" ");
      return [line.slice(0, space), line.slice(space + 1)] as const;
    }),
  );
  const { hostkeyalias, proxyjump, proxycommand } = Object.fromEntries(facts);
  const through = [proxyjump, proxycommand].find((value) => value !== undefined && value !== "none");
  const files = `${facts.get("userknownhostsfile") ?? ""} ${facts.get("globalknownhostsfile") ?? ""}`;
  return {
    hostname: facts.get("hostname") ?? "",
    user: facts.get("user") ?? "",
    port: facts.get("port") ?? "22",
    ...(hostkeyalias !== undefined && hostkeyalias !== "none" && { hostKeyAlias: hostkeyalias }),
    ...(through !== undefined && { through }),
    knownHostsFiles: files.split(" ").filter((path) => path.startsWith("/") && path !== "/dev/null"),
  };
}

/** The logical name of an alias: what names, principals and files may hold. */
function nameOfAlias(alias: string): string {
  return alias.toLowerCase().replaceAll(/[^a-z0-9._-]/g, "-");
}
