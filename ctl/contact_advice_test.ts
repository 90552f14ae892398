import assert from "node:assert/strict";
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
])("adviseOnContact() says what to do about $code", ({ code, advice }) => {
  assert.match(adviseOnContact(Object.assign(new Error("x"), { code }), CONTACT) ?? "", advice);
});

Deno.test("adviseOnContact() does not guess", () => {
  for (const cause of [undefined, "ECONNREFUSED", { code: "ECONNREFUSED" }, new Error("ECONNREFUSED")]) {
    assert.equal(adviseOnContact(cause, CONTACT), undefined);
  }
});
