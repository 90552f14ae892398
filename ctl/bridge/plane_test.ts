import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { createPlane, explainPlaneFailure } from "./plane.ts";

const SETTINGS = { cpUrl: "https://gw.example:7443", ca: "/pki/ca.crt", cert: "/pki/bridge.crt" };

function explained(error: unknown): string {
  const found = explainPlaneFailure(error, SETTINGS);
  return found instanceof Error ? found.message : "";
}

Deno.test("explainPlaneFailure() says what to mend where nothing listens, and where another CA signed", () => {
  const failure = (code: string) =>
    new AppError("upstream_failure", "Failed contacting the control plane", {
      cause: Object.assign(new Error("connect"), { code }),
    });
  assert.match(explained(failure("ECONNREFUSED")), /at https:\/\/gw\.example:7443: nothing listens there/);
  assert.match(
    explained(failure("UNABLE_TO_VERIFY_LEAF_SIGNATURE")),
    /not signed by the CA in \/pki\/ca\.crt/,
  );
  assert.equal(explained(failure("EPIPE")), "Failed contacting the control plane");
});

Deno.test("explainPlaneFailure() says of a certificate that is no approver's where it has to be named", async () => {
  const body = {
    type: "about:blank",
    title: "Forbidden",
    status: 403,
    detail: "not authorised",
    code: "forbidden",
  };
  const plane = createPlane({ request: () => Promise.resolve({ status: 403, headers: {}, text: "", body }) });
  const refused = await plane.list().catch((error) => error);
  assert.match(
    explained(refused),
    /403: not authorised at .*: the CN of "\/pki\/bridge\.crt" has to be in its approval\.callers/,
  );
});
