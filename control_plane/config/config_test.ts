import assert from "node:assert/strict";
import { configWarnings, controlPlaneConfig } from "./config.ts";
import { controlPlanePermissions } from "./permissions.ts";

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

Deno.test("configWarnings() returns no warnings for a complete config", () => {
  assert.deepEqual(warningsOf({}), []);
});

Deno.test.each<{ name: string; changes: object; warning: RegExp }>([
  { name: "no caller can approve", changes: { approval: {} }, warning: /^approval\.callers is empty/ },
  { name: "any certificate may sign", changes: { sign_callers: [] }, warning: /^sign_callers is empty/ },
  {
    name: "a broker can approve",
    changes: { approval: { ...approval, callers: ["broker-1"] } },
    warning: /^in sign_callers and in approval\.callers: broker-1/,
  },
  {
    name: "a trusted forwarder is not in sign_callers",
    changes: { trusted_forwarders: ["broker-2"] },
    warning: /^in trusted_forwarders and not in sign_callers: broker-2/,
  },
  {
    name: "approval_url_template is empty",
    changes: { approval: { ...approval, approval_url_template: "" } },
    warning: /^approval\.approval_url_template is empty/,
  },
  { name: "guardrails are off", changes: { behavior: {} }, warning: /^behavior\.mode is off/ },
  { name: "a restart forgets", changes: { state_db: "" }, warning: /^state_db is not set/ },
])("configWarnings() warns that $name", ({ changes, warning }) => {
  const warnings = warningsOf(changes);
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? "", warning);
});

const UI = {
  url: "https://approve.example",
  issuer: "https://id.example/realm",
  client_id: "gateway",
  client_secret_file: "secret",
  groups: ["approvers"],
};

Deno.test.each([
  { name: "ui without ui_listen", changes: { ui_listen: "" } },
  { name: "ui_listen without ui", changes: { ui: undefined } },
  { name: "a path in url", changes: { ui: { ...UI, url: "https://approve.example/ui" } } },
  { name: "a url without TLS", changes: { ui: { ...UI, url: "http://approve.example" } } },
  { name: "an issuer without TLS", changes: { ui: { ...UI, issuer: "http://id.example" } } },
  { name: "no group", changes: { ui: { ...UI, groups: [] } } },
  { name: "an empty group", changes: { ui: { ...UI, groups: [""] } } },
  { name: "a certificate without its key", changes: { ui: { ...UI, server_cert: "ui.crt" } } },
])("controlPlaneConfig rejects $name", ({ changes }) => {
  const { ui, ...rest } = { ...GOOD, ui_listen: ":7444", ui: UI, ...changes };
  assert.equal(controlPlaneConfig.safeParse(ui === undefined ? rest : { ...rest, ui }).success, false);
});

Deno.test("a sign-in with the company's account replaces approval.callers", () => {
  assert.deepEqual(warningsOf({ approval: {}, ui_listen: ":7444", ui: UI }), []);
});

const CONTROL_PLANE = {
  listen: ":7443",
  server_cert: "/etc/gateway/pki/cp.crt",
  server_key: "/etc/gateway/pki/cp.key",
  client_ca: "/etc/gateway/pki/mtls_ca.crt",
  signer: {
    url: "https://127.0.0.1:9443",
    client_cert: "/etc/gateway/pki/cp-client.crt",
    client_key: "/etc/gateway/pki/cp-client.key",
    ca: "/etc/gateway/pki/mtls_ca.crt",
  },
  audit_log: "/var/log/control-plane/audit.log",
  audit_key: "/etc/gateway/cp.seed",
};

const controlPlane = (changes: object = {}) =>
  controlPlanePermissions(controlPlaneConfig.parse({ ...CONTROL_PLANE, ...changes }), {
    configPath: "/etc/gateway/control-plane.json",
    workingFolder: "/srv",
  });

