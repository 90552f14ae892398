import assert from "node:assert/strict";
import { compileSampleCluster } from "@gateway/shared/testing";
import { loadClusterFiles } from "@gateway/shared/kubernetes";
import { ca } from "./mtls_fixture.ts";

async function load(files: Readonly<Record<string, string>>) {
  const folder = await Deno.makeTempDir({ prefix: "cluster-files-" });
  try {
    for (const [name, text] of Object.entries(files)) await Deno.writeTextFile(`${folder}/${name}`, text);
    const cluster = compileSampleCluster({ ca_cert: `${folder}/ca.crt`, token_file: `${folder}/token` });
    return await loadClusterFiles(new Map([["prod", cluster]]));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("loadClusterFiles() gives the CAs of clusters by name", async () => {
  assert.deepEqual([...await load({ "ca.crt": ca, token: "t" })], [["prod", ca]]);
});

Deno.test.each<{ name: string; files: Readonly<Record<string, string>>; message: RegExp }>([
  {
    name: "without its credential",
    files: { "ca.crt": ca },
    message: /^Cannot read kubernetes\.clusters\.prod\.token_file ".+\/token": no such file$/,
  },
  {
    name: "without its CA",
    files: { token: "t" },
    message: /^Cannot read kubernetes\.clusters\.prod\.ca_cert ".+\/ca\.crt": no such file$/,
  },
  {
    name: "with a CA that is none",
    files: { token: "t", "ca.crt": "x" },
    message: /^Cannot use kubernetes\.clusters\.prod\.ca_cert ".+": not a certificate in PEM$/,
  },
])("loadClusterFiles() refuses a cluster $name", async ({ files, message }) => {
  await assert.rejects(load(files), { code: "invalid_config", message });
});
