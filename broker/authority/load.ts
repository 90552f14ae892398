import { X509Certificate } from "node:crypto";
import { signerUrls } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import { callerFromCertificate, keepFresh, loadSignerTls, openUpstreams } from "@gateway/shared/http";
import type { BrokerConfig, BrokerHost } from "../config/config.ts";
import { ApprovalWaits, MAX_WAITING } from "./approval_wait.ts";
import type { AuthorityPorts, OpenWith } from "./authority.ts";
import { RemoteAuthority } from "./remote.ts";

/**
 * Loads the credentials for the signer, or in local mode the CA keys and the policy. It sends no request yet.
 * @throws {AppError} `invalid_config`
 */
export async function loadAuthority(config: BrokerConfig, ports: AuthorityPorts): Promise<OpenWith> {
  const { signer } = config;
  if (signer === undefined) {
    // The libraries of the policy are loaded only in local mode.
    const { loadLocal } = await import("./local.ts");
    return await loadLocal(config, ports);
  }
  const { clock, random, logger } = ports;
  const ignored = describeIgnoredKeys(config);
  if (ignored !== undefined) logger.warn(ignored);
  const tls = await loadSignerTls(signer);
  const caller = ownName(tls.cert);
  return () => {
    const upstreams = openUpstreams({ what: "the signer", urls: signerUrls(signer), ...tls, clock, random });
    // A list of 10,000 hosts is about 2 MB.
    const client = upstreams.client({ maxResponseBytes: 8 << 20 });
    // Requests that wait for a human must not hold the connections of the other requests.
    const waitingClient = upstreams.client({ maxConnections: MAX_WAITING });
    const waits = new ApprovalWaits({ client: waitingClient, clock, seconds: signer.approval_wait_seconds });
    const stop = new AbortController();
    void keepFresh(
      { clock, signal: stop.signal, logger, what: "the certificates for the signer", current: tls },
      {
        load: () => loadSignerTls(signer),
        take(fresh) {
          const name = ownName(fresh.cert);
          if (name !== caller) {
            // A freeze of this broker uses its name at the signer, so the broker must know that name.
            const text = `they belong to "${name}", not to "${caller}"; restart to use them`;
            throw new AppError("invalid_config", text);
          }
          upstreams.renew(fresh);
        },
      },
    );
    return {
      authority: new RemoteAuthority(client, waits),
      signer: { client, caller },
      upstream: upstreams.client({ maxConnections: 1 }),
      close() {
        stop.abort();
        upstreams.close();
      },
    };
  };
}

/**
 * The name of this broker at the signer: the CN of its certificate.
 * @throws {AppError} `invalid_config` if the certificate does not have exactly one CN
 */
export function ownName(certificatePem: string): string {
  const { subject } = new X509Certificate(certificatePem).toLegacyObject();
  const name = callerFromCertificate(true, subject?.CN);
  if (name !== undefined) return name;
  throw new AppError("invalid_config", "Cannot use signer.client_cert: its subject needs exactly one CN");
}

/** The keys of a host that have an effect in local mode only. */
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
  "policy_tests",
  "source_address",
] as const satisfies readonly (keyof BrokerConfig)[];

/** One line with the keys that have no effect in remote mode. `undefined`: there are none. */
export function describeIgnoredKeys(config: BrokerConfig): string | undefined {
  if (config.signer === undefined) return undefined;
  const keys = TOP_LEVEL.filter((key) => isSet(config[key])).join(", ");
  const hosts = Object.entries(config.hosts).sort().flatMap(([name, host]) => {
    const fields = POLICY_FIELDS.filter((field) => isSet(host[field]));
    return fields.length === 0 ? [] : [`${name}: ${fields.join(", ")}`];
  });
  const fields = hosts.length > 0 ? `policy fields on ${hosts.length} host(s) (${hosts.join("; ")})` : "";
  const parts = [keys, fields].filter((part) => part !== "");
  if (parts.length === 0) return undefined;
  return `warning: remote mode (signer block set): ignoring local-mode config — ${parts.join("; ")}. ` +
    "Host inventory and policy come from the signer.";
}

/** Whether a value has an effect. An empty value has none. */
function isSet(value: unknown): boolean {
  if (value === undefined || value === "" || value === false) return false;
  return typeof value !== "object" || value === null || Object.keys(value).length > 0;
}
