import { createHmac, timingSafeEqual } from "node:crypto";
import { formatPublicKey, parsePublicKey } from "@gateway/shared/ssh";

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
