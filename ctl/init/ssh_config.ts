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
export interface SshTargetFacts {
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
export function parseSshFacts(text: string): SshTargetFacts {
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
export function nameOfAlias(alias: string): string {
  return alias.toLowerCase().replaceAll(/[^a-z0-9._-]/g, "-");
}
