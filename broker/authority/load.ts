import { X509Certificate } from "node:crypto";
import { AppError } from "@gateway/shared/errors";
import { callerFromCertificate, keepFresh, loadSignerTls, openUpstreams } from "@gateway/shared/http";
import { signerUrls } from "@gateway/shared/config";
import type { BrokerConfig, BrokerSignerConfig } from "../config/config.ts";
import { ApprovalWaits, MAX_WAITING } from "./approval_wait.ts";
import type { AuthorityPorts, OpenWith } from "./authority.ts";
import { RemoteAuthority } from "./remote.ts";
import type { BrokerHost } from "../config/host_config.ts";

/**
 * Loads what the config names: the credentials for the signer, or in local mode the CA keys and the policy.
 * Nobody is talked to yet.
 *
 * @throws {AppError} `invalid_config`
 */
export async function loadAuthority(config: BrokerConfig, ports: AuthorityPorts): Promise<OpenWith> {
  if (config.signer !== undefined) {
    const ignored = describeIgnoredKeys(config);
    if (ignored !== undefined) ports.logger.warn(ignored);
    return await loadRemote(config.signer, ports);
  }
  // The policy's libraries are loaded only where the policy is.
  const { loadLocal } = await import("./local.ts");
  return await loadLocal(config, ports);
}

async function loadRemote(
  signer: BrokerSignerConfig,
  { clock, random, logger }: AuthorityPorts,
): Promise<OpenWith> {
  const tls = await loadSignerTls(signer);
  const caller = ownName(tls.cert);
  return () => {
    const upstreams = openUpstreams({ what: "the signer", urls: signerUrls(signer), ...tls, clock, random });
    // A list of 10,000 hosts is about 2 MB.
    const client = upstreams.client({ maxResponseBytes: 8 << 20 });
    // Those who wait for a human must not hold the connections of those who do not.
    const waitingClient = upstreams.client({ maxConnections: MAX_WAITING });
    const probe = upstreams.client({ maxConnections: 1 });
    const waits = new ApprovalWaits({ client: waitingClient, clock, seconds: signer.approval_wait_seconds });
    const stop = new AbortController();
    void keepFresh(
      { clock, signal: stop.signal, logger, what: "the certificates for the signer", current: tls },
      {
        load: () => loadSignerTls(signer),
        take(fresh) {
          const name = ownName(fresh.cert);
          if (name !== caller) {
            // The name is what freezes are looked for by.
            throw new AppError(
              "invalid_config",
              `they are of "${name}", not of "${caller}": restart for that`,
            );
          }
          upstreams.renew(fresh);
        },
      },
    );
    return {
      authority: new RemoteAuthority(client, waits),
      signer: { client, caller },
      upstream: probe,
      close() {
        stop.abort();
        upstreams.close();
      },
    };
  };
}

/**
 * Who this broker is to the signer: the CN of its certificate.
 *
 * @throws {AppError} `invalid_config` when there is no such name, or more than one
 */
export function ownName(certificatePem: string): string {
  const { subject } = new X509Certificate(certificatePem).toLegacyObject();
  const name = callerFromCertificate(true, subject?.CN);
  if (name !== undefined) return name;
  throw new AppError("invalid_config", "Cannot use signer.client_cert: its subject needs exactly one CN");
}

/** The keys of a host that only local mode looks at. */
const POLICY_FIELDS = [
  "principal",
  "source_address",
  "command_policy",
  "allow_sudo",
  "allowed_sudo_users",
  "allow_pty",
  "allow_file_transfer",
  "allow_as_bastion",
  "stop_on_disconnect",
] as const satisfies readonly (keyof BrokerHost)[];

const TOP_LEVEL = [
  "ca_key",
  "ca_keys",
  "command_policies",
  "group_command_policies",
  "hosts",
  "kubernetes",
  "source_address",
] as const satisfies readonly (keyof BrokerConfig)[];

/**
 * One line that names the keys of a config in remote mode that have no effect; `undefined` if there are none.
 */
export function describeIgnoredKeys(config: BrokerConfig): string | undefined {
  if (config.signer === undefined) return undefined;
  const keys = TOP_LEVEL.filter((key) => isSet(config[key]));
  const hosts = Object.keys(config.hosts).sort().flatMap((name) => {
    const fields = POLICY_FIELDS.filter((field) => isSet(config.hosts[name]?.[field]));
    return fields.length === 0 ? [] : [`${name}: ${fields.join(", ")}`];
  });
  const parts = [
    ...(keys.length > 0 ? [keys.join(", ")] : []),
    ...(hosts.length > 0 ? [`policy fields on ${hosts.length} host(s) (${hosts.join("; ")})`] : []),
  ];
  if (parts.length === 0) return undefined;
  return `warning: remote mode (signer block set): ignoring local-mode config — ${parts.join("; ")}. ` +
    "Host inventory and policy come from the signer.";
}

/** Whether a value says anything: an empty one means the same as none. */
function isSet(value: unknown): boolean {
  if (value === undefined || value === "" || value === false) return false;
  return typeof value !== "object" || value === null || Object.keys(value).length > 0;
}
