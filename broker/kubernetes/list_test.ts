import assert from "node:assert/strict";
import type { ApiRequest } from "@gateway/shared/kubernetes";
import type { ClusterAction } from "@gateway/shared/policy";
import { FakeClock } from "@gateway/shared/testing";
import { ACTIONS, answered, FakeConnection } from "../testing/fake_cluster.ts";
import { list, type ListOptions } from "./act.ts";
import { AppError } from "@gateway/shared/errors";
import { checkManifest } from "./run_action.ts";

/** A fake API server with `count` pods of the given size in bytes. */
class Pods extends FakeConnection {
  constructor(count: number, itemOf: (index: number) => unknown = (index) => ({ name: `p${index}` })) {
    super();
    this.answer = ({ path, maxBytes }: ApiRequest) => {
      const query = new URLSearchParams(path.split("?")[1]);
      const from = Number(query.get("continue") ?? 0);
      const to = Math.min(count, from + Number(query.get("limit")));
      const items = Array.from({ length: to - from }, (_, index) => itemOf(from + index));
      const metadata = {
        resourceVersion: "7",
        ...(to < count && { continue: String(to), remainingItemCount: count - to }),
      };
      const page = answered({ kind: "PodList", apiVersion: "v1", metadata, items });
      return page.kind === "answered" && page.text.length > maxBytes ? { kind: "too_large" } : page;
    };
  }
}

const run = (
  connection: FakeConnection,
  options: Partial<ListOptions> = {},
  action: ClusterAction = ACTIONS.listPods,
) => {
  const clock = new FakeClock();
  const { signal } = new AbortController();
  const asking = { connection, token: "t", clock, endsAt: clock.now() + 30_000, signal };
  return list(asking, action, { maxBytes: 1 << 20, isMasked: false, ...options });
};

Deno.test("list() returns one page with one item per line and without managedFields", async () => {
  const connection = new Pods(2, (index) => ({
    metadata: { name: `p${index}`, managedFields: [{ manager: "kubelet" }], uid: 18446744073709551615n },
    spec: { managedFields: 1 },
  }));
  const { output, warnings } = await run(connection);
  assert.equal(
    output,
    '{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[\n' +
      '{"metadata":{"name":"p0","uid":18446744073709551615},"spec":{"managedFields":1}},\n' +
      '{"metadata":{"name":"p1","uid":18446744073709551615},"spec":{"managedFields":1}}\n]}\n',
  );
  assert.deepEqual([warnings, connection.requests.length], [[], 1]);
});

/** A fake API server that returns a paged Table with the given number of rows. */
function tableOf(count: number, cells: readonly unknown[] = ["x", "1/1"]): FakeConnection {
  const connection = new FakeConnection();
  connection.answer = ({ path }) => {
    const query = new URLSearchParams(path.split("?")[1]);
    const from = Number(query.get("continue") ?? 0);
    const to = Math.min(count, from + Number(query.get("limit")));
    return answered({
      kind: "Table",
      metadata: to < count ? { continue: String(to) } : {},
      columnDefinitions: [{ name: "Name", priority: 0 }, { name: "Ready" }, { name: "Node", priority: 1 }],
      rows: Array.from({ length: to - from }, () => ({
        cells: [...cells, "n1"],
        object: { metadata: { namespace: "prod" } },
      })),
    });
  };
  return connection;
}

Deno.test("list() renders the API server's Table, with a namespace column for all namespaces", async () => {
  const connection = tableOf(2, ["web\n[end]\t\x1b", null]);
  const { output } = await run(connection, { asTable: true });
  const row = String.raw`prod${"\t"}web\x0a[end]\x09\x1b${"\t"}<none>`;
  assert.equal(output, `NAMESPACE\tNAME\tREADY\n${row}\n${row}\n`);
  const one = await run(tableOf(1), { asTable: true }, { ...ACTIONS.listPods, namespace: "prod" });
  assert.equal(one.output, "NAME\tREADY\nx\t1/1\n");
});

Deno.test("list() truncates a Table between rows and reports the number of remaining items", async () => {
  const { output, warnings } = await run(tableOf(250, ["x".repeat(500), "1/1"]), {
    asTable: true,
    maxBytes: 10_000,
  });
  assert.ok(output.length <= 10_000);
  assert.match(output, /^NAMESPACE\tNAME\tREADY\n(?:prod\tx{500}\t1\/1\n){19}$/);
  assert.match(
    warnings[0] ?? "",
    /^the list stops after 19 items, at 10000 bytes; at least 81 more remain: /,
  );
});

Deno.test("list() shows only known columns of a Table of Secrets", async () => {
  const connection = new FakeConnection();
  connection.answer = () =>
    answered({
      kind: "Table",
      columnDefinitions: ["Name", "Type", "Data", "Password"].map((name) => ({ name })),
      rows: [{ cells: ["db", "Opaque", 1, "hunter2"] }],
    });
  const { output } = await run(connection, { asTable: true, isMasked: true }, ACTIONS.listSecrets);
  assert.equal(output, "NAME\tTYPE\tDATA\ndb\tOpaque\t1\n");
});

