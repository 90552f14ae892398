/**
 * Builds the packages and installs them on a Debian without our software. Then starts the services by systemd, kills,
 * reloads and upgrades them, and removes and purges the packages. `deno task test:packages`
 *
 * @module
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { architectureOf } from "../../deploy/release/runtimes.ts";
import { PACKAGES } from "../../deploy/release/packages.ts";
import { poll } from "../stage/poll.ts";
import { followGuide, OPERATION_GUIDES, readGuide } from "./guides.ts";
import { type Machine, mustRun, RootFilesystem } from "./machine.ts";
import { initialize } from "./mcp_client.ts";
import { NEW, OLD, release, releaseNext } from "./two_releases.ts";

const SERVICES = ["gateway-signer", "gateway-control-plane", "gateway-broker"] as const;
const TIMERS = ["gateway-renew.timer", "gateway-backup.timer", "gateway-watch@signer.timer"] as const;
const HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIjpS6aFqlhJXpPHWmUm99NVnb1xApjiLkrH3MjJxXm2";
const VERSIONED = [
  ["signer", "--version"],
  ["control-plane", "--version"],
  ["gateway", "version"],
  ["broker", "-version"],
  ["mcp-broker", "-version"],
  ["mcp-broker-http", "--version"],
  ["broker-ctl", "--version"],
] as const;
const MCP_ENTRY = ["gateway", "connect", "/run/gateway-broker/agent/mcp.sock"] as const;

/** Succeeds when the broker listens, which requires the signer's host list. */
const LISTENING = [
  "sh",
  "-c",
  "journalctl -u gateway-broker -o cat --no-pager | grep -E '^Started|ready' | tail -1 | grep -q ready",
] as const;

/** Waits until the signer answers. systemd reports it as active before that. */
async function ready(machine: Machine): Promise<void> {
  await poll(async () => (await machine.run("broker-ctl", "revocations")).code === 0, {
    what: "the signer",
    intervalMs: 200,
  });
}

/** Waits until all services stay active. systemd restarts the broker until its upstreams answer. */
async function allActive(machine: Machine): Promise<void> {
  await poll(async () => {
    const { stdout } = await machine.run("systemctl", "is-active", ...SERVICES);
    return stdout.trim() === "active\nactive\nactive" && (await machine.run(...LISTENING)).code === 0;
  }, { what: "all services", intervalMs: 500 });
}

