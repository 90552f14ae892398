import assert from "node:assert/strict";
import * as z from "@zod/zod";
import { describeServer } from "./server_json.ts";

const PUBLICATION = { name: "org.example/gateway", image: "registry.example.org/tools/gateway" };

/** Of server.schema.json of 2025-12-11 what holds for our kind of server, and what the registry itself asks for more. */
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
    // Of an image the tag is the version: the registry takes no "version" beside it.
    identifier: z.string().regex(/^[^/]+\.[^/]+\/.+:(?!latest$)[^:]+$/),
    transport: z.strictObject({ type: z.literal("stdio") }),
    // Has to be there where there are arguments of the runtime.
    runtimeHint: z.string(),
    runtimeArguments: z.array(argument),
    packageArguments: z.array(argument),
  })]),
});

Deno.test("describeServer() is what the MCP registry takes", () => {
  const server = SCHEMA.parse(JSON.parse(describeServer(PUBLICATION, "0.2.0")));
  assert.equal(server.packages[0].identifier, "registry.example.org/tools/gateway:0.2.0");
  // Each name in braces is a variable that the client asks for.
  for (const { value, variables = {} } of server.packages[0].runtimeArguments) {
    const names = [...value.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    assert.deepEqual(names, Object.keys(variables));
  }
});

Deno.test.each([
  { what: "a name without a domain", publication: { ...PUBLICATION, name: "gateway" } },
  { what: "an image without a registry", publication: { ...PUBLICATION, image: "tools/gateway" } },
  { what: "an image with a tag", publication: { ...PUBLICATION, image: `${PUBLICATION.image}:latest` } },
])("describeServer() refuses $what", ({ publication }) => {
  assert.throws(() => describeServer(publication, "0.2.0"), { code: "invalid_request" });
});
