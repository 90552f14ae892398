import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { ACTIONS } from "../testing/fake_cluster.ts";
import { checkManifest } from "./run_action.ts";

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
  ["with blanks and line breaks", `\n ${JSON.stringify(MANIFEST, null, 2)}\n`],
  ["without a namespace, which the request has", metadata({ namespace: undefined })],
  ["with line breaks as escapes", text({}).replace('"spec"', '"note":"\\u0085\\u2028","spec"')],
  ["with the largest integers", text({ max: 2 ** 53 }).replace("9007199254740992", "9223372036854775807")],
  ["of exactly the limit", text({}).padEnd(65_536)],
])("checkManifest() takes a manifest %s", (_name, manifest) => {
  checkManifest(manifest, ACTION);
});

Deno.test("checkManifest() takes a manifest of a core kind without a namespace", () => {
  const node = { ...ACTIONS.deleteNode, verb: "apply" } as const;
  const manifest = { apiVersion: "v1", kind: "Node", metadata: { name: "node-1" } };
  checkManifest(JSON.stringify(manifest), node);
  assert.throws(
    () => checkManifest(JSON.stringify({ ...manifest, metadata: { name: "node-1", namespace: "a" } }), node),
    /metadata\.namespace does not match the arguments: "a", expected none$/,
  );
});

Deno.test.each([
  { name: "nothing", manifest: " \n", message: /k8s apply requires a manifest$/ },
  { name: "YAML", manifest: "kind: Deployment\n", message: /not JSON \(send JSON, not YAML\)$/ },
  { name: "YAML documents", manifest: "---\nkind: A\n---\nkind: B\n", message: /send JSON, not YAML/ },
  { name: "two documents", manifest: `${text({})}\n${text({})}`, message: /not one JSON document/ },
  {
    name: "two YAML documents of JSON",
    manifest: `${text({})}\n---\n${text({})}`,
    message: /not one JSON doc/,
  },
  { name: "JSON that breaks off", manifest: text({}).slice(0, -1), message: /is not valid JSON$/ },
  { name: "a list of objects", manifest: `[${text({})}]`, message: /is not a JSON object$/ },
  { name: "a text", manifest: `"kind"`, message: /send JSON, not YAML|not a JSON object/ },
  { name: "null", manifest: "null", message: /is not a JSON object$/ },
  {
    name: "64 KiB and a byte",
    manifest: text({}).padEnd(65_537),
    message: /exceeds the limit of 65536 bytes$/,
  },
  {
    name: "64 KiB in characters that are more bytes",
    manifest: text({ note: "ü".repeat(32_768) }),
    message: /exceeds the limit of 65536 bytes$/,
  },
  {
    name: "a second name",
    manifest: text({}).replace('"kind"', '"kind":"Secret","kind"'),
    message: /key twice$/,
  },
  {
    name: "a second name deep inside, written otherwise",
    manifest: text({}).replace('{"a":1}', '{"a":1,"\\u0061":2}'),
    message: /key twice$/,
  },
  ...["\u0085", "\u2028", "\u2029"].map((char) => ({
    name: `a line break of YAML alone, ${JSON.stringify(char)}`,
    manifest: metadata({ annotations: { run: `rm /tmp${char}/x` } }),
    message: /has a line break that YAML reads otherwise: write it as \\u0085/,
  })),
  ...["12345678901234567890", "-9223372036854775809", "1e19"].map((number) => ({
    name: `the number ${number}, which would become another`,
    manifest: text({}).replace('"replicas":2', `"replicas":${number}`),
    message: /has a number beyond 64 bits$/,
  })),
  {
    name: "no end of arrays",
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
    name: "a generated name",
    manifest: metadata({ name: undefined, generateName: "api" }),
    message: /metadata\.name does not match/,
  },
  { name: "another namespace", manifest: metadata({ namespace: "dev" }), message: /"dev", expected "prod"$/ },
  { name: "null for a namespace", manifest: metadata({ namespace: null }), message: /metadata\.namespace/ },
])("checkManifest() refuses $name", ({ manifest, message }) => {
  assert.throws(() => checkManifest(manifest, ACTION), (error) => {
    assert.ok(error instanceof AppError, String(error));
    assert.equal(error.code, "invalid_request");
    assert.match(error.message, message);
    return true;
  });
});
