import { parseListenAddress } from "@gateway/shared/http";

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;

/** A plain name is safe in a shell, a file name and a principal. */
export function isPlainName(text: string): boolean {
  return NAME.test(text);
}

/** A listener's address for processes of the same machine. */
export function reachable(listen: string): string {
  const { hostname, port } = parseListenAddress(listen);
  const wildcards: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };
  return formatAddress(wildcards[hostname] ?? hostname, port);
}

export function formatAddress(hostname: string, port: number): string {
  return hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;
}
