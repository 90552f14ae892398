import type { Peer } from "@gateway/shared/http";
import type { SignerPorts } from "../sign/ports.ts";
import { answer, requireAdmin } from "./admin.ts";

/** `POST /v1/reload`: reads `signer.json` again; for the callers in `reload_callers` only. */
export async function handleReload(ports: SignerPorts, peer: Peer): Promise<Response> {
  await requireAdmin(ports, peer, { command: "reload", outcome: "reload-denied" });
  const hosts = await ports.state.reload(peer.caller);
  return answer({ status: "ok", hosts });
}
