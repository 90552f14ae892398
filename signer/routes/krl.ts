import type { EnvelopeKey } from "@gateway/shared/envelope";
import { AppError } from "@gateway/shared/errors";
import type { Peer } from "@gateway/shared/http";
import { KRL_SIGNATURE_HEADER, KRL_VERSION_HEADER } from "@gateway/shared/wire";
import type { SignerPorts } from "../sign/ports.ts";
import { answer, requireAdmin } from "./admin.ts";

/** `GET /v1/krl?after=N`: the list when it is newer than N, at once or within 25 s; else 304. */
export async function handleKrl(ports: SignerPorts, request: Request, peer: Peer): Promise<Response> {
  const key = await requireReader(ports, peer, "krl");
  const after = readVersion(request, "after", 0);
  if (ports.state.current.krlCallers.has(peer.caller)) {
    ports.krlReaders.saw(peer.caller, { version: after, at: ports.clock.now() });
  }
  const list = await ports.krl.newerThan(after, request.signal);
  // Its version would be taken for newer than that of a list with more in it.
  ports.instances.requireFresh();
  if (list === undefined) {
    return new Response(null, { status: 304, headers: { "cache-control": "no-store" } });
  }
  return new Response(list.bytes, {
    headers: {
      "content-type": "application/octet-stream",
      "cache-control": "no-store",
      [KRL_VERSION_HEADER]: String(list.version),
      [KRL_SIGNATURE_HEADER]: list.detachedSignature(key),
    },
  });
}

/** `GET /v1/krl.sig?version=N`: the signature that `ssh-keygen -Y verify` checks, of the list of this version. */
export async function handleKrlSignature(
  ports: SignerPorts,
  request: Request,
  peer: Peer,
): Promise<Response> {
  const key = await requireReader(ports, peer, "krl.sig");
  const version = readVersion(request, "version");
  const list = ports.krl.version(version);
  if (list === undefined) {
    throw new AppError("gone", `Version ${version} of the list is not in force any more`);
  }
  return new Response(list.armoredSignature(key), {
    headers: { "content-type": "text/plain", "cache-control": "no-store" },
  });
}

/** `GET /v1/krl/hosts`: which version each reader has installed. */
export async function handleKrlStatus(ports: SignerPorts, peer: Peer): Promise<Response> {
  await requireAdmin(ports, peer, { command: "krl-hosts", outcome: "policy-denied" });
  const { krl_callers } = ports.state.current.config;
  return answer({ version: ports.krl.current.version, readers: ports.krlReaders.list(krl_callers) });
}

/** Lets the callers in `krl_callers` and the admins pass; a frozen reader too, for it reads only what denies. */
async function requireReader(ports: SignerPorts, peer: Peer, command: string): Promise<EnvelopeKey> {
  const { krlCallers, reloadCallers, envelopeKey } = ports.state.current;
  if (!krlCallers.has(peer.caller) && !reloadCallers.has(peer.caller)) {
    const err = "caller is neither in krl_callers nor in reload_callers";
    await ports.gate.bestEffort({ caller: peer.caller, command, outcome: "policy-denied", err });
    throw new AppError("forbidden", err);
  }
  if (envelopeKey !== undefined) return envelopeKey;
  throw new AppError("conflict", "The revocation list is not signed: the signer has no envelope_key");
}

const VERSION = /^\d{1,16}$/;

/** A version in the query; every other parameter is ignored. */
function readVersion(request: Request, name: string, fallback?: number): number {
  const [text, ...more] = new URL(request.url).searchParams.getAll(name);
  if (text === undefined && fallback !== undefined) return fallback;
  const version = text !== undefined && VERSION.test(text) ? Number(text) : NaN;
  if (Number.isSafeInteger(version) && more.length === 0) return version;
  throw new AppError("invalid_request", `Query parameter ${name} must be one version, a whole number`);
}
