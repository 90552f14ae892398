import assert from "node:assert/strict";
import { maskObject, maskText } from "./secrets.ts";

const VALUE = "aHVudGVyMg==";
const WHOLE = `{"data":{"password":"${VALUE}"}}`;
/** In the format of k3s: compressed, in base64. */
const PACKED = `H4sIAAAAAAAA_${"0123456789abcdef".repeat(4)}`;
const SECRET = {
  apiVersion: "v1",
  kind: "Secret",
  type: "Opaque",
  immutable: true,
  metadata: {
    name: "db",
    annotations: {
      owner: "team-a",
      "kubed.appscode.com/sync": "app=db,team in (a, b)",
      "kubectl.kubernetes.io/last-applied-configuration": WHOLE,
      "kapp.k14s.io/original": WHOLE,
      "objectset.rio.cattle.io/applied": PACKED,
    },
  },
  data: { password: VALUE, empty: "", broken: "hünter2!" },
  stringData: { other: "hünter2" },
};

const { annotations } = SECRET.metadata;
const MASKED = {
  ...SECRET,
  metadata: {
    name: "db",
    annotations: {
      ...annotations,
      "kubectl.kubernetes.io/last-applied-configuration": `[masked: ${WHOLE.length} bytes]`,
      "kapp.k14s.io/original": `[masked: ${WHOLE.length} bytes]`,
      "objectset.rio.cattle.io/applied": `[masked: ${PACKED.length} bytes]`,
    },
  },
  data: { password: "[masked: 7 bytes]", empty: "[masked: 0 bytes]", broken: "[masked: 9 bytes]" },
  stringData: { other: "[masked: 8 bytes]" },
};

const SECRET_LIST = { kind: "SecretList", apiVersion: "v1", metadata: { resourceVersion: "7" } };
const STATUS = { kind: "Status", status: "Success", details: { name: "db" } };
const CONFIG_MAP = { kind: "ConfigMap", metadata: SECRET.metadata, data: { a: "b" } };
const { kind: _kind, apiVersion: _version, ...item } = SECRET;
const { kind: _maskedKind, apiVersion: _maskedVersion, ...maskedItem } = MASKED;

Deno.test.each<{ name: string; value: unknown; isSecret?: boolean; masked: unknown }>([
  { name: "the values of a Secret, and copies of it in annotations", value: SECRET, masked: MASKED },
  { name: "no values of another object", value: CONFIG_MAP, masked: CONFIG_MAP },
  {
    name: "the items of a SecretList that have no kind",
    value: { ...SECRET_LIST, items: [item, item] },
    masked: { ...SECRET_LIST, items: [maskedItem, maskedItem] },
  },
  {
    name: "only the Secrets of a mixed list",
    value: { kind: "List", items: [CONFIG_MAP, SECRET] },
    masked: { kind: "List", items: [CONFIG_MAP, MASKED] },
  },
  {
    name: "a list within a list",
    value: { kind: "List", items: [{ kind: "SecretList", items: [item] }] },
    masked: { kind: "List", items: [{ kind: "SecretList", items: [maskedItem] }] },
  },
  {
    name: "a value of another kind if a Secret was requested",
    value: { ...SECRET, kind: "ConfigMap" },
    isSecret: true,
    masked: { ...MASKED, kind: "ConfigMap" },
  },
  {
    name: "a value without a kind if a Secret was requested",
    value: item,
    isSecret: true,
    masked: maskedItem,
  },
  {
    name: "unknown members of a Secret",
    value: { kind: "Secret", Data: { a: "b" }, plain: "text", list: ["a"], metadata: "text", data: "text" },
    masked: {
      kind: "Secret",
      Data: { a: "[masked: 1 bytes]" },
      plain: "[masked: 4 bytes]",
      list: "[masked: 5 bytes]",
      metadata: "[masked: 4 bytes]",
      data: "[masked: 4 bytes]",
    },
  },
  {
    name: "values that are not text",
    value: { kind: "Secret", data: { a: 1234, b: null, c: { d: VALUE } } },
    masked: {
      kind: "Secret",
      data: {
        a: "[masked: 4 bytes]",
        b: "[masked: 0 bytes]",
        c: `[masked: ${`{"d":"${VALUE}"}`.length} bytes]`,
      },
    },
  },
  { name: "a text where a Secret was asked for", value: VALUE, isSecret: true, masked: "[masked: 12 bytes]" },
  {
    name: "nothing in a Status",
    value: STATUS,
    isSecret: true,
    masked: STATUS,
  },
])("maskObject() masks $name", ({ value, isSecret = false, masked }) => {
  assert.deepEqual(maskObject(value, { isSecret }), masked);
  assert.equal(maskText(JSON.stringify(value), { isSecret }), JSON.stringify(masked));
});

Deno.test("maskText() returns nothing for text that is not JSON, and keeps numbers exact", () => {
  assert.equal(maskText(`{"data":{"password":"${VALUE}"}`, { isSecret: true }), undefined);
  assert.equal(maskText(`{"kind":"Secret","data":${"[".repeat(1e5)}${"]".repeat(1e5)}}`), undefined);
  assert.equal(maskText('{"n":18446744073709551615}'), '{"n":18446744073709551615}');
});