Deno.test("controlPlanePermissions() grants the configured files, log directory, listener and signer", () => {
  assert.deepEqual(controlPlane(), {
    read: [
      "/etc/gateway/control-plane.json",
      "/etc/gateway/cp.seed",
      "/etc/gateway/pki/cp-client.crt",
      "/etc/gateway/pki/cp-client.key",
      "/etc/gateway/pki/cp.crt",
      "/etc/gateway/pki/cp.key",
      "/etc/gateway/pki/mtls_ca.crt",
      "/var/log/control-plane",
    ],
    write: ["/var/log/control-plane"],
    net: ["0.0.0.0:7443", "127.0.0.1:9443"],
    ignoreEnv: "all",
  });
});

Deno.test("controlPlanePermissions() grants the files of the sign-in, its listener and the issuer", () => {
  const ui = { ...UI, server_cert: "/ui.crt", server_key: "/ui.key", issuer_ca: "/id.crt" };
  const { read, net } = controlPlane({ ui_listen: "127.0.0.1:7444", ui });
  const files = ["/id.crt", "/srv/secret", "/ui.crt", "/ui.key"];
  assert.deepEqual(files.filter((path) => !read?.includes(path)), []);
  assert.deepEqual(net, ["0.0.0.0:7443", "127.0.0.1:7444", "127.0.0.1:9443", "id.example:443"]);
});

Deno.test("controlPlanePermissions() grants the address of each of several signers", () => {
  const { url: _one, ...signer } = CONTROL_PLANE.signer;
  const { net } = controlPlane({ signer: { ...signer, urls: ["https://10.0.0.1:9443", "https://s2:9443"] } });
  assert.deepEqual(net, ["0.0.0.0:7443", "10.0.0.1:9443", "s2:9443"]);
});

Deno.test("controlPlanePermissions() grants only the database file and the monitor listener", () => {
  const { read, write, net } = controlPlane({ state_db: "state/cp.db", monitor_listen: "127.0.0.1:9170" });
  assert.deepEqual(write, ["/srv/state/cp.db", "/var/log/control-plane"]);
  assert.ok(read?.includes("/srv/state/cp.db"));
  assert.deepEqual(net, ["0.0.0.0:7443", "127.0.0.1:9170", "127.0.0.1:9443"]);
});

Deno.test.each([
  { name: "webhook", url: "https://hooks.example/x", net: "hooks.example:443" },
  { name: "teams", url: "https://hooks.example:8443/x", net: "hooks.example:8443" },
  { name: "webhook", url: "http://localhost/x", net: "localhost:80" },
  { name: "webhook", url: "http://[::1]:8080/x", net: "[::1]:8080" },
])("controlPlanePermissions() grants notifier $name only $url and one variable", ({ name, url, net }) => {
  const set = controlPlane({
    approval: { notifier: name, webhook_url: url, webhook_secret_env: "HOOK_SECRET" },
  });
  assert.ok(Array.isArray(set.net) && set.net.includes(net), String(set.net));
  assert.deepEqual(set.env, ["HOOK_SECRET"]);
});

Deno.test("controlPlanePermissions() grants nothing for an unused webhook", () => {
  const approval = {
    notifier: "log",
    webhook_url: "https://hooks.example/x",
    webhook_secret_env: "HOOK_SECRET",
  };
  const set = controlPlane({ approval });
  assert.deepEqual([set.net, set.env], [["0.0.0.0:7443", "127.0.0.1:9443"], undefined]);
});

Deno.test("controlPlanePermissions() grants the hosts, socket and files of a PostgreSQL database", () => {
  const shared = controlPlane({
    state_db: "postgres://a@db1,%2Frun%2Fpg/x",
    state_db_password_file: "pw",
    state_db_ca: "/etc/db.crt",
  });
  assert.deepEqual(shared.net, ["0.0.0.0:7443", "127.0.0.1:9443", "db1:5432", "unix:/run/pg/.s.PGSQL.5432"]);
  assert.deepEqual(shared.write, ["/run/pg/.s.PGSQL.5432", "/var/log/control-plane"]);
  for (const path of ["/srv/pw", "/etc/db.crt", "/run/pg/.s.PGSQL.5432"]) {
    assert.ok(shared.read?.includes(path), path);
  }
  assert.deepEqual(shared.sys, ["hostname"]);
  assert.equal(controlPlane({ state_db: "postgres://a@db1/x", instance: "cp-1" }).sys, undefined);
});
