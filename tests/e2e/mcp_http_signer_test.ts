import assert from "node:assert/strict";
import {
  Client,
  ClientCredentialsProvider,
  StreamableHTTPClientTransport,
} from "@modelcontextprotocol/client";
import { brokerCommand } from "../stage/service_command.ts";
import { editConfig, HOST } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { freePort } from "../stage/free_port.ts";
import { OpenIdServer, SCOPE } from "./open_id_server.ts";

const AGENT = { id: "agent-1", secret: "secret-of-agent-1" };
const ALLOW_ALL = { path: ["command_policies", "starter"], value: { mode: "off" } };

Deno.test("a signer that verifies end users for itself believes the token that came with the call", async () => {
  const groups = ["local"];
  await using provider = await OpenIdServer.start({ agents: [AGENT], groups });
  const listen = `127.0.0.1:${freePort()}`;
  const url = `https://${listen}/mcp`;
  const oidc = { issuer: provider.issuer, audience: url, required_scopes: [SCOPE], groups_claim: "groups" };
  const gated = { allowed_groups: ["local"], require_verified_end_user: true };
  const signer = [
    ALLOW_ALL,
    { path: ["callers", "broker-local"], value: gated },
    { path: ["end_user_oidc"], value: oidc },
  ];
  await withStage({ signer }, async (stage) => {
    await stage.startSigner();
    await editConfig(stage.init.broker_config, [
      { path: ["listen"], value: listen },
      { path: ["resource_url"], value: url },
      { path: ["oauth"], value: oidc },
    ]);
    await stage.start(await brokerCommand(stage.init.broker_config, "serve-mcp-http"));
    using http = Deno.createHttpClient({ caCerts: [await Deno.readTextFile(stage.init.mtls_ca)] });
    const credentials = { clientId: AGENT.id, clientSecret: AGENT.secret, scope: SCOPE };
    const transport = new StreamableHTTPClientTransport(new URL(url), {
      authProvider: new ClientCredentialsProvider({ ...credentials, expectedIssuer: provider.issuer }),
      fetch: (input, init) => fetch(input, { ...init, client: http }),
    });
    const client = new Client({ name: "test", version: "1" });
    await client.connect(transport);
    const run = { name: "ssh_execute", arguments: { server: HOST, command: "echo verified" } };
    const result = await client.callTool(run);
    assert.match(JSON.stringify(result.content), /verified/);
    await client.close();
    const records = await Deno.readTextFile(stage.init.signer_audit_log);
    assert.match(records, /"caller":"broker-local".*"outcome":"issued"/);
    assert.match(records, /agent-1/);
  });
});
