import ipaddr from "ipaddr.js";
import { AppError } from "@gateway/shared/errors";
import { parseListenAddress } from "@gateway/shared/http";
import { isNetwork, NETWORK_FORMS } from "@gateway/shared/permissions";
import { formatPublicKey, parsePublicKey } from "@gateway/shared/ssh";
import { formatAddress, isPlainName, reachable } from "../kit/addresses.ts";
import { invalid } from "../kit/output.ts";

export interface InitHost {
  readonly name: string;
  readonly addr: string;
  readonly user: string;
  readonly hostKey: string;
}

export const DEFAULT_LISTENERS = {
  signer: "127.0.0.1:9443",
  controlPlane: "127.0.0.1:7443",
  broker: "127.0.0.1:8443",
  signerMonitor: "127.0.0.1:9160",
  controlPlaneMonitor: "127.0.0.1:9170",
  brokerMonitor: "127.0.0.1:9180",
};

export type InitListeners = Readonly<typeof DEFAULT_LISTENERS>;

/** The SSH port of private addresses (RFC 1918, RFC 6598) and of this machine. */
export const DEFAULT_NETWORKS: readonly string[] = [
  "10.0.0.0/8:22",
  "172.16.0.0/12:22",
  "192.168.0.0/16:22",
  "100.64.0.0/10:22",
  "127.0.0.0/8:22",
];

const USER = /^[A-Za-z_][A-Za-z0-9._-]{0,31}$/;
const ADDRESS = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9.-]*)(?::\d{1,5})?$/;
const DNS_NAME =
  /^(?=.{1,253}$)(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$/;
const LOOPBACK = /^(?:127(?:\.\d{1,3}){3}|::1|localhost)$/;

/** Like every parser of this file, throws an `invalid_request` for an unusable option. */
export function parseNetworks(texts: readonly string[]): readonly string[] {
  const wrong = texts.find((text) => !isNetwork(text));
  if (wrong === undefined) return texts;
  throw invalid(`Cannot use network ${JSON.stringify(wrong)}: expected ${NETWORK_FORMS}`);
}

/** Reads `name=addr,user=account,key=ssh-ed25519 AAAA…`; the key is last, because its comment may hold any text. */
export function parseHost(text: string): InitHost {
  const match = /^(?<name>[^=]*)=(?<addr>[^,]*),\s*user=(?<user>[^,]*),\s*key=(?<key>.*)$/s.exec(text);
  const { name = "", addr = "", user = "", key = "" } = match?.groups ?? {};
  const refuse = (reason: string) => {
    const form = "name=addr,user=account,key=<public key of the host>";
    return invalid(`Cannot use host ${JSON.stringify(text)}: ${reason}; expected ${form}`);
  };
  if (match === null) throw refuse("it does not have that form");
  if (!isPlainName(name)) throw refuse("the name may hold letters, digits, dots, dashes and underscores");
  if (!USER.test(user)) throw refuse("the user is not an account name");
  if (!ADDRESS.test(addr)) throw refuse("the address is not a host:port");
  try {
    const { algorithm, blob } = parsePublicKey(key.trim());
    const hostKey = formatPublicKey(algorithm, blob).trim();
    return { name, user, addr: /:\d+$/.test(addr) ? addr : `${addr}:22`, hostKey };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    throw refuse("the key is not a public key (on the host: cat /etc/ssh/ssh_host_ed25519_key.pub)");
  }
}

export function parseHosts(texts: readonly string[]): readonly InitHost[] {
  const hosts = texts.map(parseHost);
  for (const [index, { name }] of hosts.entries()) {
    if (hosts.findIndex((host) => host.name === name) === index) continue;
    throw invalid(`Cannot use two hosts of the name ${JSON.stringify(name)}`);
  }
  return hosts;
}

/**
 * Reads an address of a listener, with a fixed port.
 *
 * @param names the names of the installation; without names, only loopback is accepted: no certificate could name the
 *   listener
 */
export function parseListener(text: string, names: readonly string[] = []): string {
  const { hostname, port } = readAddress(text);
  if (port !== 0 && (names.length > 0 || LOOPBACK.test(hostname))) return formatAddress(hostname, port);
  const why = port === 0
    ? "name a port"
    : "without --name a set-up is for this machine alone, use 127.0.0.1:<port>";
  throw invalid(`Cannot listen on ${JSON.stringify(text)}: ${why}`);
}

function readAddress(text: string) {
  try {
    return parseListenAddress(text);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    throw new AppError("invalid_request", error.message, { cause: error });
  }
}

/** Reads DNS names and IP addresses, without wildcards. */
export function parseNames(texts: readonly string[]): readonly string[] {
  const isAddress = (text: string) => ipaddr.IPv4.isValidFourPartDecimal(text) || ipaddr.IPv6.isValid(text);
  const wrong = texts.find((text) => !(DNS_NAME.test(text) && !/^[\d.]+$/.test(text) || isAddress(text)));
  if (wrong === undefined) return [...new Set(texts.map((text) => text.toLowerCase()))];
  throw invalid(`Cannot use name ${JSON.stringify(wrong)}: expected a DNS name or an IP address`);
}

/** The address of a listener for people: by the first of its names, or on this machine. */
export function publicAddress(listen: string, names: readonly string[]): string {
  const { hostname, port } = parseListenAddress(listen);
  const [name] = names;
  return name === undefined || LOOPBACK.test(hostname) ? reachable(listen) : formatAddress(name, port);
}
