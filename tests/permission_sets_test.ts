import assert from "node:assert/strict";
import { brokerConfig, UNSUPPORTED_BROKER_KEYS } from "@gateway/shared/config/broker";
import { loadConfig } from "@gateway/shared/config/load";
import { signerConfig, UNSUPPORTED_SIGNER_KEYS } from "@gateway/shared/config/signer";
import { type BrokerFrontend, brokerPermissions } from "@gateway/shared/permissions/broker";
import { formatJson } from "@gateway/shared/permissions/set";
import { signerPermissions } from "@gateway/shared/permissions/signer";
import { compilePolicy } from "@gateway/shared/policy/compile";
import brokerManifest from "../broker/deno.json" with { type: "json" };
import signerManifest from "../signer/deno.json" with { type: "json" };

const workingFolder = "/";

function sample(name: string): string {
  return new URL(`../deploy/${name}`, import.meta.url).pathname;
}

Deno.test("signer/deno.json holds exactly the permissions that the installed config needs", async () => {
  const config = await loadConfig({
    path: sample("signer.json"),
    what: "signer config",
    schema: signerConfig,
    unsupported: UNSUPPORTED_SIGNER_KEYS,
  });
  const set = signerPermissions(config, { configPath: "/etc/gateway/signer.json", workingFolder });
  assert.deepEqual(signerManifest.permissions, { signer: formatJson(set) });
  assert.equal(compilePolicy(config).kind, "ok");
});

Deno.test("broker/deno.json holds exactly the permissions that the installed config needs", async () => {
  const config = await loadConfig({
    path: sample("config.json"),
    what: "broker config",
    schema: brokerConfig,
    unsupported: UNSUPPORTED_BROKER_KEYS,
  });
  const derive = (frontend: BrokerFrontend) =>
    formatJson(
      brokerPermissions(config, { configPath: "/etc/gateway/config.json", workingFolder, frontend }),
    );
  assert.deepEqual(brokerManifest.permissions, {
    broker: derive("serve-http"),
    "broker-mcp": derive("serve-mcp"),
  });
});
