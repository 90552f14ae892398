import assert from "node:assert/strict";
import { describeIgnoredKeys, ownName } from "./load.ts";
import { brokerConfig } from "../config/config.ts";

Deno.test("ownName() is the certificate's CN, commas and all", () => {
  assert.equal(ownName(pem("ONE")), "broker, one");
});

Deno.test.each([{ name: "without a CN", which: "NONE" }, { name: "with two CNs", which: "TWO" }])(
  "ownName() refuses a certificate $name",
  ({ which }) => {
    assert.throws(() => ownName(pem(which)), { code: "invalid_config" });
  },
);

function pem(which: string): string {
  return CERTIFICATES[which] ?? "";
}

/** Made by: `openssl req -x509 -newkey ed25519 -keyout key -nodes -days 36500 -subj <subject>` */
const CERTIFICATES: Readonly<Record<string, string>> = {
  // /O=acme/CN=broker\, one
  ONE: `-----BEGIN CERTIFICATE-----
MIIBYTCCAROgAwIBAgIUV3c1OrDr4t8wNSWrDhXP5ttNR+gwBQYDK2VwMCUxDTAL
BgNVBAoMBGFjbWUxFDASBgNVBAMMC2Jyb2tlciwgb25lMCAXDTI2MTEyMTA3NDAw
M1oYDzIxMjYxMDI4MDc0MDAzWjAlMQ0wCwYDVQQKDARhY21lMRQwEgYDVQQDDAti
cm9rZXIsIG9uZTAqMAUGAytlcAMhABWmZB9KrZWZsbuSI1gu+T5wtimVvVaF8KHa
70VP7a58o1MwUTAdBgNVHQ4EFgQUy1B07GA0wq4qIuk5GbVRCAXQW84wHwYDVR0j
BBgwFoAUy1B07GA0wq4qIuk5GbVRCAXQW84wDwYDVR0TAQH/BAUwAwEB/zAFBgMr
ZXADQQD70Kxa+m3hdOISVMsRQdDBimHYcmeh2v8JBjxW/MMVwil7xEFBQGmz4Bpl
edDXQVyJoDGxe7bC3ekGeFMiDUEP
-----END CERTIFICATE-----`,
  // /O=acme
  NONE: `-----BEGIN CERTIFICATE-----
MIIBNDCB56ADAgECAhRc7Q7xdDwO1hHU76iobWZTtd3MLTAFBgMrZXAwDzENMAsG
A1UECgwEYWNtZTAgFw0yNjExMjEwNzQwMDNaGA8yMTI2MTAyODA3NDAwM1owDzEN
MAsGA1UECgwEYWNtZTAqMAUGAytlcAMhAIA+piEVC/YcgqjZAh0WRaSmjSxPiL41
gbGelRf5C03Go1MwUTAdBgNVHQ4EFgQUKeQxfoDBK0qfVZvc7odpyI5vKEswHwYD
VR0jBBgwFoAUKeQxfoDBK0qfVZvc7odpyI5vKEswDwYDVR0TAQH/BAUwAwEB/zAF
BgMrZXADQQD6KqhNeWD2GLsBBqBtjM3Sh8IKn3Er1Krw04AGyPN1yldR4ogXzpuV
JfcLsuZZhT84ZCtr7Tt2dNI/jyn/t0UM
-----END CERTIFICATE-----`,
  // /CN=a/CN=b
  TWO: `-----BEGIN CERTIFICATE-----
MIIBRjCB+aADAgECAhRUZtMj5IUhcXRRad/WprtPE77LJDAFBgMrZXAwGDEKMAgG
A1UEAwwBYTEKMAgGA1UEAwwBYjAgFw0yNjExMjEwNzQwMDNaGA8yMTI2MTAyODA3
NDAwM1owGDEKMAgGA1UEAwwBYTEKMAgGA1UEAwwBYjAqMAUGAytlcAMhAAm6qNEp
haPhfxk9+iWaInozmuGO7Ls2fUKno1kPg356o1MwUTAdBgNVHQ4EFgQUpzlJ10JD
L7Q2h2LPsHWwBElX8i0wHwYDVR0jBBgwFoAUpzlJ10JDL7Q2h2LPsHWwBElX8i0w
DwYDVR0TAQH/BAUwAwEB/zAFBgMrZXADQQD/ZrRFx8Edk2uXA4l2urr9JBdkG5J+
YXrad66XYAaj9YkFlE+UJ4RbTqj2aAVCkYYa33TAjv+AzPNdKRpQzgcK
-----END CERTIFICATE-----`,
};

const BASE = { audit_log: "log/audit.log", audit_key: "seed" };
const SIGNER = { url: "https://127.0.0.1:9443", client_cert: "c", client_key: "k", ca: "a" };
const HEAD = "warning: remote mode (signer block set): ignoring local-mode config — ";
const TAIL = ". Host inventory and policy come from the signer.";

Deno.test.each([
  { name: "nothing of a clean config", keys: {}, line: undefined },
  {
    name: "hosts, also those without policy fields",
    keys: { hosts: { web01: { addr: "h:22", user: "u", host_key: "k", jump: "b", groups: ["g"] } } },
    line: `${HEAD}hosts${TAIL}`,
  },
  {
    name: "nothing of keys that are empty or false",
    keys: {
      ca_key: "",
      ca_keys: {},
      source_address: "",
      hosts: {},
    },
    line: undefined,
  },
  {
    name: "keys of the top, in a fixed order",
    keys: {
      source_address: "10.0.0.1",
      group_command_policies: { _default: ["base"] },
      command_policies: { base: {} },
      ca_keys: { _default: { type: "pem", path: "p" } },
      ca_key: "ssh_ca",
    },
    line: `${HEAD}ca_key, ca_keys, command_policies, group_command_policies, source_address${TAIL}`,
  },
  {
    name: "hosts by name, their fields in a fixed order",
    keys: {
      hosts: {
        web02: { addr: "h:22", allow_pty: true },
        web01: {
          addr: "h:22",
          stop_on_disconnect: true,
          allow_as_bastion: true,
          allow_file_transfer: true,
          allow_pty: true,
          allowed_sudo_users: ["db"],
          allow_sudo: true,
          command_policy: { mode: "off" },
          source_address: "10.0.0.1",
          principal: "p",
        },
        web03: { addr: "h:22" },
      },
    },
    line:
      `${HEAD}hosts; policy fields on 2 host(s) (web01: principal, source_address, command_policy, allow_sudo, ` +
      "allowed_sudo_users, allow_pty, allow_file_transfer, allow_as_bastion, stop_on_disconnect; " +
      `web02: allow_pty)${TAIL}`,
  },
  {
    name: "both in one line",
    keys: { ca_key: "ssh_ca", hosts: { web01: { addr: "h:22", allow_sudo: true } } },
    line: `${HEAD}ca_key, hosts; policy fields on 1 host(s) (web01: allow_sudo)${TAIL}`,
  },
])("describeIgnoredKeys() tells $name", ({ keys, line }) => {
  assert.equal(describeIgnoredKeys(brokerConfig.parse({ ...BASE, signer: SIGNER, ...keys })), line);
});

Deno.test("describeIgnoredKeys() has nothing to tell in local mode", () => {
  const config = { ...BASE, ca_key: "ssh_ca", hosts: { web01: { addr: "h:22", allow_sudo: true } } };
  assert.equal(describeIgnoredKeys(brokerConfig.parse(config)), undefined);
});