Deno.test("packages on a Debian without our software", async (t) => {
  const work = await Deno.makeTempDir({ prefix: "packages-" });
  try {
    const path = join(work, "root");
    const [oldOutput, newOutput] = [join(work, "old"), join(work, "new")];
    await t.step("a checkout builds the packages, a bill of materials and checksums", async () => {
      await Promise.all([release(OLD, oldOutput), RootFilesystem.create(path, ["age"])]);
      await mustRun("sh", "-c", `cd ${oldOutput} && sha256sum --check --quiet SHA256SUMS`);
      const bill = JSON.parse(await Deno.readTextFile(join(oldOutput, `gateway-${OLD}.cdx.json`)));
      assert.equal(bill.bomFormat, "CycloneDX");
      const names = bill.components.map(({ name }: { readonly name: string }) => name);
      for (const name of ["deno", "zod", "ssh2", "hono"]) {
        assert.ok(names.includes(name), name);
      }
      assert.ok(!names.includes("playwright-core"), "what only tests use is not shipped");
      const names2 = await mustRun(
        "tar",
        "-tzf",
        join(oldOutput, `gateway-${OLD}-linux-${await architectureOf(Deno.execPath())}.tar.gz`),
      );
      assert.match(names2, /^\.\/usr\/lib\/gateway\/deno$/m);
    });
    const root = new RootFilesystem(path);
    const carry = async (from: string) => {
      await Deno.mkdir(join(path, "packages"), { recursive: true });
      await mustRun("sh", "-c", `rm -f ${path}/packages/* && cp ${from}/*.deb ${path}/packages`);
    };
    await t.step("the packages install, and each program prints its version", async () => {
      await carry(oldOutput);
      const { code, stdout, stderr } = await root.run("sh", "-c", "dpkg -i /packages/*.deb");
      assert.equal(code, 0, stdout + stderr);
      for (const command of VERSIONED) {
        const { stdout } = await root.run(...command);
        assert.equal(stdout.trim(), OLD, command.join(" "));
      }
      assert.equal(
        (await root.run("gateway-shim", "--version")).stdout.trim(),
        `gateway-shim ${OLD} (v2, v3)`,
      );
    });
    await t.step(
      "gateway-setup --from copies a complete, stopped installation, or changes nothing",
      async () => {
        const inUse = "broker-ctl init --dir /srv/old && echo x >/srv/old/state/control-plane.db-wal";
        const state = "echo state >/srv/old/state/signer.db";
        const refused = await root.run("sh", "-c", `${inUse} && ${state} && gateway-setup --from /srv/old`);
        assert.equal(refused.code, 1, refused.stdout + refused.stderr);
        assert.match(refused.stderr, /control-plane\.db": it is in use/);
        const nothing =
          'test -z "$(find /etc/gateway /var/lib/gateway /var/log/gateway ! -type d ! -name debate.env)"';
        const taken = `set -e; ${nothing}; rm /srv/old/state/control-plane.db-wal
        echo mine >/var/log/gateway/signer/audit.log
        if gateway-setup --from /srv/old 2>/tmp/errors; then exit 3; fi
        grep -q 'audit.log" exists' /tmp/errors; rm /var/log/gateway/signer/audit.log; ${nothing}
        ln -s /nowhere /srv/old/pki/strange
        if gateway-setup --from /srv/old 2>/tmp/errors; then exit 4; fi
        grep -q 'strange": not a file' /tmp/errors; rm /srv/old/pki/strange; ${nothing}
        echo '{}' >/srv/old/log/mcp/audit.log; touch /srv/old/log/mcp/audit.log.lock
        gateway-setup --from /srv/old
        # The broker's account is not known yet. It can read the records and create the next log.
        cd /var/log/gateway/mcp; test "$(stat -c '%a %G' -- *)" = '640 gateway-mcp'
        expr "$(echo *)" : 'audit\\.log\\.20[0-9]*T[0-9]*Z$' >/dev/null; cd /
        cmp /srv/old/pki/ssh_ca /etc/gateway/pki/ssh_ca
        cmp /srv/old/state/signer.db /var/lib/gateway/signer/state.db
        test -z "$(grep -l /srv/old /etc/gateway/*.json)"
        # gateway-setup removes the files of a killed gateway-setup, and nothing else.
        mkdir /etc/gateway/.setup-killed
        printf '%s\\n' /etc/gateway/pki/ssh_ca /etc/gateway/signer.json >/etc/gateway/.setup-killed/placed
        rm /var/lib/gateway/signer/signer.json
        if gateway-setup --from /srv/old 2>/tmp/errors; then exit 5; fi
        test ! -e /etc/gateway/pki/ssh_ca; test -e /etc/gateway/pki/ssh_ca.pub
        find /etc/gateway -mindepth 1 -maxdepth 1 ! -name debate.env -exec rm -r {} +
        rm -r /var/lib/gateway /var/log/gateway /srv/old
        broker-ctl context remove old`;
        const { code, stdout, stderr } = await root.run("sh", "-c", taken);
        assert.equal(code, 0, stdout + stderr);
      },
    );
    await t.step("gateway-setup gives each service only its own keys, and runs once", async () => {
      const host = `web01=127.0.0.1:22,user=deploy,key=${HOST_KEY}`;
      const { code, stdout, stderr } = await root.run("gateway-setup", "--host", host);
      assert.equal(code, 0, stdout + stderr);
      assert.match(stdout, /host enroll web01/);
      const again = await root.run("gateway-setup", "--host", host);
      assert.equal(again.code, 1);
      assert.match(again.stderr, /this machine has one/);
      const mayRead = async (user: string, file: string) =>
        (await root.run("setpriv", `--reuid=${user}`, "--init-groups", `--regid=${user}`, "cat", file))
          .code === 0;
      const keys = { signer: "signer", control_plane: "control-plane", broker: "broker" };
      for (const user of SERVICES) {
        for (const [key, owner] of Object.entries(keys)) {
          const file = `/etc/gateway/pki/${key}_audit.seed`;
          assert.equal(await mayRead(user, file), user === `gateway-${owner}`, `${user} reads ${file}`);
        }
        assert.ok(!await mayRead(user, "/etc/gateway/pki/operator.key"));
        assert.ok(!await mayRead(user, "/etc/gateway/pki/mtls_ca.key"));
        assert.equal(await mayRead(user, "/etc/gateway/pki/ssh_ca"), user === "gateway-signer");
      }
    });
    await using machine = await root.boot();
    await t.step("each unit starts under a separate user", async () => {
      await machine.must("systemctl", "enable", "--now", ...SERVICES);
      await ready(machine);
      await allActive(machine);
      for (const service of SERVICES) {
        const pid = await machine.property(service, "MainPID");
        const user = await machine.must("stat", "-c", "%U", `/proc/${pid}`);
        assert.equal(user.trim(), service);
        const status = await machine.must("cat", `/proc/${pid}/status`);
        assert.match(status, /^CapEff:\t0+$/m);
        assert.match(status, /^NoNewPrivs:\t1$/m);
        assert.match(status, /^Seccomp:\t2$/m);
      }
    });
    await t.step("systemd restarts a killed service", async () => {
      const pid = await machine.property("gateway-signer", "MainPID");
      await machine.must("sh", "-c", `kill -9 ${pid}`);
      await poll(async () => await machine.property("gateway-signer", "NRestarts") === "1", {
        what: "a restart",
        intervalMs: 200,
      });
      await ready(machine);
      assert.notEqual(await machine.property("gateway-signer", "MainPID"), pid);
    });
    await t.step(
      "the watch timer restarts a hung service, and no service that answers",
      async () => {
        const pid = await machine.property("gateway-signer", "MainPID");
        await machine.must("systemctl", "start", "gateway-watch@signer.service");
        assert.equal(await machine.property("gateway-signer", "MainPID"), pid);
        await machine.must("sh", "-c", `kill -STOP ${pid}`);
        await machine.must("systemctl", "start", "gateway-watch@signer.service");
        await ready(machine);
        assert.notEqual(await machine.property("gateway-signer", "MainPID"), pid);
      },
    );
    await t.step(
      "systemctl reload makes the signer load its config, and the journal shows it",
      async () => {
        const config = "/var/lib/gateway/signer/signer.json";
        await machine.must(
          "sed",
          "-i",
          's/"sign_rate_limit_per_min": 600/"sign_rate_limit_per_min": 601/',
          config,
        );
        await machine.must("systemctl", "reload", "gateway-signer");
        await poll(async () => {
          const { stdout } = await machine.run(
            "journalctl",
            "-u",
            "gateway-signer",
            "-o",
            "cat",
            "--no-pager",
          );
          return stdout.includes('"config reloaded"');
        }, { what: "the journal", intervalMs: 200 });
      },
    );
    await t.step(
      "the operator edits the policy over HTTP and in the file, and the signer stays its owner",
      async () => {
        await machine.must("broker-ctl", "policy", "add", "--host", "web01", "--allow", "^id$");
        await machine.must("broker-ctl", "host", "seal", "web01", "--config", "/etc/gateway/signer.json");
        await machine.must("broker-ctl", "reload");
        const text = await machine.must("stat", "-c", "%U %a", "/var/lib/gateway/signer/signer.json");
        assert.equal(text.trim(), "gateway-signer 640");
      },
    );
    await t.step(
      "an MCP client connects as a user of the group, who can read no key and no config",
      async () => {
        await machine.must("useradd", "--groups", "gateway-agents", "--create-home", "agent");
        assert.equal(await initialize(machine, "agent", MCP_ENTRY), OLD);
        const reads = "find /etc/gateway /var/lib/gateway /var/log/gateway -type f -readable ! -name '*.crt'";
        const found = await machine.run("runuser", "-u", "agent", "--", "sh", "-c", `${reads} 2>/dev/null`);
        assert.doesNotMatch(found.stdout, /\.key|\.seed|\.json|\.p12|ssh_ca$|audit/);
        await machine.must("useradd", "--create-home", "nobody-special");
        const other = await machine.run("runuser", "-u", "nobody-special", "--", ...MCP_ENTRY);
        assert.match(other.stderr, /cannot connect to .*Permission denied/);
      },
    );
    await t.step(
      "an upgrade keeps configs, state, audit chain and entry, and restarts running services",
      async () => {
        await machine.must("broker-ctl", "freeze", "--caller", "agent-7", "--reason", "INC-42");
        const before = await machine.must("sh", "-c", "cat /etc/gateway/*.json | sha256sum");
        await releaseNext(oldOutput, newOutput);
        await carry(newOutput);
        await machine.must("sh", "-c", "dpkg -i /packages/*.deb");
        await ready(machine);
        await allActive(machine);
        const debate = await machine.property("gateway-debate", "ActiveState");
        assert.equal(debate, "inactive", "what does not run is not started");
        assert.equal((await machine.must("signer", "--version")).trim(), NEW);
        assert.equal(await machine.must("sh", "-c", "cat /etc/gateway/*.json | sha256sum"), before);
        assert.match(await machine.must("broker-ctl", "revocations"), /agent-7/);
        const key = ["--key", "/etc/gateway/pki/signer_audit.seed"];
        await machine.must(
          "broker-ctl",
          "audit",
          "verify",
          "--log",
          "/var/log/gateway/signer/audit.log",
          ...key,
        );
        assert.equal(await initialize(machine, "agent", MCP_ENTRY), NEW);
      },
    );
    await t.step("the timer's service renews certificates and keeps their owners", async () => {
      await machine.must("systemctl", "start", "gateway-renew.service");
      await machine.must("broker-ctl", "identity", "renew", "signer", "--config", "/etc/gateway/signer.json");
      await machine.must("broker-ctl", "reload");
      const owner = await machine.must("stat", "-c", "%U:%G %a", "/etc/gateway/pki/signer.key");
      assert.equal(owner.trim(), "root:gateway-signer 640");
    });
    await t.step("the timer's service creates one backup a day", async () => {
      const killed = "/var/backups/gateway/.2026-01-31.0123456789abcdef";
      await machine.must("mkdir", "-p", killed);
      await machine.must("systemctl", "start", "gateway-backup.service");
      await machine.must("systemctl", "start", "gateway-backup.service");
      const made = await machine.must("find", "/var/backups/gateway", "-name", "manifest.json");
      assert.match(made, /^\/var\/backups\/gateway\/\d{4}-\d\d-\d\d\/manifest\.json\n$/);
      assert.notEqual((await machine.run("test", "-e", killed)).code, 0, "what a killed one left is gone");
      await machine.must("systemctl", "enable", "--now", ...TIMERS);
    });
    await t.step("all commands of the guides succeed unchanged", async () => {
      const fleet = `web03 127.0.0.3:22 ${HOST_KEY.replace("IjpS", "IjpT")}\n`;
      await Deno.writeTextFile(join(path, "root/fleet"), fleet);
      const add = [
        "--name=web02",
        "--addr=127.0.0.2:22",
        "--user=deploy",
        "--groups=web",
        "--host-key",
        HOST_KEY,
      ];
      await machine.must("broker-ctl", "host", "add", "--config=/etc/gateway/signer.json", ...add);
      for (const path of Object.keys(OPERATION_GUIDES)) {
        const guide = await Deno.readTextFile(new URL(`../../${path}`, import.meta.url));
        await followGuide(machine, readGuide(guide));
      }
    });
    await t.step("stopped services exit cleanly", async () => {
      await allActive(machine);
      await machine.must("systemctl", "stop", ...SERVICES);
      for (const service of SERVICES) assert.equal(await machine.property(service, "Result"), "success");
    });
    await t.step("removing and purging the packages keeps keys and records, and reports it", async () => {
      await machine.must("systemctl", "start", "gateway-signer");
      const names = PACKAGES.map(({ name }) => name).filter((name) => name !== "gateway-common").join(" ");
      await machine.must("sh", "-c", `dpkg --remove ${names} gateway-common gateway-runtime`);
      const { code } = await machine.run("pgrep", "-f", "/usr/lib/gateway");
      assert.notEqual(code, 0, "no program of the packages runs");
      const { stderr } = await machine.run("dpkg", "--purge", "gateway-common", ...names.split(" "));
      assert.match(stderr, /\/var\/log\/gateway is kept/);
      const empty = ["/var/lib/gateway/debate", "/var/log/gateway/debate"];
      for (const folder of empty) assert.notEqual((await machine.run("test", "-e", folder)).code, 0, folder);
      const enabled = await machine.must("find", "/etc/systemd/system", "-name", "gateway-*");
      assert.equal(enabled, "", "no unit remains enabled");
      await machine.must("test", "-s", "/var/log/gateway/signer/audit.log");
      await machine.must("test", "-s", "/etc/gateway/pki/ssh_ca");
      const left = await machine.run(
        "sh",
        "-c",
        "find /usr /lib/systemd -name '*gateway*' -not -path '*/share/doc/*'",
      );
      assert.equal(left.stdout.trim(), "");
    });
  } finally {
    await Deno.remove(work, { recursive: true });
  }
});
