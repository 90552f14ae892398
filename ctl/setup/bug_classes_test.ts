/** The classes of bugs that are known from tools like this one, a test for each that no other file names. */
import assert from "node:assert/strict";
import { systemRandom } from "@gateway/shared/clock";
import { clientConfigPlaces } from "../kit/find_client.ts";
import manifest from "../deno.json" with { type: "json" };
import { createLayout } from "./layout.ts";
import { DEFAULT_LISTENERS } from "./options.ts";
import { createKeyMaterial, planSetUp } from "./plan.ts";
import { isSignerOf } from "./reload.ts";

Deno.test("no client config is taken from the working folder unasked (C6)", () => {
  for (const variables of [{}, { HOME: "/home/ann" }, { HOME: "", XDG_CONFIG_HOME: "" }]) {
    const places = clientConfigPlaces(undefined, { workingFolder: "/tmp/planted", variables });
    assert.deepEqual(places.filter(({ path }) => path.startsWith("/tmp/planted")), []);
  }
});

Deno.test("no signal meets whoever has a recorded pid by now (C8)", () => {
  // Deno.kill() takes the right to run everything.
  const run = ["claude", "kill", "ps", "ssh", "ssh-keyscan"];
  assert.deepEqual(manifest.permissions["broker-ctl"].run, run);
  assert.ok(!("run" in manifest.permissions["approval-bridge"]));
  const own = "/srv/gw/signer.json";
  for (
    const args of [
      `/usr/bin/signer --config ${own}`,
      `deno run --no-prompt --config=/x/deno.json /srv/signer/main.ts --config ${own}`,
      `/usr/lib/gateway/deno run /usr/lib/gateway/signer/main.js --config=${own} --log-level debug`,
    ]
  ) assert.ok(isSignerOf(args, own), args);
  for (
    const args of [
      `/usr/bin/signer --config ${own}.old`,
      `/usr/bin/signer --config /srv/other.json`,
      `/usr/bin/my-signer --config ${own}`,
      `/usr/bin/signer-proxy --config ${own}`,
      `deno run /srv/control_plane/main.ts --config ${own}`,
      `/usr/bin/signer --config ${own} x`,
      `deno run -A broker/main.ts serve-mcp-http --config ${own}`,
      `deno run -P=broker-ctl ctl/main.ts permissions signer --config ${own}`,
      `/bin/sh /usr/lib/gateway/ctl/start.sh signer --config ${own}`,
      `deno run ctl/main.ts doctor --config ${own}`,
      `deno run --x=/a/signer/main.ts --config ${own} -A /b/signer/main.ts --config ${own}`,
      `vim ${own}`,
      `signer`,
      "",
    ]
  ) assert.ok(!isSignerOf(args, own), args);
});

Deno.test("init writes no path that depends on the working folder (C12)", async () => {
  const entries = planSetUp(
    createLayout("/srv/gateway"),
    { route: "control_plane", listeners: DEFAULT_LISTENERS, networks: [], hosts: [] },
    await createKeyMaterial(systemRandom),
  );
  const texts = entries.flatMap(({ path, content }) => path.endsWith(".json") ? [String(content)] : []);
  const paths = texts.flatMap((text) =>
    [...text.matchAll(/": "([^"\n]*\/[^"\n]*)"/g)].map(([, path]) => path!)
  );
  assert.ok(paths.length > 10);
  for (const path of paths) assert.match(path, /^(?:\/srv\/gateway\/|https:\/\/)/);
});
