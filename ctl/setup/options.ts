import ipaddr from "ipaddr.js";
import { AppError } from "@gateway/shared/errors";
import { parseListenAddress } from "@gateway/shared/http";
import { isNetwork, NETWORK_FORMS } from "@gateway/shared/permissions";
import { formatPublicKey, parsePublicKey } from "@gateway/shared/ssh";
import { formatAddress, isPlainName, reachable } from "../kit/addresses.ts";

/** A host that the signer is to know from the start. */
export interface InitHost {
  /** Logical name; safe in a shell, a file name and a principal. */
  readonly name: string;
  readonly addr: string;
  /** The account on the host; safe in a shell and a file name. */
  readonly user: string;
  /** The host's public key, one line without comment. */
  readonly hostKey: string;
}

export interface InitListeners {
  readonly signer: string;
  readonly controlPlane: string;
  readonly broker: string;
  readonly signerMonitor: string;
  readonly controlPlaneMonitor: string;
  readonly brokerMonitor: string;
}

export const DEFAULT_LISTENERS: InitListeners = {
  signer: "127.0.0.1:9443",
  controlPlane: "127.0.0.1:7443",
  broker: "127.0.0.1:8443",
  signerMonitor: "127.0.0.1:9160",
  controlPlaneMonitor: "127.0.0.1:9170",
  brokerMonitor: "127.0.0.1:9180",
};

/**
 * Where hosts may be added later, unless the operator says otherwise: the SSH port of private addresses (RFC 1918,
 * RFC 6598) and of this machine.
 */
export const DEFAULT_NETWORKS: readonly string[] = [
  "10.0.0.0/8:22",
  "172.16.0.0/12:22",
  "192.168.0.0/16:22",
  "100.64.0.0/10:22",
  "127.0.0.0/8:22",
];

/** @throws {AppError} `invalid_request` for a text that is no network with a port */
export function parseNetworks(texts: readonly string[]): readonly string[] {
  for (const text of texts) {
    if (isNetwork(text)) continue;
    throw new AppError(
      "invalid_request",
      `Cannot use network ${JSON.stringify(text)}: expected ${NETWORK_FORMS}`,
    );
  }
  return texts;
}

const USER = /^[A-Za-z_][A-Za-z0-9._-]{0,31}$/;
const ADDRESS = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9.-]*)(?::\d{1,5})?$/;
const DNS_NAME =
  /^(?=.{1,253}$)(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$/;
const LOOPBACK = /^(?:127(?:\.\d{1,3}){3}|::1|localhost)$/;

/**
 * Reads `name=addr,user=account,key=ssh-ed25519 AAAA…`; the key comes last, because its comment may hold anything.
 *
 * @throws {AppError} `invalid_request` when a part is missing or can't be used
 */
export function parseHost(text: string): InitHost {
  const match = /^(?<name>[^=]*)=(?<addr>[^,]*),\s*user=(?<user>[^,]*),\s*key=(?<key>.*)$/s.exec(text);
  const { name = "", addr = "", user = "", key = "" } = match?.groups ?? {};
  const refuse = (reason: string) =>
    new AppError(
      "invalid_request",
      `Cannot use host ${
        JSON.stringify(text)
      }: ${reason}; expected name=addr,user=account,key=<public key of the host>`,
    );
  if (match === null) throw refuse("it does not have that form");
  if (!isPlainName(name)) throw refuse("the name may hold letters, digits, dots, dashes and underscores");
  if (!USER.test(user)) throw refuse("the user is not an account name");
  if (!ADDRESS.test(addr)) throw refuse("the address is not a host:port");
  return { name, user, addr: /:\d+$/.test(addr) ? addr : `${addr}:22`, hostKey: readHostKey(key, refuse) };
}

function readHostKey(text: string, refuse: (reason: string) => AppError): string {
  try {
    const { algorithm, blob } = parsePublicKey(text.trim());
    return formatPublicKey(algorithm, blob).trim();
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    throw refuse("the key is not a public key (on the host: cat /etc/ssh/ssh_host_ed25519_key.pub)");
  }
}

/**
 * Checks the hosts as a whole.
 *
 * @throws {AppError} `invalid_request` when a name is there twice
 */
export function parseHosts(texts: readonly string[]): readonly InitHost[] {
  const hosts = texts.map(parseHost);
  for (const [index, { name }] of hosts.entries()) {
    if (hosts.findIndex((host) => host.name === name) !== index) {
      throw new AppError("invalid_request", `Cannot use two hosts of the name ${JSON.stringify(name)}`);
    }
  }
  return hosts;
}

/**
 * An address as it goes into the configs, with a fixed port.
 *
 * @param names what the set-up is reached by; when there is none, it is for this machine alone
 * @throws {AppError} `invalid_request` when it is not on the loopback interface and nobody could know whom he
 * reached there, or its port is 0
 */
export function parseListener(text: string, names: readonly string[] = []): string {
  const { hostname, port } = readAddress(text);
  if (port === 0 || (names.length === 0 && !LOOPBACK.test(hostname))) {
    const why = port === 0
      ? "name a port"
      : "without --name a set-up is for this machine alone, use 127.0.0.1:<port>";
    throw new AppError("invalid_request", `Cannot listen on ${JSON.stringify(text)}: ${why}`);
  }
  return formatAddress(hostname, port);
}

/**
 * Names that a set-up is reached by: DNS names and IP addresses.
 *
 * @throws {AppError} `invalid_request` for what is neither, or has a wildcard
 */
export function parseNames(texts: readonly string[]): readonly string[] {
  for (const text of texts) {
    if (DNS_NAME.test(text) && !/^[\d.]+$/.test(text) || isAddress(text)) continue;
    throw new AppError(
      "invalid_request",
      `Cannot use name ${JSON.stringify(text)}: expected a DNS name or an IP address`,
    );
  }
  return [...new Set(texts.map((text) => text.toLowerCase()))];
}

/** A listener's address as people reach it: by the first of its names, or on this machine. */
export function publicAddress(listen: string, names: readonly string[]): string {
  const { hostname, port } = parseListenAddress(listen);
  const [name] = names;
  return name === undefined || LOOPBACK.test(hostname) ? reachable(listen) : formatAddress(name, port);
}

function isAddress(text: string): boolean {
  return ipaddr.IPv4.isValidFourPartDecimal(text) || ipaddr.IPv6.isValid(text);
}

function readAddress(text: string) {
  try {
    return parseListenAddress(text);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    throw new AppError("invalid_request", error.message, { cause: error });
  }
}
