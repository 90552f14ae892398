import assert from "node:assert/strict";
import type { CaKeyConfig } from "./model.ts";
import { planCaKeys, selectCaKey } from "./select.ts";

const pem = (path: string): CaKeyConfig => ({ type: "pem", path });
const ca_keys = { prod: pem("prod"), web: pem("web") };

Deno.test.each([
  { name: "the first group with an entry", groups: ["db", "web", "prod"], expected: "web" },
  { name: "the host's order, not that of ca_keys", groups: ["prod", "web"], expected: "prod" },
  { name: "the default without a group that has one", groups: ["db"], expected: "ca" },
  { name: "the default for a host without groups", groups: [], expected: "ca" },
  { name: "no key for a group named like a member of every object", groups: ["constructor"], expected: "ca" },
])("selectCaKey() gives $name", ({ groups, expected }) => {
  const plan = planCaKeys({ ca_key: "ca", ca_keys });
  assert.ok(plan !== undefined);
  assert.deepEqual(selectCaKey(plan, groups), pem(expected));
});

Deno.test("_default overrides ca_key and is not a group", () => {
  const plan = planCaKeys({ ca_key: "ca", ca_keys: { ...ca_keys, _default: pem("own") } });
  assert.ok(plan !== undefined);
  assert.deepEqual(selectCaKey(plan, []), pem("own"));
  assert.deepEqual(selectCaKey(plan, ["_default", "web"]), pem("web"));
});

Deno.test.each([
  { name: "nothing at all", settings: {} },
  { name: "an empty ca_key", settings: { ca_key: "", ca_keys: {} } },
  { name: "groups but no default", settings: { ca_keys } },
])("planCaKeys() finds no default in $name", ({ settings }) => {
  assert.equal(planCaKeys(settings), undefined);
});
