import assert from "node:assert/strict";
import { mendCommonJs, narrowComments } from "./bundle.ts";
import { controlText, debianVersion, maintainerScripts } from "./debian.ts";
import { PACKAGES } from "./packages.ts";
import { serialize } from "./sbom.ts";
import * as z from "@zod/zod";
import { describeServer } from "./server_json.ts";

function mend(text: string): string | undefined {
  const lib = "var require_lib = f();\nexport default require_lib();\n";
  const files = [["/out/main.js", text], ["/out/lib-A1.js", lib], [
    "/out/esm-B2.js",
    "export { a };\n",
  ]] as const;
  return mendCommonJs(new Map(files)).get("/out/main.js");
}

Deno.test.each([
  {
    name: "defines __dirname in CommonJS code",
    text: "f(__dirname);\n",
    expected: "var __dirname = import.meta.dirname;\nf(__dirname);\n",
  },
  {
    name: "defines __dirname in addition to a package's own __dirname, which is assigned later",
    text: "var a, __dirname, b;\nf(__dirname);\n",
    expected: "var __dirname = import.meta.dirname;\nvar a, __dirname, b;\nf(__dirname);\n",
  },
  { name: "leaves a file that has one", text: "const __dirname = d();\nf(__dirname);\n" },
  { name: "leaves a file that needs none", text: "f(import.meta.dirname);\n" },
  {
    name: "exposes the named exports of a CommonJS module that is imported on demand",
    text: 'const { Client } = await import("./lib-A1.js");\n',
    expected: 'const { Client } = await import("./lib-A1.js").then((module) => module.default);\n',
  },
  { name: "leaves named imports", text: 'const { a } = await import("./esm-B2.js");\n' },
])("mendCommonJs() $name", ({ text, expected }) => {
  assert.equal(mend(text), expected ?? text);
});

function packageOf(name: string) {
  const found = PACKAGES.find((each) => each.name === name);
  assert.ok(found !== undefined);
  return found;
}

Deno.test.each([
  { version: "0.2.0", expected: "0.2.0" },
  { version: "0.2.0-rc.1", expected: "0.2.0~rc.1" },
])("debianVersion() converts $version to $expected for the right sort order", ({ version, expected }) => {
  assert.equal(debianVersion(version), expected);
});

Deno.test("controlText() makes a service depend on the launcher of its exact version and recommends no package", () => {
  const text = controlText(packageOf("gateway-control-plane"), {
    version: "0.2.0-rc.1",
    architecture: "all",
    kilobytes: 7,
  });
  assert.match(text, /^Version: 0\.2\.0~rc\.1$/m);
  assert.match(text, /^Depends: gateway-common \(= 0\.2\.0~rc\.1\)$/m);
  assert.doesNotMatch(text, /^Recommends:/m);
});

Deno.test("maintainerScripts() start no service, and on upgrade restart only running ones", () => {
  const { postinst = "" } = maintainerScripts(packageOf("gateway-signer"));
  assert.doesNotMatch(postinst, /systemctl (?:start|enable|restart)/);
  assert.match(postinst, /\[ -z "\$\{2-\}" \] \|\| systemctl try-restart gateway-signer\.service/);
});

Deno.test.each(PACKAGES.map(({ name }) => ({ name })))(
  "maintainerScripts() of $name create a password only for the debate",
  ({ name }) => {
    const { postinst = "" } = maintainerScripts(packageOf(name));
    assert.equal(postinst.includes("WEB_PASSWORD"), name === "gateway-debate");
  },
);

Deno.test.each(PACKAGES.map(({ name }) => ({ name })))(
  "maintainerScripts() of $name remove no key, state or record",
  ({ name }) => {
    for (const text of Object.values(maintainerScripts(packageOf(name)))) {
      assert.doesNotMatch(text, /\brm\b|userdel|groupdel|find .*-delete/);
    }
  },
);

Deno.test.each([
  { name: "gateway-common", unit: "gateway-watch@signer.timer" },
  { name: "gateway-ctl", unit: "gateway-renew.timer" },
  { name: "gateway-ctl", unit: "gateway-backup.timer" },
  { name: "gateway-approval-bridge", unit: "gateway-approval-bridge.service" },
  { name: "gateway-debate", unit: "gateway-debate.service" },
  { name: "gateway-signer", unit: "gateway-ca-agent.service" },
])("maintainerScripts() of $name disable $unit on removal, booted or not", ({ name, unit }) => {
  const { prerm = "" } = maintainerScripts(packageOf(name));
  assert.match(
    prerm,
    new RegExp(`then systemctl disable --now .*${unit}.*; else systemctl disable .*${unit}`),
  );
});

