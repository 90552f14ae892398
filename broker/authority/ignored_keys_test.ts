import assert from "node:assert/strict";
import { brokerConfig } from "../config/config.ts";
import { describeIgnoredKeys } from "./ignored_keys.ts";

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
