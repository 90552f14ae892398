import { AppError } from "@gateway/shared/errors";

/** Where the image of the broker is published, and under which name: nobody's but the publisher's to say. */
interface Publication {
  /** Name in the MCP registry: a domain of the publisher's in reverse, a slash, the server, as `org.example/gateway`. */
  readonly name: string;
  /** The image without tag: registry, namespace and repository. */
  readonly image: string;
}

const NAME = /^[a-zA-Z0-9.-]{1,120}\/[a-zA-Z0-9._-]{1,79}$/;
const IMAGE = /^[a-z0-9][a-z0-9.-]*\.[a-z]{2,}(?:\/[a-z0-9][a-z0-9._-]*){2,}$/;
const FOLDER = "/etc/gateway";

/**
 * `server.json`, by which the MCP registry lists the broker (server.schema.json of 2025-12-11). The image has the name in
 * its label `io.modelcontextprotocol.server.name`: build it with `--build-arg MCP_NAME=…`.
 *
 * @throws {AppError} `invalid_request` for a name or an image that the registry refuses
 */
export function describeServer({ name, image }: Publication, version: string): string {
  if (!NAME.test(name)) throw refuse("--mcp-name", name, "org.example/gateway");
  if (!IMAGE.test(image)) throw refuse("--image", image, "registry.example.org/namespace/gateway");
  const folder = {
    description: "Folder with mcp.json, its certificates and its audit log, as broker-ctl init makes them",
    isRequired: true,
    format: "filepath",
  };
  const server = {
    $schema: "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
    name,
    title: "Gateway",
    description: "SSH and Kubernetes for agents: signed per command by policy, approved by people, audited",
    version,
    packages: [{
      registryType: "oci",
      identifier: `${image}:${version}`,
      transport: { type: "stdio" },
      runtimeHint: "docker",
      runtimeArguments: [
        { type: "named", name: "--volume", value: `{folder}:${FOLDER}`, variables: { folder } },
      ],
      packageArguments: [{ type: "named", name: "-config", value: `${FOLDER}/mcp.json` }],
    }],
  };
  return `${JSON.stringify(server, null, 2)}\n`;
}

function refuse(option: string, text: string, example: string): AppError {
  return new AppError(
    "invalid_request",
    `Cannot use ${option} ${JSON.stringify(text)}: expected such as ${example}`,
  );
}