Deno.test("maintainerScripts() do not restart the CA agent on upgrade, because it would lose the key", () => {
  const { postinst = "" } = maintainerScripts(packageOf("gateway-signer"));
  assert.match(postinst, /try-restart gateway-signer\.service$/m);
});

Deno.test("narrowComments() replaces non-ASCII characters if they occur only in comments", () => {
  const text = "// a — b\n  /* “c” */\n * é → 😀\nlet a = 'é';\n";
  assert.equal(narrowComments(text), "// a ? b\n  /* ?c? */\n * é ? ?\nlet a = 'é';\n");
});

Deno.test.each([
  ["in a string", "// a — b\nlet a = '—';\n"],
  ["after code", "// a — b\nlet a = 1; // —\n"],
  ["nowhere", "// é\nlet a = 1;\n"],
])("narrowComments() does not change a module that has non-ASCII characters %s", (_where, text) => {
  assert.equal(narrowComments(text), text);
});

const LOCK = {
  npm: { "@hono/x@1.0.0_zod@4.0.0": { integrity: `sha512-${btoa("\x01".repeat(64))}` }, "zod@4.0.0": {} },
};

Deno.test("serialize() lists a package by its purl with the hash from deno.lock, peers or not", () => {
  const packages = [{ name: "@hono/x", version: "1.0.0" }];
  const bill = JSON.parse(serialize({ version: "0.1.0", epoch: 0, packages, lock: LOCK }));
  assert.equal(bill.metadata.component.version, "0.1.0");
  assert.equal(bill.metadata.timestamp, "1970-01-01T00:00:00.000Z");
  const [hono, deno] = bill.components;
  assert.equal(deno.name, "deno");
  assert.equal(hono.purl, "pkg:npm/%40hono/x@1.0.0");
  assert.deepEqual(hono.hashes, [{ alg: "SHA-512", content: "01".repeat(64) }]);
});

Deno.test("serialize() rejects a package without a hash", () => {
  const packages = [{ name: "zod", version: "4.0.0" }];
  assert.throws(() => serialize({ version: "0.1.0", epoch: 0, packages, lock: LOCK }), /no hash/);
});

const PUBLICATION = { name: "org.example/gateway", image: "registry.example.org/tools/gateway" };

/**
 * The parts of server.schema.json of 2025-12-11 for our kind of server, and further rules of the registry.
 */
const input = {
  value: z.string(),
  variables: z.record(
    z.string(),
    z.strictObject({
      description: z.string(),
      isRequired: z.boolean(),
      format: z.enum(["string", "number", "boolean", "filepath"]),
    }),
  ).optional(),
};
const argument = z.strictObject({ type: z.literal("named"), name: z.string().startsWith("-"), ...input });
const SCHEMA = z.strictObject({
  $schema: z.url(),
  name: z.string().min(3).max(200).regex(/^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/),
  title: z.string().min(1).max(100),
  description: z.string().min(1).max(100),
  version: z.string().max(255).regex(/^\d+\.\d+\.\d+(?:-[a-z0-9.]+)?$/),
  packages: z.tuple([z.strictObject({
    registryType: z.literal("oci"),
    // The tag of an image is the version: the registry rejects an additional "version".
    identifier: z.string().regex(/^[^/]+\.[^/]+\/.+:(?!latest$)[^:]+$/),
    transport: z.strictObject({ type: z.literal("stdio") }),
    // Required if there are runtime arguments.
    runtimeHint: z.string(),
    runtimeArguments: z.array(argument),
    packageArguments: z.array(argument),
  })]),
});

Deno.test("describeServer() returns a document that matches the schema of the MCP registry", () => {
  const server = SCHEMA.parse(JSON.parse(describeServer(PUBLICATION, "0.2.0")));
  assert.equal(server.packages[0].identifier, "registry.example.org/tools/gateway:0.2.0");
  // Each name in braces is a variable that the client requests from its user.
  for (const { value, variables = {} } of server.packages[0].runtimeArguments) {
    const names = [...value.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    assert.deepEqual(names, Object.keys(variables));
  }
});

Deno.test.each([
  { what: "a name without a domain", publication: { ...PUBLICATION, name: "gateway" } },
  { what: "an image without a registry", publication: { ...PUBLICATION, image: "tools/gateway" } },
  { what: "an image with a tag", publication: { ...PUBLICATION, image: `${PUBLICATION.image}:latest` } },
])("describeServer() rejects $what", ({ publication }) => {
  assert.throws(() => describeServer(publication, "0.2.0"), { code: "invalid_request" });
});
