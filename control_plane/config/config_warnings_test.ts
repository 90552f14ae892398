import assert from "node:assert/strict";
import { configWarnings, controlPlaneConfig } from "./config.ts";

const approval = { callers: ["approver-1"], approval_url_template: "https://cp:7443/ui/approvals/{id}" };
const GOOD = {
  server_cert: "c",
  server_key: "k",
  client_ca: "a",
  signer: { url: "https://127.0.0.1:9443", client_cert: "c", client_key: "k", ca: "a" },
  sign_callers: ["broker-1"],
  approval,
  behavior: { mode: "observe" },
  audit_log: "log/audit.log",
  audit_key: "seed",
  state_db: "state.db",
};

const warningsOf = (changes: object) => configWarnings(controlPlaneConfig.parse({ ...GOOD, ...changes }));

Deno.test("configWarnings() has nothing to say of a good config", () => {
  assert.deepEqual(warningsOf({}), []);
});

Deno.test.each<{ name: string; changes: object; warning: RegExp }>([
  { name: "nobody can approve", changes: { approval: {} }, warning: /^approval\.callers is empty/ },
  { name: "any certificate may sign", changes: { sign_callers: [] }, warning: /^sign_callers is empty/ },
  {
    name: "a broker may approve",
    changes: { approval: { ...approval, callers: ["broker-1"] } },
    warning: /^in sign_callers and in approval\.callers: broker-1/,
  },
  {
    name: "a trusted broker may not sign",
    changes: { trusted_forwarders: ["broker-2"] },
    warning: /^in trusted_forwarders and not in sign_callers: broker-2/,
  },
  {
    name: "no origin is ours",
    changes: { approval: { ...approval, approval_url_template: "" } },
    warning: /^approval\.approval_url_template is empty/,
  },
  { name: "nobody watches", changes: { behavior: {} }, warning: /^behavior\.mode is off/ },
  { name: "a restart forgets", changes: { state_db: "" }, warning: /^state_db is not set/ },
])("configWarnings() says that $name", ({ changes, warning }) => {
  const warnings = warningsOf(changes);
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? "", warning);
});
