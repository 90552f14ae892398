import { AppError } from "@gateway/shared/errors";
import type { Peer } from "@gateway/shared/http/mtls_server";
import type { SignerPorts } from "../app.ts";

/** `POST /v1/reload`: reads `signer.json` anew; for the callers in `reload_callers` only. */
export async function handleReload(ports: SignerPorts, peer: Peer): Promise<Response> {
  if (!ports.state.current.reloadCallers.has(peer.caller)) {
    await ports.gate.bestEffort({
      caller: peer.caller,
      command: "reload",
      outcome: "reload-denied",
      err: "caller is not in reload_callers",
    });
    throw new AppError("forbidden", "caller is not in reload_callers");
  }
  const hosts = await ports.state.reload(peer.caller);
  return Response.json({ status: "ok", hosts });
}
