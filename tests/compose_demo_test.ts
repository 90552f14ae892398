/** The compose demo's programs run under the permissions that the configs of `broker-ctl init` need, and no others. */
import assert from "node:assert/strict";
import { brokerConfig, UNSUPPORTED_BROKER_KEYS } from "@gateway/broker/config";
import { brokerPermissions } from "@gateway/broker/permissions";
import { controlPlaneConfig } from "@gateway/control-plane/config";
import { controlPlanePermissions } from "@gateway/control-plane/permissions";
import { parseConfig } from "@gateway/shared/config";
import { formatJson } from "@gateway/shared/permissions";
import { signerConfig, UNSUPPORTED_SIGNER_KEYS } from "@gateway/signer/config";
import { signerPermissions } from "@gateway/signer/permissions";
import {
  type ConfigChoices,
  formatBrokerConfig,
  formatControlPlaneConfig,
  formatSignerConfig,
} from "../ctl/setup/config_text.ts";
import { createLayout, DEFAULT_LISTENERS } from "../ctl/setup/layout.ts";

const ROOT = new URL("../", import.meta.url).pathname;
/** As `init` of the demo's compose file. */
const LAYOUT = createLayout("/var/lib/gateway/demo");
const CHOICES: ConfigChoices = {
  route: "control_plane",
  listeners: {
    ...DEFAULT_LISTENERS,
    ...{ signer: "0.0.0.0:9443", controlPlane: "0.0.0.0:7443", broker: "0.0.0.0:8443" },
  },
  hosts: [],
  networks: ["127.0.0.1:22"],
  names: ["demo.example"],
};

Deno.test("permissions.json of the compose demo holds exactly what the configs of init need", async () => {
  const place = (configPath: string) => ({ configPath, workingFolder: "/" });
  const signer = parseConfig({
    ...{ what: "signer config", source: "init", schema: signerConfig, unsupported: UNSUPPORTED_SIGNER_KEYS },
    text: formatSignerConfig(LAYOUT, CHOICES),
  });
  const controlPlane = parseConfig({
    ...{ what: "control plane config", source: "init", schema: controlPlaneConfig },
    text: formatControlPlaneConfig(LAYOUT, CHOICES),
  });
  const broker = parseConfig({
    ...{ what: "broker config", source: "init", schema: brokerConfig, unsupported: UNSUPPORTED_BROKER_KEYS },
    text: formatBrokerConfig(LAYOUT, CHOICES),
  });
  const frontend = "serve-http";
  const ctl = JSON.parse(await Deno.readTextFile(`${ROOT}ctl/deno.json`)) as {
    readonly permissions: Readonly<Record<string, unknown>>;
  };
  assert.deepEqual(JSON.parse(await Deno.readTextFile(`${ROOT}deploy/demo/permissions.json`)), {
    permissions: {
      signer: formatJson(signerPermissions(signer, place(LAYOUT.signerConfig))),
      "control-plane": formatJson(controlPlanePermissions(controlPlane, place(LAYOUT.controlPlaneConfig))),
      broker: formatJson(brokerPermissions(broker, { ...place(LAYOUT.brokerConfig), frontend })),
      "broker-ctl": ctl.permissions["broker-ctl"],
    },
  });
});

Deno.test("the compose demo uses nothing that only podman has", async () => {
  for (const file of ["demo", "compose"]) {
    const text = await Deno.readTextFile(`${ROOT}deploy/${file}/compose.yaml`);
    assert.doesNotMatch(text, /:U\b/, "a mount option of podman");
  }
  const run = await Deno.readTextFile(`${ROOT}deploy/demo/run`);
  const lines = run.split("\n").filter((line) => !line.startsWith("#") && /\bpodman\b/.test(line));
  assert.deepEqual(lines, [
    "engine=${ENGINE:-podman}",
    '  if [ "$engine" = podman ]; then podman-compose "$@"; else "$engine" compose "$@"; fi',
  ]);
});
