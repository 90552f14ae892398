/** The compose file: two of each on one database, each under the permissions that its config needs and no others. */
import assert from "node:assert/strict";
import { controlPlaneConfig } from "@gateway/control-plane/config";
import { controlPlanePermissions } from "@gateway/control-plane/permissions";
import { loadConfig } from "@gateway/shared/config";
import { formatJson } from "@gateway/shared/permissions";
import { signerConfig, UNSUPPORTED_SIGNER_KEYS } from "@gateway/signer/config";
import { signerPermissions } from "@gateway/signer/permissions";
import { parse } from "yaml";

const FOLDER = new URL("../deploy/compose/", import.meta.url).pathname;
const INSTANCES = ["signer-1", "signer-2", "control-plane-1", "control-plane-2"];

Deno.test("permissions.json of the compose file holds exactly what its configs need", async () => {
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

Deno.test("the compose file gives each instance a folder and a log of its own, and shows monitors to loopback alone", async () => {
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
