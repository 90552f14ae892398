/**
 * Where the tools may connect to. A model that has read hostile text may ask for any URL; what is not on the public
 * Internet is refused unless the operator has listed it.
 *
 * @module
 */
import { AppError } from "@gateway/shared/errors";
import {
  type AddressKind,
  classify,
  isInside,
  isSingle,
  type Network,
  parseAddress,
  parseNetwork,
} from "./ip_address.ts";

/** What the operator allows beyond public addresses. */
export interface AllowList {
  /** Names in lower case, without a dot at the end. */
  readonly hosts: ReadonlySet<string>;
  readonly networks: readonly Network[];
}

type Verdict =
  | { readonly kind: "allowed" }
  | { readonly kind: "refused"; readonly address: string; readonly addressKind: AddressKind | "no" };

/** What a listed host name may resolve to, since whoever runs its DNS could name any address. */
const BEHIND_NAMES: readonly AddressKind[] = ["public", "loopback", "private", "carrier"];

/**
 * Reads the entries of `HTTP_ALLOWED_HOSTS`: a host name, an address, or a network as `address/prefix`.
 *
 * @throws {AppError} `invalid_config` that names each invalid entry
 */
export function compileAllowList(entries: readonly string[]): AllowList {
  const hosts = new Set<string>();
  const networks: Network[] = [];
  const problems: string[] = [];
  for (const entry of entries) {
    const network = parseNetwork(entry.replace(/^\[(.*)\]$/, "$1"));
    const host = normalizeHost(entry);
    if (network !== undefined) networks.push(network);
    else if (/^(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?$/.test(host) && !/^[\d.]+$/.test(host)) {
      hosts.add(host);
    } else problems.push(`HTTP_ALLOWED_HOSTS: "${entry}" is not a host name, an address or a network`);
  }
  if (problems.length > 0) throw new AppError("invalid_config", problems.join("\n"));
  return { hosts, networks };
}

/**
 * Decides about all the addresses of a host at once: the host is refused if one of them is.
 *
 * @param host as in the URL
 * @param addresses what it resolved to; the connection goes to one of these
 */
export function vet(host: string, addresses: readonly string[], list: AllowList): Verdict {
  if (addresses.length === 0) return { kind: "refused", address: "none", addressKind: "no" };
  const isListed = list.hosts.has(normalizeHost(host));
  for (const text of addresses) {
    const address = parseAddress(text);
    if (address === undefined) return { kind: "refused", address: text, addressKind: "no" };
    const kind = classify(address);
    const inNetwork = list.networks.some((network) =>
      isInside(address, network) && (kind !== "metadata" || isSingle(network))
    );
    const isAllowed = kind === "public" || inNetwork || (isListed && BEHIND_NAMES.includes(kind));
    if (!isAllowed) return { kind: "refused", address: text, addressKind: kind };
  }
  return { kind: "allowed" };
}

function normalizeHost(host: string): string {
  return host.toLowerCase().replace(/\.$/, "");
}
