import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { withTarget } from "../ssh_target/scene.ts";
import { availableKinds } from "../ssh_target/target.ts";

const SCRIPT = fileURLToPath(new URL("../ssh_target/run_alone.ts", import.meta.url));
const [kind = "embedded"] = availableKinds();

/** Runs the script with the permission to connect to one address. */
function start(allowedAddress: string): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--no-prompt", `--allow-net=${allowedAddress}`, SCRIPT],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

const rows = [
  { name: "needs no permission but to connect to the host", allowed: "host", shows: /^alone\n$/ },
  {
    name: "says so when it may not connect to the host",
    allowed: "other",
    shows: /connection: host address is not among those that this broker may connect to/,
  },
] as const;

Deno.test.each(rows)(
  "runCommand() $name",
  ({ allowed, shows }) =>
    withTarget(kind, async ({ target, certify }) => {
      const addr = `127.0.0.1:${target.port}`;
      const child = start(allowed === "host" ? addr : `127.0.0.1:${target.port + 1}`);
      const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
      const { value: publicKeyLine = "" } = await lines.read();
      const request = {
        name: "target",
        addr,
        hostKey: target.hostKeyLine,
        user: target.user,
        certificate: await certify(publicKeyLine),
      };
      const input = child.stdin.getWriter();
      await input.write(new TextEncoder().encode(JSON.stringify(request)));
      await input.close();
      const { value: output = "" } = await lines.read();
      const errors = await new Response(child.stderr).text();
      await child.status;
      await lines.cancel();
      assert.match(output || errors, shows);
    }),
);
