/** The classes of bugs that are known from tools like this one, a test for each that no other file names. */
import assert from "node:assert/strict";
import { clientConfigPlaces } from "../kit/client_config.ts";
import manifest from "../deno.json" with { type: "json" };
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
