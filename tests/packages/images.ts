/**
 * The images as they run: built on the least base there is, as another user than root, on a root that nobody can write
 * to, without a shell. `deno task test:images`
 *
 * @module
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { poll } from "../stage/poll.ts";
import { mustRun, runProgram } from "./machine.ts";

const VERSION = "0.1.0";
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
/** How many lines the demo prints. */
const DEMO_CHECKS = 9;
const BASE_PACKAGES = "base-files,libc6,libgcc-s1,ca-certificates";

const CONTAINERS = `[containers]
default_ulimits = ["nofile=1024:1024","nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
`;

/** Has containers and images kept in a folder, and nothing of the machine's own touched. */
async function useStorage(folder: string): Promise<void> {
  await Deno.mkdir(folder);
  const storage = `[storage]\ndriver = "vfs"\ngraphroot = "${folder}/store"\nrunroot = "${folder}/run"\n`;
  await Deno.writeTextFile(join(folder, "storage.conf"), storage);
  await Deno.writeTextFile(join(folder, "containers.conf"), CONTAINERS);
  Deno.env.set("CONTAINERS_STORAGE_CONF", join(folder, "storage.conf"));
  Deno.env.set("CONTAINERS_CONF", join(folder, "containers.conf"));
}

/** Makes an image that is the least Debian with some packages. */
async function makeBase(
  { name, variant, packages, work }: Readonly<Record<"name" | "variant" | "packages" | "work", string>>,
): Promise<void> {
  const archive = join(work, `${name}.tar`);
  await mustRun(
    "mmdebstrap",
    ...["--quiet", `--variant=${variant}`, `--include=${packages}`, "bookworm", archive],
  );
  const container = (await mustRun("buildah", "from", "scratch")).trim();
  await mustRun("buildah", "add", "--quiet", container, archive, "/");
  await mustRun("buildah", "commit", "--quiet", container, `localhost/${name}`);
  await mustRun("buildah", "rm", container);
}

async function build(context: string, file: string, name: string, base = "base"): Promise<void> {
  const options = ["--isolation=chroot", "--quiet", "--format=docker", `--build-arg=BASE=localhost/${base}`];
  await mustRun("buildah", "build", ...options, `--tag=${name}`, `--file=${join(context, file)}`, context);
}

Deno.test("images", async (t) => {
  const work = await Deno.makeTempDir({ prefix: "images-" });
  const output = join(work, "dist");
  try {
    await useStorage(join(work, "containers"));
    await t.step("are built from what a release leaves, on a base without a shell", async () => {
      const release = [
        "task",
        "--quiet",
        "release",
        "--version",
        VERSION,
        "--output",
        output,
        "--allow-dirty",
      ];
      await mustRun(Deno.execPath(), ...release);
      await makeBase({ name: "base", variant: "extract", packages: BASE_PACKAGES, work });
      await build(join(output, "image"), "Containerfile", "gateway");
      await build(join(output, "image"), "Containerfile.bridge", "bridge");
      await build(join(output, "image"), "Containerfile.debate", "debate");
    });
    await t.step("the bridge is in an image of its own, and says what it lacks", async () => {
      const printed = await mustRun("podman", "run", "--rm", ...LOCKED, "bridge", "--version");
      assert.match(printed, new RegExp(`^${VERSION.replaceAll(".", "\\.")}\\b`));
      const { code, stderr } = await runProgram("podman", "run", "--rm", ...LOCKED, "bridge");
      assert.deepEqual([code, /--slack-channel is missing/.test(stderr)], [2, true], stderr);
    });
    await t.step("every program is there under its name", async () => {
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
    await t.step("the entry is the broker over the standard streams, and takes -config", async () => {
      const { code, stderr } = await runProgram(
        "podman",
        ...["run", "--rm", ...LOCKED, "localhost/gateway", "-config", "/etc/gateway/config.json"],
      );
      assert.notEqual(code, 0);
      assert.match(stderr, /\/etc\/gateway\/config\.json/);
    });
    await t.step("nobody is root, and there is no shell", async () => {
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
    await t.step("a broker's program can read no file but those of its set", async () => {
      const args = ["run", "--rm", ...LOCKED, "--entrypoint=/usr/local/bin/signer", "localhost/gateway"];
      const { code, stderr } = await runProgram("podman", ...args, "-config", "/etc/passwd");
      assert.notEqual(code, 0);
      assert.doesNotMatch(stderr, /root:x:0/);
    });
    await t.step(
      "the debate refuses to serve without a password, is healthy with one, and keeps /data",
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
    await t.step("the compose demo refuses an agent what a text on a host told it to", async () => {
      await makeBase({ name: "debian", variant: "minbase", packages: "openssh-server", work });
      await build(DEMO, "Containerfile", "gateway-demo-host", "debian");
      const { code, stdout, stderr } = await runProgram(join(DEMO, "run"));
      assert.equal(code, 0, `${stdout}${stderr}`);
      assert.equal(stdout.match(/^OK /gm)?.length, DEMO_CHECKS, stdout);
      assert.equal(await mustRun("podman", "ps", "--all", "--quiet"), "", "it takes everything down");
    });
  } finally {
    await Deno.remove(work, { recursive: true });
  }
});
