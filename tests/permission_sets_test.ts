import assert from "node:assert/strict";
import { brokerConfig, UNSUPPORTED_BROKER_KEYS } from "@gateway/broker/config";
import { controlPlaneConfig } from "@gateway/control-plane/config";
import { loadConfig } from "@gateway/shared/config";
import { signerConfig, UNSUPPORTED_SIGNER_KEYS } from "@gateway/signer/config";
import { BROKER_FRONTENDS, type BrokerFrontend, brokerPermissions } from "@gateway/broker/permissions";
import { controlPlanePermissions } from "@gateway/control-plane/permissions";
import { formatJson, mergeSets } from "@gateway/shared/permissions";
import { signerPermissions } from "@gateway/signer/permissions";
import { compilePolicy } from "@gateway/shared/policy";
import { compileLocalPolicy } from "../broker/authority/local.ts";
import brokerManifest from "../broker/deno.json" with { type: "json" };
import { bridgePermissions, readSettings } from "../ctl/bridge/settings.ts";
import ctlManifest from "../ctl/deno.json" with { type: "json" };
import controlPlaneManifest from "../control_plane/deno.json" with { type: "json" };
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

Deno.test("control_plane/deno.json holds exactly the permissions that the installed config needs", async () => {
  const config = await loadConfig({
    path: sample("control-plane.json"),
    what: "control plane config",
    schema: controlPlaneConfig,
  });
  const configPath = "/etc/gateway/control-plane.json";
  const set = controlPlanePermissions(config, { configPath, workingFolder });
  assert.deepEqual(controlPlaneManifest.permissions, { "control-plane": formatJson(set) });
});

Deno.test("broker/deno.json holds exactly the permissions that the installed config needs", async () => {
  const config = await loadConfig({
    path: sample("config.json"),
    what: "broker config",
    schema: brokerConfig,
    unsupported: UNSUPPORTED_BROKER_KEYS,
  });
  const derive = (frontend: BrokerFrontend) =>
    brokerPermissions(config, { configPath: "/etc/gateway/config.json", workingFolder, frontend });
  assert.deepEqual(brokerManifest.permissions, {
    broker: formatJson(derive("serve-http")),
    "broker-mcp": formatJson(derive("serve-mcp")),
    "broker-mcp-http": formatJson(derive("serve-mcp-http")),
    gateway: formatJson(mergeSets(...BROKER_FRONTENDS.map(derive))),
  });
});

Deno.test("ctl/deno.json holds exactly the permissions that the installed approval bridge needs", async () => {
  const unit = await Deno.readTextFile(sample("systemd/gateway-approval-bridge.service"));
  const variables = Object.fromEntries(
    [...unit.matchAll(/^Environment=(BRIDGE_\w+)=(.+)$/gm)].map(([, name, value]) => [name, value]),
  );
  const settings = readSettings(["--slack-channel=C0"], { variables, workingFolder });
  assert.deepEqual(ctlManifest.permissions["approval-bridge"], formatJson(bridgePermissions(settings)));
});

Deno.test("the sample of local mode can be used", async () => {
  const config = await loadConfig({
    path: sample("local.json"),
    what: "broker config",
    schema: brokerConfig,
    unsupported: UNSUPPORTED_BROKER_KEYS,
  });
  assert.equal(config.signer, undefined);
  assert.deepEqual([...compileLocalPolicy(config).hosts.keys()], ["web01"]);
  const frontend = "serve-mcp";
  const { net } = brokerPermissions(config, {
    configPath: "/etc/gateway/local.json",
    workingFolder,
    frontend,
  });
  assert.deepEqual(net, ["10.0.0.11:22", "127.0.0.1:9180", "unix:/run/gateway/ca-agent.sock"]);
});
