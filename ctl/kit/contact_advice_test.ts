import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { adviseOnContact } from "./contact_advice.ts";

const CONTACT = {
  name: "signer",
  parameters: { url: "https://ca.example:9443", ca: "/pki/mtls_ca.crt" },
};

Deno.test.each([
  { code: "ECONNREFUSED", advice: /is the signer running/ },
  { code: "ENOTFOUND", advice: /the name ca\.example$/ },
  { code: "EHOSTUNREACH", advice: /can't be reached/ },
  { code: "ERR_SSL_WRONG_VERSION_NUMBER", advice: /speaks no TLS/ },
  { code: "UNABLE_TO_VERIFY_LEAF_SIGNATURE", advice: /not signed by the CA in \/pki\/mtls_ca\.crt$/ },
  { code: "ERR_TLS_CERT_ALTNAME_INVALID", advice: /other names than ca\.example$/ },
  { code: "CERT_HAS_EXPIRED", advice: /expired/ },
])("adviseOnContact() says what to do about $code, whatever it has caused", ({ code, advice }) => {
  let failure: Error = Object.assign(new Error("x"), { code });
  for (const message of ["", "asking", "Failed contacting"]) {
    if (message !== "") failure = new AppError("upstream_failure", message, { cause: failure });
    assert.match(adviseOnContact(failure, CONTACT) ?? "", advice);
  }
});

Deno.test("adviseOnContact() does not guess", () => {
  for (const cause of [undefined, "ECONNREFUSED", { code: "ECONNREFUSED" }, new Error("ECONNREFUSED")]) {
    assert.equal(adviseOnContact(cause, CONTACT), undefined);
  }
});
