import assert from "node:assert/strict";
import { envelopeSignersLine } from "@gateway/shared/envelope";
import { SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { createFolder, run } from "../adapters/ctl_fixture.ts";
import { NEXT_KEY, type SIGNER_KEY } from "./installed_shim.ts";
import { ACCOUNT } from "./sealed_host.ts";

/** The output of the installer if there is no problem. */
export const CLEAN = "gateway-shim is installed: no problems found\n";
export const STORE = "/var/lib/gateway-shim/nonces";
/** A key in the form of shims of formats v2 and v3. */
export const keyLine = (key: typeof SIGNER_KEY) => envelopeSignersLine(key);

/** A directory with a signer's config and the seed of its envelope key. */
export async function createConfig(host: Readonly<Record<string, unknown>> = {}) {
  const folder = await createFolder();
  await Deno.writeFile(`${folder.path}/envelope.seed`, new Uint8Array(32).fill(1));
  const files = {
    server_cert: "x",
    server_key: "x",
    client_ca: "x",
    ca_key: "x",
    audit_log: "x",
    audit_key: "x",
  };
  await Deno.writeTextFile(`${folder.path}/next`, `# the next one\n${keyLine(NEXT_KEY)}\n`);
  await Deno.writeTextFile(
    `${folder.path}/signer.json`,
    JSON.stringify({
      ...files,
      envelope_key: `${folder.path}/envelope.seed`,
      hosts: {
        web01: {
          addr: "10.0.0.1:22",
          user: ACCOUNT,
          host_key: SAMPLE_HOST_KEY,
          principal: "host:web01",
          command_policy: {},
          ...host,
        },
      },
    }),
  );
  return folder;
}

export async function script(...args: readonly string[]): Promise<string> {
  return await scriptFor({}, ...args);
}

/** The same for a host with additional config keys. */
export async function scriptFor(
  host: Readonly<Record<string, unknown>>,
  ...args: readonly string[]
): Promise<string> {
  await using folder = await createConfig(host);
  const { out, err, exit } = await run(folder.path, "host", "install-shim", "web01", ...args);
  assert.deepEqual({ err, exit }, { err: "", exit: 0 });
  return out;
}