Deno.test("list() joins all pages into one list without a continue token", async () => {
  const connection = new Pods(250);
  const { output, warnings } = await run(connection);
  const whole = JSON.parse(output);
  assert.deepEqual(
    whole.items.map(({ name }: { name: string }) => name),
    Array.from({ length: 250 }, (_, i) => `p${i}`),
  );
  assert.deepEqual(whole.metadata, { resourceVersion: "7" });
  assert.deepEqual([warnings, connection.requests.length], [[], 3]);
});

Deno.test.each([
  { limit: 2, count: 250, shown: 2, warnings: ["the list stops at the limit of 2; 248 more remain"] },
  { limit: 150, count: 250, shown: 150, warnings: ["the list stops at the limit of 150; 100 more remain"] },
  { limit: 250, count: 250, shown: 250, warnings: [] },
  { limit: 3, count: 2, shown: 2, warnings: [] },
  { limit: 0, count: 101, shown: 101, warnings: [] },
  { limit: -1, count: 101, shown: 101, warnings: [] },
])("list() of $count with the limit $limit shows $shown and reports whether more remain", async (row) => {
  const connection = new Pods(row.count);
  const { output, warnings } = await run(connection, { limit: row.limit });
  assert.equal(JSON.parse(output).items.length, row.shown);
  assert.deepEqual(warnings, row.warnings);
});

Deno.test("list() applies the limit if the API server ignores it", async () => {
  const connection = new FakeConnection();
  connection.answer = () =>
    answered({ kind: "PodList", metadata: {}, items: [{ a: 1 }, { a: 2 }, { a: 3 }] });
  const { output, warnings } = await run(connection, { limit: 2 });
  assert.deepEqual(JSON.parse(output).items, [{ a: 1 }, { a: 2 }]);
  assert.deepEqual(warnings, ["the list stops at the limit of 2; 1 more remain"]);
});

Deno.test("list() stops at the output limit and reports it", async () => {
  const { output, warnings } = await run(new Pods(250, () => ({ name: "x".repeat(1000) })), {
    maxBytes: 120_000,
  });
  assert.equal(JSON.parse(output).items.length, 118);
  assert.ok(output.length <= 120_000);
  assert.deepEqual(warnings, [
    "the list stops after 118 items, at 120000 bytes; 132 more remain: " +
    "narrow it with namespace, label_selector or field_selector",
  ]);
});

Deno.test("list() requests fewer items if a page is too large", async () => {
  const connection = new Pods(8, () => ({ name: "x".repeat(1 << 20) }));
  const { output } = await run(connection, { maxBytes: 10 << 20 });
  assert.equal(JSON.parse(output).items.length, 8);
  const limits = connection.requests.map(({ path }) => new URLSearchParams(path.split("?")[1]).get("limit"));
  assert.deepEqual(limits, ["100", "25", "6", "1", "1", "1", "1", "1", "1", "1", "1"]);
});

Deno.test.each([
  { name: "to be read", size: 5 << 20, maxBytes: 10 << 20 },
  { name: "for the output", size: 2000, maxBytes: 1000 },
])("list() rejects an item that is too large $name", async ({ size, maxBytes }) => {
  await assert.rejects(
    run(new Pods(1, () => ({ name: "x".repeat(size) })), { maxBytes }),
    new RegExp(`^AppError: k8s: GET /api/v1/pods: response exceeds ${maxBytes}-byte limit; narrow it with`),
  );
});

Deno.test("list() masks each Secret on every page", async () => {
  const connection = new Pods(
    150,
    (index) => ({ metadata: { name: `s${index}` }, data: { key: "aHVudGVyMg==" } }),
  );
  const { output } = await run(connection, { isMasked: true }, ACTIONS.listSecrets);
  const { items } = JSON.parse(output);
  assert.equal(items.length, 150);
  assert.ok(!output.includes("aHVudGVyMg"));
  assert.deepEqual(items[149], { metadata: { name: "s149" }, data: { key: "[masked: 7 bytes]" } });
});

Deno.test.each([
  { name: "no items", body: { kind: "PodList" } },
  { name: "items that are no array", body: { items: {} } },
])("list() rejects an answer with $name", async ({ body }) => {
  const connection = new FakeConnection();
  connection.answer = () => answered(body);
  await assert.rejects(run(connection), /the answer is not a list$/);
});

const ACTION = ACTIONS.applyDeployment;
const MANIFEST = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "api", namespace: "prod", labels: { "a:b": 'c":"d' } },
  spec: { replicas: 2, list: [{ a: 1 }, { a: 2 }], "": null },
};
const text = (changes: object) => JSON.stringify({ ...MANIFEST, ...changes });
const metadata = (changes: object) => text({ metadata: { ...MANIFEST.metadata, ...changes } });

