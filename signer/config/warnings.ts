import { envelopePublicKeyText, envelopeSignersLine } from "@gateway/shared/envelope";
import { finish, type Steps } from "@gateway/shared/clock";
import {
  describeSharedPrincipals,
  describeUnconnectable,
  describeUnsealedTwins,
  findInertPolicies,
  findListGaps,
  findUnprovedShells,
  requiredApprovals,
} from "@gateway/shared/policy";
import type { ServiceLogger } from "@gateway/shared/service";
import { formatKeyPath, quoteText } from "@gateway/shared/text";
import { isHostIdentity } from "@gateway/shared/wire";
import { countApprovers } from "./config.ts";
import type { Snapshot } from "./snapshot.ts";

/** Logs the public envelope key, which the shims of sealed hosts must trust. */
export function logEnvelopeKey(
  { envelopeKey, policy }: Snapshot,
  logger: Pick<ServiceLogger, "info">,
): void {
  if (envelopeKey === undefined || ![...policy.hosts.values()].some(({ seal }) => seal !== undefined)) return;
  logger.info("envelope public key", {
    envelope_public_key: envelopePublicKeyText(envelopeKey),
    envelope_signers: envelopeSignersLine(envelopeKey),
  });
}

export function snapshotWarnings(snapshot: Snapshot): readonly string[] {
  return finish(findWarnings(snapshot));
}

/**
 * Finds warnings about the config, in steps, because some warnings read every host while the signer answers
 * requests.
 */
export function* findWarnings(snapshot: Snapshot): Steps<readonly string[]> {
  const { config, caKeys, policy } = snapshot;
  const warnings: string[] = [];
  const warnIf = (condition: boolean, warning: string) => void (condition && warnings.push(warning));
  warnIf(
    [caKeys.fallback, ...caKeys.byGroup.values()].some(({ backend }) => backend === "pem"),
    "a CA key is a file on this machine: use it for labs only",
  );
  warnIf(
    [...policy.callers.values()].some((caller) => caller.require_verified_end_user === true) &&
      snapshot.endUsers === undefined,
    "a caller has require_verified_end_user, but end_user_oidc is not set: this caller gets no certificate",
  );
  for (const [cn, { only_via = [] }] of Object.entries(config.callers)) {
    warnIf(
      only_via.length > 0 && !only_via.some((forwarder) => snapshot.trustedForwarders.has(forwarder)),
      `callers.${cn}.only_via names no trusted forwarder: this caller gets no certificate`,
    );
  }
  for (const [cn, hosts] of Object.entries(config.krl_callers)) {
    for (const host of hosts) {
      warnIf(!Object.hasOwn(config.hosts, host), `krl_callers.${cn} names ${host}, which is not in hosts`);
    }
  }
  const isVolatile = config.state_db === "";
  warnIf(isVolatile, "state_db is not set: a restart loses grants and freezes");
  warnIf(
    isVolatile && config.approvals !== undefined,
    "approvals without state_db: after a restart, a signed decision can be used again until it expires",
  );
  for (const { name, leaseNamespace } of policy.clusters.values()) {
    warnIf(
      leaseNamespace !== "" && isVolatile,
      `kubernetes.clusters.${name}.token_binding without state_db: a killed process leaves its Secrets in ${leaseNamespace}`,
    );
  }
  for (const [name, cluster] of Object.entries(config.kubernetes?.clusters ?? {})) {
    const compiled = policy.clusters.get(name);
    for (const { index, list } of compiled === undefined ? [] : findListGaps(cluster, compiled)) {
      warnings.push(
        `kubernetes.clusters.${name}.rules[${index}] denies objects that "${list}" shows, and no rule denies this list: ` +
          'add "-" to namespaces and names of the rule to deny such lists',
      );
    }
  }
  warnIf(
    config.sign_rate_limit_per_min === 0,
    "sign_rate_limit_per_min is not set: callers have no rate limit",
  );
  warnIf(
    Object.keys(config.callers).length === 0,
    "callers is empty: every certificate of client_ca may use every host",
  );
  for (const name of Object.keys(config.krl_callers)) {
    const problem = `does not end with ".krl": a broker (serve-http) accepts its holder as an agent`;
    warnIf(!isHostIdentity(name), `krl_callers: ${quoteText(name)} ${problem}`);
  }
  const silent = Object.entries(config.hosts)
    .filter(([, { sealed_exec, envelope }]) => sealed_exec === true && envelope === undefined)
    .map(([name]) => name);
  warnIf(
    silent.length > 0,
    `sealed_exec without envelope signs envelopes v2 (hosts ${
      silent.join(", ")
    }): if the shim there is of another ` +
      'build, set "envelope": "v1" and its "envelope_domain"; otherwise name the version that the shim reads, such as "v2"',
  );
  warnings.push(...describeInertApprovals(snapshot));
  for (const path of yield* findInertPolicies(config)) {
    warnings.push(`${path}: mode is "off", so its allow and deny patterns have no effect`);
  }
  warnings.push(...yield* describeSharedPrincipals(config.hosts));
  warnings.push(...yield* describeUnsealedTwins(config.hosts));
  warnings.push(...describeUnconnectable(config.hosts));
  warnings.push(...yield* findUnprovedShells(config.hosts, policy.hosts));
  return warnings;
}

/** Numbers of signatures that never apply, although an operator relies on them, or that nobody can give. */
function describeInertApprovals({ config, policy }: Snapshot): readonly string[] {
  const { approvals } = config;
  const inGroup = Object.keys(approvals?.required_by_group ?? {});
  const targets = inGroup.length === 0 ? [] : [...policy.hosts.values(), ...policy.clusters.values()];
  const groups = new Set(targets.flatMap((target) => target.groups));
  const asksNobody = (name: string) => {
    const { members = [], enforcement } = (policy.hosts.get(name) ?? policy.clusters.get(name))?.commands ??
      {};
    return enforcement !== "enforce" || members.every(({ requireApproval }) => requireApproval.length === 0);
  };
  return [
    ...inGroup.filter((group) => !groups.has(group)).map((group) =>
      `${
        formatKeyPath(["approvals", "required_by_group", group])
      }: no host or cluster is in this group, so nobody has to sign`
    ),
    ...Object.entries(config.hosts)
      .filter(([name, { approvals_required = 0 }]) => approvals_required > 0 && asksNobody(name))
      .map(([name]) =>
        `${
          formatKeyPath(["hosts", name, "approvals_required"])
        }: no rule of this host requires an approval, so nobody has to sign`
      ),
    ...(approvals === undefined ? [] : [...policy.hosts, ...policy.clusters]).flatMap(([name, target]) => {
      const [needed, able] = [requiredApprovals(approvals, target), countApprovers(approvals, target.groups)];
      if (needed <= able || asksNobody(name)) return [];
      return [
        `${name}: nobody can approve its requests, because ${needed} must sign and ${able} may approve`,
      ];
    }),
  ];
}
