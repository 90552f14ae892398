import assert from "node:assert/strict";
import { controlPlaneConfig } from "@gateway/control-plane/config";
import { controlPlanePermissions } from "@gateway/control-plane/permissions";
import { loadConfig, parseConfig } from "@gateway/shared/config";
import { formatJson } from "@gateway/shared/permissions";
import { signerConfig, UNSUPPORTED_SIGNER_KEYS } from "@gateway/signer/config";
import { signerPermissions } from "@gateway/signer/permissions";
import { parse } from "yaml";
import { brokerConfig, UNSUPPORTED_BROKER_KEYS } from "@gateway/broker/config";
import { brokerPermissions } from "@gateway/broker/permissions";
import {
  type ConfigChoices,
  formatBrokerConfig,
  formatControlPlaneConfig,
  formatSignerConfig,
} from "../ctl/setup/config_text.ts";
import { createLayout, DEFAULT_LISTENERS } from "../ctl/setup/layout.ts";

const FOLDER = new URL("../deploy/compose/", import.meta.url).pathname;
const INSTANCES = ["signer-1", "signer-2", "control-plane-1", "control-plane-2"];

Deno.test("permissions.json of the compose file contains exactly the permissions that its configs need", async () => {
  const signer = await loadConfig({
    ...{ path: `${FOLDER}signer.json`, what: "signer config", schema: signerConfig },
    unsupported: UNSUPPORTED_SIGNER_KEYS,
  });
  const path = `${FOLDER}control-plane.json`;
  const controlPlane = await loadConfig({ path, what: "control plane config", schema: controlPlaneConfig });
  const workingFolder = "/";
  assert.deepEqual(JSON.parse(await Deno.readTextFile(`${FOLDER}permissions.json`)), {
    permissions: {
      signer: formatJson(
        signerPermissions(signer, { configPath: "/etc/gateway/signer.json", workingFolder }),
      ),
      "control-plane": formatJson(
        controlPlanePermissions(controlPlane, {
          configPath: "/etc/gateway/control-plane.json",
          workingFolder,
        }),
      ),
    },
  });
});

Deno.test("the compose file gives each instance a separate directory and log, and binds monitors to loopback", async () => {
  const text = await Deno.readTextFile(`${FOLDER}compose.yaml`);
  const { services } = parse(text, { merge: true }) as {
    readonly services: Readonly<Record<string, { ports?: string[]; volumes: string[]; read_only?: boolean }>>;
  };
  assert.deepEqual(Object.keys(services), ["db1", "db2", ...INSTANCES]);
  for (const name of INSTANCES) {
    const { volumes, read_only } = services[name] ?? { volumes: [] };
    assert.ok(volumes.includes(`./etc/${name}:/etc/gateway:ro`) && read_only, name);
    assert.ok(volumes.some((volume) => volume.startsWith(`${name}:/var/log/gateway/`)), name);
  }
  const ports = Object.values(services).flatMap((service) => service.ports ?? []);
  assert.equal(new Set(ports).size, 2 * INSTANCES.length);
  assert.ok(ports.every((port) => port.startsWith("127.0.0.1:")), `${ports}`);
});

const ROOT = new URL("../", import.meta.url).pathname;
/** Creates the files like `init` in the demo's compose file. */
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

Deno.test("permissions.json of the compose demo contains exactly the permissions that the configs of init need", async () => {
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

Deno.test("the compose file of the debate publishes only the proxy, on loopback, and contains no password", async () => {
  const { services } = parse(await Deno.readTextFile(`${ROOT}deploy/debate/compose.yaml`));
  const { debate, proxy, ...others } = services;
  assert.deepEqual(others, {});
  assert.deepEqual([debate.ports, proxy.ports], [undefined, ["127.0.0.1:8000:8000"]]);
  assert.deepEqual([debate.read_only, debate.cap_drop, debate.environment], [true, ["ALL"], undefined]);
  assert.deepEqual([debate.volumes, debate.env_file], [["data:/data"], ["./debate.env"]]);
});

Deno.test("the compose demo uses no feature that only podman has", async () => {
  for (const file of ["demo", "compose", "debate"]) {
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
