import assert from "node:assert/strict";
import { MAX_K8S_DIFF_BYTES } from "@gateway/shared/wire";
import { diffObjects } from "./api.ts";

const PLAIN = { isSecret: false };
const containers = (...names: readonly string[]) =>
  names.map((name) => ({ name: name.split(":")[0], image: name }));

Deno.test.each<{ name: string; before: unknown; after: unknown; changes: readonly unknown[] }>([
  {
    name: "changed, added and removed fields by path",
    before: { spec: { replicas: 2, paused: true } },
    after: { metadata: { labels: { "a.b/c": "x" } }, spec: { replicas: 3 } },
    changes: [
      { path: "metadata", after: '{"labels":{"a.b/c":"x"}}' },
      { path: "spec.paused", before: "true" },
      { path: "spec.replicas", before: "2", after: "3" },
    ],
  },
  {
    name: "keys with special characters",
    before: { metadata: { labels: {} } },
    after: { metadata: { labels: { "a.b/c": "x" } } },
    changes: [{ path: 'metadata.labels["a.b/c"]', after: '"x"' }],
  },
  {
    name: "items matched by name, whatever their position",
    before: { c: containers("app:1", "log:1", "old:1") },
    after: { c: containers("new:1", "app:2", "log:1") },
    changes: [
      { path: "c[0]", after: '{"name":"new","image":"new:1"}' },
      { path: "c[1].image", before: '"app:1"', after: '"app:2"' },
      { path: "c[2]", before: '{"name":"old","image":"old:1"}' },
    ],
  },
  {
    name: "a changed order of items with the same names",
    before: { initContainers: containers("check:1", "load:1", "old:1") },
    after: { initContainers: containers("load:2", "check:1") },
    changes: [
      { path: "initContainers (order)", before: '["check","load"]', after: '["load","check"]' },
      { path: "initContainers[0].image", before: '"load:1"', after: '"load:2"' },
      { path: "initContainers[2]", before: '{"name":"old","image":"old:1"}' },
    ],
  },
  {
    name: "a key that looks like the path of an ignored field",
    before: { "metadata.uid": 1, spec: { status: 1 } },
    after: { "metadata.uid": 2, spec: { status: 2 } },
    changes: ['["metadata.uid"]', "spec.status"].map((path) => ({ path, before: "1", after: "2" })),
  },
  {
    name: "items without names, matched by index",
    before: { args: ["-a", "-b"] },
    after: { args: ["-a", "-c", "-d"] },
    changes: [{ path: "args[1]", before: '"-b"', after: '"-c"' }, { path: "args[2]", after: '"-d"' }],
  },
  {
    name: "another type at the same path, and null",
    before: { a: 1, b: {}, c: null },
    after: { a: "1", b: [], c: 0 },
    changes: [
      { path: "a", before: "1", after: '"1"' },
      { path: "b", before: "{}", after: "[]" },
      { path: "c", before: "null", after: "0" },
    ],
  },
  {
    name: "a number beyond 2^53",
    before: { a: 9007199254740993n },
    after: { a: 9007199254740992n },
    changes: [{ path: "a", before: "9007199254740993", after: "9007199254740992" }],
  },
])("diffObjects() shows $name", ({ before, after, changes }) => {
  assert.deepEqual(diffObjects(before, after, PLAIN), { kind: "changed", changes });
});

Deno.test("diffObjects() ignores fields that the API server maintains, and the order of keys", () => {
  const before = {
    metadata: { name: "a", resourceVersion: "1", generation: 1, uid: "u", managedFields: [1] },
    status: { ready: 1 },
    spec: { a: 1, b: { c: 1, d: 2 } },
  };
  const after = { spec: { b: { d: 2, c: 1 }, a: 1 }, metadata: { name: "a", creationTimestamp: "x" } };
  assert.deepEqual(diffObjects(before, after, PLAIN), { kind: "unchanged" });
});

const secretOf = (password: string, members: Record<string, unknown> = {}) => ({
  kind: "Secret",
  metadata: { name: "db" },
  data: { password: btoa(password), user: btoa("app") },
  ...members,
});

Deno.test.each([{ name: "that says so", kind: "Secret" }, { name: "that hides it", kind: "ConfigMap" }])(
  "diffObjects() masks the values of a Secret $name, even of equal length",
  ({ kind }) => {
    const [before, after] = [secretOf("hunter2", { kind }), secretOf("hunter3", { kind })];
    const masked = '"[masked: 7 bytes]"';
    assert.deepEqual(diffObjects(before, after, { isSecret: true }), {
      kind: "changed",
      changes: [{ path: "data.password", before: masked, after: masked }],
    });
  },
);

Deno.test("diffObjects() masks stringData and the last-applied annotation of a Secret", () => {
  const annotations = {
    "kubectl.kubernetes.io/last-applied-configuration": '{"data":{"password":"aHVudGVyMg=="}}',
  };
  const after = secretOf("hunter2", {
    metadata: { name: "db", annotations },
    stringData: { key: "hunter4" },
    other: ["hunter5"],
  });
  const text = JSON.stringify(diffObjects(secretOf("hunter1"), after, { isSecret: true }));
  assert.doesNotMatch(text, /hunter|aHVudGVy/);
  assert.match(text, /stringData/);
});

Deno.test("diffObjects() stays within its size limit and reports how many changes it omits", () => {
  const after = Object.fromEntries(
    Array.from({ length: 500 }, (_, n) => [`k${String(n).padStart(3, "0")}`, "\u0001ü".repeat(300)]),
  );
  const diff = diffObjects({}, { data: after, a: 1 }, PLAIN);
  assert.equal(diff.changes?.length, 2, "a whole new object is one change");
  const many = diffObjects({ data: { x: 1 } }, { data: { ...after, x: 1 } }, PLAIN);
  assert.ok(new TextEncoder().encode(JSON.stringify(many)).length <= MAX_K8S_DIFF_BYTES);
  assert.equal((many.changes?.length ?? 0) + (many.omitted ?? 0), 500);
  assert.ok((many.changes?.length ?? 0) > 5);
});
