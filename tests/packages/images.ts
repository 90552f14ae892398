/**
 * Builds the images on a minimal base and runs them without root, with a read-only root file system and without a shell.
 * `deno task test:images`
 *
 * @module
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { poll } from "../stage/poll.ts";
import { build, buildIndex, makeBase, useStorage } from "./containers.ts";
import { tryDebate } from "./debate_compose.ts";
import { elfHeader } from "./elf_header.ts";
import { mustRun, runProgram } from "./machine.ts";
import { tryInstances } from "./several.ts";

const VERSION = "0.1.0";
/** `e_machine` of a program for arm64 (elf(5)). */
const ARM64 = 183;
const NAMES = [
  "gateway",
  "signer",
  "control-plane",
  "broker-ctl",
  "broker",
  "mcp-broker",
  "mcp-broker-http",
] as const;
const LOCKED = ["--read-only", "--network=none", "--cap-drop=all"] as const;
const DEMO = new URL("../../deploy/demo/", import.meta.url).pathname;
const DATABASE = new URL("database/", import.meta.url).pathname;
/** The attacks of the demo. */
const ATTACKS = [
  "1 code from the internet is rejected",
  "2 a second line is rejected",
  "3 a request that bypasses the control plane is rejected",
  "4 a policy change by a broker is rejected",
  "5 a self-approval by a broker is rejected",
] as const;
/** Number of further checks: normal requests that succeed, and files that an attacker cannot read. */
const MORE_CHECKS = 6;
const BASE_PACKAGES = "base-files,libc6,libgcc-s1,ca-certificates";

