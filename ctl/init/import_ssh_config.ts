import { AppError } from "@gateway/shared/errors";
import { ifThere, readRegularFile } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { readOperatorFile } from "../read_file.ts";
import { runToEnd } from "../run_program.ts";
import { findHostKey } from "./known_hosts.ts";
import { type InitHost, parseHost } from "./options.ts";
import { listAliases, nameOfAlias, parseSshFacts, type SshTargetFacts } from "./ssh_config.ts";

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
