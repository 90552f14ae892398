import { AppError } from "@gateway/shared/errors";
import { type Peer, readJsonBody } from "@gateway/shared/http";
import {
  formatTimestamp,
  MAX_POLICY_BODY_BYTES,
  type PolicyRequest,
  policyRequest,
} from "@gateway/shared/wire";
import { changePolicy } from "./change_policy.ts";
import { readDocument, writeDocument } from "../live/policy_source.ts";
import type { SignerPorts } from "../sign/ports.ts";
import type { PolicyChange, PolicyVersions } from "../live/state/postgres.ts";
import { answer, requireAdmin } from "./admin.ts";

/** `GET /v1/policy/versions`: who changed the hosts in the database when, the newest first. */
export async function handlePolicyVersions(ports: SignerPorts, peer: Peer): Promise<Response> {
  const command = "policy-versions-read";
  await requireAdmin(ports, peer, { command, outcome: "policy-read-denied" });
  const versions = await requireVersions(ports).list();
  await ports.gate.require({ caller: peer.caller, command, outcome: "policy-read" });
  return answer(versions.map(describe));
}

/** `GET /v1/policy/versions/{version}`: the hosts of one version. */
export async function handlePolicyVersion(ports: SignerPorts, peer: Peer, name: string): Promise<Response> {
  const command = "policy-version-read";
  await requireAdmin(ports, peer, { command, outcome: "policy-read-denied" });
  const found = await findVersion(requireVersions(ports), readNumber(name));
  await ports.gate.require({
    caller: peer.caller,
    command: `${command} ${found.version}`,
    outcome: "policy-read",
  });
  return answer({ ...describe(found), hosts: readHosts(found) });
}

/** `POST /v1/policy/versions`: other hosts, or those of an earlier version, in the place of the newest version's. */
export async function handlePolicyChange(
  ports: SignerPorts,
  request: Request,
  peer: Peer,
): Promise<Response> {
  const about = { caller: peer.caller, command: "policy-change" };
  await requireAdmin(ports, peer, { command: about.command, outcome: "policy-denied" });
  const body = await readJsonBody(request, { maxBytes: MAX_POLICY_BODY_BYTES, schema: policyRequest });
  const isRollback = body.from_version !== undefined;
  const change = isRollback ? `rollback to ${body.from_version}` : "import";
  const entry = { ...about, command: `policy-${change.replaceAll(" ", "-")}`, dry_run: body.dry_run };
  try {
    const versions = requireVersions(ports);
    const document = await documentOf(versions, body);
    const base = findBase(ports, body.base_version);
    if (body.dry_run) {
      const { policy } = await ports.policySource.compile(document, ports.state.current);
      await ports.gate.require({ ...entry, outcome: "policy-read" });
      return answer({ status: "dry_run", version: body.base_version + 1, hosts: policy.hosts.size });
    }
    const made = await changePolicy(ports, { base, document, by: peer.caller, change, entry });
    return answer({ status: "ok", ...made });
  } catch (error) {
    const err = error instanceof AppError ? error.message : "the change failed";
    await ports.gate.bestEffort({ ...entry, outcome: "policy-failed", err });
    // It is the request that can't be used.
    if (error instanceof AppError && error.code === "invalid_config") {
      throw new AppError("invalid_request", err, { cause: error });
    }
    throw error;
  }
}

async function documentOf(versions: PolicyVersions, { hosts, from_version }: PolicyRequest): Promise<string> {
  if (hosts !== undefined && from_version === undefined) return writeDocument(hosts);
  if (hosts !== undefined || from_version === undefined) {
    throw new AppError("invalid_request", "one of hosts and from_version is needed");
  }
  return (await findVersion(versions, from_version)).document;
}

/** What the change is made on, as far as this signer knows; the database has the last word. */
function findBase({ policySource: { from, newest } }: SignerPorts, version: number) {
  if ((newest?.version ?? 0) !== version) {
    throw new AppError(
      "conflict",
      `the newest version of the policy is ${
        newest?.version ?? 0
      } and not ${version}: look at it and try again`,
    );
  }
  if (from === "file" && newest !== undefined) {
    throw new AppError(
      "conflict",
      'policy_source of this signer is "file": set it to "database" at all signers first',
    );
  }
  return newest;
}

function requireVersions({ policySource: { versions } }: SignerPorts): PolicyVersions {
  if (versions !== undefined) return versions;
  throw new AppError("conflict", "the hosts are in the config file, which has no versions: edit it");
}

async function findVersion(versions: PolicyVersions, version: number) {
  const found = await versions.find(version);
  if (found === undefined) throw new AppError("not_found", `unknown version of the policy: ${version}`);
  return found;
}

function readHosts({ version, document }: { readonly version: number; readonly document: string }) {
  try {
    return readDocument(document);
  } catch (cause) {
    throw new AppError("conflict", `version ${version} of the policy can't be read: it was made by hand`, {
      cause,
    });
  }
}

function readNumber(name: string): number {
  if (/^[1-9]\d{0,14}$/.test(name)) return Number(name);
  throw new AppError("invalid_request", "a version is a number from 1");
}

function describe({ version, madeBy, change, madeAt }: PolicyChange) {
  return { version, made_at: formatTimestamp(madeAt), made_by: madeBy, change };
}