Deno.test("images", async (t) => {
  const work = await Deno.makeTempDir({ prefix: "images-" });
  const output = join(work, "dist");
  try {
    await useStorage(join(work, "containers"));
    await t.step("the images build from a release, on a base without a shell", async () => {
      const release = [
        "task",
        "--quiet",
        "release",
        "--version",
        VERSION,
        "--output",
        output,
        "--allow-dirty",
        ...["--runtime", Deno.execPath(), "--runtime", join(work, "arm64")],
      ];
      await Deno.writeFile(join(work, "arm64"), elfHeader(ARM64));
      await mustRun(Deno.execPath(), ...release);
      await makeBase({ name: "base", variant: "extract", packages: BASE_PACKAGES, work });
      await build(join(output, "image"), "Containerfile", "gateway");
      await build(join(output, "image"), "Containerfile.bridge", "bridge");
      await build(join(output, "image"), "Containerfile.debate", "debate");
    });
    await t.step("one build creates an index with images for amd64 and arm64", async () => {
      const base = { variant: "extract", packages: BASE_PACKAGES, work };
      await makeBase({ ...base, name: "base-amd64", architecture: "amd64" });
      await makeBase({ ...base, name: "base-arm64", architecture: "arm64" });
      const layout = await buildIndex(join(output, "image"), "Containerfile", work);
      const blob = (digest: string) => join(layout, "blobs", digest.replace(":", "/"));
      const read = async (path: string) => JSON.parse(await Deno.readTextFile(path));
      const [{ digest }] = (await read(join(layout, "index.json"))).manifests;
      const index = await read(blob(digest));
      assert.equal(index.mediaType, "application/vnd.oci.image.index.v1+json");
      const machines: Record<string, number> = {};
      for (const { digest, platform } of index.manifests) {
        const { config, layers } = await read(blob(digest));
        assert.equal((await read(blob(config.digest))).architecture, platform.architecture);
        for (const layer of layers) {
          const script = `tar -xzOf "$1" usr/lib/gateway/deno 2>/dev/null | od -An -tu1 -j18 -N1`;
          const { stdout } = await runProgram("sh", "-c", script, "sh", blob(layer.digest));
          if (stdout.trim() !== "") machines[platform.architecture] = Number(stdout);
        }
      }
      assert.deepEqual(machines, { amd64: 62, arm64: ARM64 });
    });
    await t.step("the bridge is in a separate image, and reports missing settings", async () => {
      const printed = await mustRun("podman", "run", "--rm", ...LOCKED, "bridge", "--version");
      assert.match(printed, new RegExp(`^${VERSION.replaceAll(".", "\\.")}\\b`));
      const { code, stderr } = await runProgram("podman", "run", "--rm", ...LOCKED, "bridge");
      assert.deepEqual([code, /pass --slack-channel/.test(stderr)], [2, true], stderr);
    });
    await t.step("the image contains every program under its name", async () => {
      for (const name of NAMES) {
        const entry = `--entrypoint=/usr/local/bin/${name}`;
        const text = await mustRun(
          "podman",
          "run",
          "--rm",
          ...LOCKED,
          entry,
          "localhost/gateway",
          "-version",
        );
        assert.equal(text.trim(), VERSION, name);
      }
    });
    await t.step("the entrypoint is the broker over stdio, and accepts -config", async () => {
      const { code, stderr } = await runProgram(
        "podman",
        ...["run", "--rm", ...LOCKED, "localhost/gateway", "-config", "/etc/gateway/config.json"],
      );
      assert.notEqual(code, 0);
      assert.match(stderr, /\/etc\/gateway\/config\.json/);
    });
    await t.step("init names the programs of the image, and only existing files", async () => {
      const entry = "--entrypoint=/usr/local/bin/broker-ctl";
      const init = ["localhost/gateway", "init", "--dir", "/tmp/gateway"];
      const guide = await mustRun("podman", "run", "--rm", ...LOCKED, entry, ...init);
      assert.match(
        guide,
        /^ *broker-ctl host enroll NAME .*\n[^]*^ *signer --config \/tmp\/gateway\/signer.json$/m,
      );
      assert.doesNotMatch(guide, /deno|start\.sh/);
    });
    await t.step("no program runs as root, and there is no shell", async () => {
      for (const image of ["gateway", "debate"]) {
        const user = await mustRun(
          "podman",
          "image",
          "inspect",
          "--format={{.Config.User}}",
          `localhost/${image}`,
        );
        assert.equal(user.trim(), "65532:65532");
        for (const shell of ["/bin/sh", "/bin/bash", "/bin/busybox"]) {
          const args = ["run", "--rm", ...LOCKED, `--entrypoint=${shell}`, `localhost/${image}`];
          assert.notEqual((await runProgram("podman", ...args)).code, 0, shell);
        }
      }
    });
    await t.step("a program can read only the files of its permission set", async () => {
      const args = ["run", "--rm", ...LOCKED, "--entrypoint=/usr/local/bin/signer", "localhost/gateway"];
      const { code, stderr } = await runProgram("podman", ...args, "-config", "/etc/passwd");
      assert.notEqual(code, 0);
      assert.doesNotMatch(stderr, /root:x:0/);
    });
    await t.step(
      "the debate does not serve without a password, is healthy with one, and keeps /data",
      async () => {
        const refused = await runProgram("podman", "run", "--rm", ...LOCKED, "localhost/debate");
        assert.notEqual(refused.code, 0);
        assert.match(refused.stderr, /without credentials/);
        const secret = ["--env=WEB_USERNAME=a", "--env=WEB_PASSWORD=a-long-password"];
        const volume = "--volume=data:/data";
        await mustRun(
          "podman",
          "run",
          "--detach",
          "--name=debate",
          ...LOCKED,
          volume,
          ...secret,
          "localhost/debate",
        );
        try {
          const healthy = async () => (await runProgram("podman", "healthcheck", "run", "debate")).code === 0;
          await poll(healthy, { what: "the debate", intervalMs: 500 });
          await mustRun("podman", "stop", "--time=20", "debate");
          assert.equal(
            (await mustRun("podman", "inspect", "--format={{.State.ExitCode}}", "debate")).trim(),
            "0",
          );
        } finally {
          await runProgram("podman", "rm", "--force", "debate");
        }
      },
    );
    await t.step(
      "the compose file of the debate stores the run of an alert, also across a restart",
      async () => {
        await makeBase({ name: "nginx", variant: "minbase", packages: "nginx-light", work });
        await tryDebate(join(work, "debate"));
        assert.equal(await mustRun("podman", "ps", "--all", "--quiet"), "", "no container remains");
      },
    );
    await t.step("the compose demo rejects every attack", async () => {
      await makeBase({ name: "debian", variant: "minbase", packages: "openssh-server,curl", work });
      await build(DEMO, "Containerfile", "gateway-demo-host", "debian");
      const { code, stdout, stderr } = await runProgram(join(DEMO, "run"));
      assert.equal(code, 0, `${stdout}${stderr}`);
      for (const attack of ATTACKS) {
        assert.ok(stdout.includes(`OK    ${attack}\nOK      and has one audit record\n`), attack);
      }
      assert.equal(stdout.match(/^OK /gm)?.length, 2 * ATTACKS.length + MORE_CHECKS, stdout);
      assert.equal(await mustRun("podman", "ps", "--all", "--quiet"), "", "no container remains");
    });
    await t.step("several instances of the compose file", async (t) => {
      await makeBase({ name: "database", variant: "minbase", packages: "postgresql", work });
      await build(DATABASE, "Containerfile", "gateway-database", "database");
      await tryInstances(t, join(work, "compose"));
      assert.equal(await mustRun("podman", "ps", "--all", "--quiet"), "", "no container remains");
    });
  } finally {
    await Deno.remove(work, { recursive: true });
  }
});
