import { AppError } from "@gateway/shared/errors";

const NAME = /^[a-zA-Z0-9.-]{1,120}\/[a-zA-Z0-9._-]{1,79}$/;
const IMAGE = /^[a-z0-9][a-z0-9.-]*\.[a-z]{2,}(?:\/[a-z0-9][a-z0-9._-]*){2,}$/;
const FOLDER = "/etc/gateway";

/**
 * The broker's entry in the MCP registry (server.schema.json of 2025-12-11). The label
 * `io.modelcontextprotocol.server.name` of the image must have the same name: build it with `--build-arg MCP_NAME=…`.
 *
 * @param publication the server after the publisher's reversed domain (`org.example/gateway`), and the image without tag
 */
export function describeServer(
  { name, image }: { readonly name: string; readonly image: string },
  version: string,
): string {
  if (!NAME.test(name)) throw refuse("--mcp-name", name, "org.example/gateway");
  if (!IMAGE.test(image)) throw refuse("--image", image, "registry.example.org/namespace/gateway");
  const folder = {
    description: "Directory with mcp.json, its certificates and its audit log, as created by broker-ctl init",
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
