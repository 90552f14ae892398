import type { AuditEntry } from "@gateway/shared/audit";
import { AppError } from "@gateway/shared/errors";
import type { SignerPorts } from "../sign/ports.ts";
import { changedMeanwhile, prepareElsewhere } from "../live/policy_preparation.ts";
import type { PolicySource } from "../live/policy_source.ts";

/** The newest version as a signer knows it. */
type Newest = NonNullable<PolicySource["newest"]>;

/** A change of the hosts in the database. */
interface PolicyEdit {
  /** What it was made on; `undefined`: there is none. */
  readonly base: Newest | undefined;
  readonly document: string;
  readonly by: string;
  /** What is done, for the history. */
  readonly change: string;
  /** The record of it, without outcome. */
  readonly entry: Omit<AuditEntry, "outcome">;
}

interface MadeChange {
  readonly version: number;
  /** How many hosts there are now. */
  readonly hosts: number;
}

/** @throws {AppError} `conflict` when the database has no hosts yet */
export function requireNewest({ newest }: PolicySource): Newest {
  if (newest !== undefined) return newest;
  throw new AppError("conflict", "the database has no hosts yet: broker-ctl policy import");
}

/**
 * Makes a version of the hosts, whole or not at all, and puts it in force at every signer. The record is durable before
 * the version is there.
 *
 * @throws {AppError} `invalid_config` when the hosts can't be used, `conflict` when another version came first,
 * `audit_unavailable`: nothing has changed then; `state_stale` where it is not certain that it is in force
 */
export async function changePolicy(
  ports: SignerPorts,
  { base, document, by, change, entry }: PolicyEdit,
): Promise<MadeChange> {
  const { policySource, instances, gate, clock, state } = ports;
  const { versions } = policySource;
  if (versions === undefined) {
    throw new AppError("conflict", "the hosts are in the config file, which has no versions");
  }
  const { policy } = await policySource.prepare(document, state.current);
  if (policySource.from === "database" && instances.isShared) {
    await prepareElsewhere(versions, { document, sha256: policySource.digest(document), clock });
  }
  const version = (base?.version ?? 0) + 1;
  const made = { version, hosts: policy.hosts.size };
  await gate.require({ ...entry, policy_version: version, outcome: "policy-changed" });
  if (!await versions.add({ base, document, madeBy: by, change, madeAt: clock.now() })) {
    throw changedMeanwhile();
  }
  await Promise.all([instances.caughtUp(), instances.settled()]);
  if (policySource.from === "file") return made;
  // It may also be that another one came after it, and is in force already.
  const inForce = state.current.policyVersion?.version ?? 0;
  if (inForce >= version && policySource.problemOf(state.current) === undefined) return made;
  throw new AppError(
    "state_stale",
    `version ${version} of the policy is made, and not in force at this signer yet`,
    {
      retryAfterSeconds: 1,
    },
  );
}