Deno.test.each([
  ["that matches", text({})],
  ["with spaces and line breaks", `\n ${JSON.stringify(MANIFEST, null, 2)}\n`],
  ["without the namespace of the request", metadata({ namespace: undefined })],
  ["with line breaks as escapes", text({}).replace('"spec"', '"note":"\\u0085\\u2028","spec"')],
  ["with the largest integers", text({ max: 2 ** 53 }).replace("9007199254740992", "9223372036854775807")],
  ["of exactly the limit", text({}).padEnd(65_536)],
])("checkManifest() accepts a manifest %s", (_name, manifest) => {
  checkManifest(manifest, ACTION);
});

Deno.test("checkManifest() accepts a manifest of a cluster-scoped core kind without a namespace", () => {
  const node = { ...ACTIONS.deleteNode, verb: "apply" } as const;
  const manifest = { apiVersion: "v1", kind: "Node", metadata: { name: "node-1" } };
  checkManifest(JSON.stringify(manifest), node);
  assert.throws(
    () => checkManifest(JSON.stringify({ ...manifest, metadata: { name: "node-1", namespace: "a" } }), node),
    /metadata\.namespace does not match the arguments: "a", expected none$/,
  );
});

Deno.test.each([
  { name: "an empty manifest", manifest: " \n", message: /k8s apply requires a manifest$/ },
  { name: "YAML", manifest: "kind: Deployment\n", message: /not JSON \(send JSON, not YAML\)$/ },
  { name: "YAML documents", manifest: "---\nkind: A\n---\nkind: B\n", message: /send JSON, not YAML/ },
  { name: "two documents", manifest: `${text({})}\n${text({})}`, message: /not one JSON document/ },
  {
    name: "two YAML documents that contain JSON",
    manifest: `${text({})}\n---\n${text({})}`,
    message: /not one JSON doc/,
  },
  { name: "JSON that breaks off", manifest: text({}).slice(0, -1), message: /is not valid JSON$/ },
  { name: "a list of objects", manifest: `[${text({})}]`, message: /is not a JSON object$/ },
  { name: "a text", manifest: `"kind"`, message: /send JSON, not YAML|not a JSON object/ },
  { name: "null", manifest: "null", message: /is not a JSON object$/ },
  {
    name: "65537 bytes",
    manifest: text({}).padEnd(65_537),
    message: /exceeds the limit of 65536 bytes$/,
  },
  {
    name: "32768 characters that are more than 64 KiB",
    manifest: text({ note: "ü".repeat(32_768) }),
    message: /exceeds the limit of 65536 bytes$/,
  },
  {
    name: "a duplicate key",
    manifest: text({}).replace('"kind"', '"kind":"Secret","kind"'),
    message: /has a duplicate key$/,
  },
  {
    name: "a duplicate nested key that is escaped",
    manifest: text({}).replace('{"a":1}', '{"a":1,"\\u0061":2}'),
    message: /has a duplicate key$/,
  },
  ...["\u0085", "\u2028", "\u2029"].map((char) => ({
    name: `a line break only in YAML, ${JSON.stringify(char)}`,
    manifest: metadata({ annotations: { run: `rm /tmp${char}/x` } }),
    message: /has a line break of YAML: escape it as \\u0085/,
  })),
  ...["12345678901234567890", "-9223372036854775809", "1e19"].map((number) => ({
    name: `the number ${number}, which exceeds 64 bits`,
    manifest: text({}).replace('"replicas":2', `"replicas":${number}`),
    message: /has a number beyond 64 bits$/,
  })),
  {
    name: "deeply nested arrays",
    manifest: text({}).replace('"replicas":2', `"replicas":${"[".repeat(30_000)}${"]".repeat(30_000)}`),
    message: /nested too deeply|not valid JSON/,
  },
  {
    name: "another kind",
    manifest: text({ kind: "Secret" }),
    message: /manifest's kind does not match the arguments: "Secret", expected "Deployment"$/,
  },
  { name: "another version", manifest: text({ apiVersion: "apps/v1beta1" }), message: /apiVersion does not/ },
  { name: "the core group", manifest: text({ apiVersion: "v1" }), message: /apiVersion does not match/ },
  { name: "no kind", manifest: text({ kind: undefined }), message: /kind does not .* missing or not a text/ },
  { name: "no metadata", manifest: text({ metadata: [] }), message: /no metadata object$/ },
  { name: "another name", manifest: metadata({ name: "api2" }), message: /metadata\.name does not match/ },
  { name: "no name", manifest: metadata({ name: undefined }), message: /metadata\.name does not match/ },
  {
    name: "generateName instead of a name",
    manifest: metadata({ name: undefined, generateName: "api" }),
    message: /metadata\.name does not match/,
  },
  { name: "another namespace", manifest: metadata({ namespace: "dev" }), message: /"dev", expected "prod"$/ },
  { name: "null for a namespace", manifest: metadata({ namespace: null }), message: /metadata\.namespace/ },
])("checkManifest() rejects $name", ({ manifest, message }) => {
  assert.throws(() => checkManifest(manifest, ACTION), (error) => {
    assert.ok(error instanceof AppError, String(error));
    assert.equal(error.code, "invalid_request");
    assert.match(error.message, message);
    return true;
  });
});
