/**
 * A new operator's first weeks with the packages, on machines without our software. It prints a transcript with times and
 * checks the output of each step. `deno task test:judged`
 *
 * @module
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { poll } from "../stage/poll.ts";
import { playAttacks } from "./attacks.ts";
import { Chat, setBridgeUp } from "./chat.ts";
import { Company } from "./company.ts";
import { mustRun } from "./machine.ts";
import { NEW, OLD, release, releaseNext } from "./two_releases.ts";
import { type Person, Transcript } from "./transcript.ts";

const CONFIG = "--config /etc/gateway/signer.json";
const SERVICES = "gateway-signer gateway-control-plane gateway-broker";
const INSTALL = "apt-get install -y -qq /root/dist/*.deb >/dev/null 2>&1";

/** Sends an agent's request over HTTPS, from a machine that has only curl. */
async function ask(desk: Person, agent: string, host: string, command: string): Promise<string> {
  const identity = `--cert pki/${agent}.crt --key pki/${agent}.key --cacert pki/mtls_ca.crt`;
  const body = JSON.stringify({ host, command });
  const { stdout } = await desk.tries(
    `cd /root && curl -sS ${identity} -w ' %{http_code}' -H 'Content-Type: application/json' -d '${body}' ` +
      "https://gw.example.org:8443/v1/ssh_run",
  );
  return stdout.replaceAll("\n", " ");
}

/** Waits until all services of a gateway answer. */
async function whole(gateway: Person): Promise<void> {
  await poll(async () => {
    const question = "curl -sf 127.0.0.1:9180/readyz && curl -sf 127.0.0.1:9170/readyz";
    return (await gateway.machine.run("sh", "-c", question)).code === 0;
  }, { what: "the services", intervalMs: 200 });
}

/** Waits until the signer answers and its clients have detected this. */
async function signing(gateway: Person): Promise<void> {
  await poll(
    async () => (await gateway.machine.run("sh", "-c", "curl -sf 127.0.0.1:9160/readyz")).code === 0,
    {
      what: "the signer",
      intervalMs: 200,
    },
  );
  await whole(gateway);
}

Deno.test("a new operator's first weeks", async (t) => {
  const work = await Deno.makeTempDir({ prefix: "judged-" });
  const transcript = new Transcript();
  // Each chapter continues after the previous one.
  const chapter = async (name: string, action: () => Promise<void>) => {
    const isDone = await t.step(name, async () => {
      transcript.say(`== ${name}`);
      await action();
    });
    if (!isDone) throw new Error(`failed in: ${name}`);
  };
  try {
    const [oldOutput, newOutput] = [join(work, "old"), join(work, "new")];
    const [company] = await Promise.all([Company.found(work), release(OLD, oldOutput)]);
    await using _ = company;
    await releaseNext(oldOutput, newOutput);
    await mustRun("sh", "-c", `cp ${oldOutput}/gateway-runtime_*.deb ${newOutput}`);
    const hand = async (name: "gw" | "gw2" | "desk", output: string, files = "*") => {
      const dist = join(company.pathOf(name), "root/dist");
      await mustRun("sh", "-c", `rm -rf ${dist}; mkdir -p ${dist}; cp ${output}/${files}.deb ${dist}`);
    };
    for (const name of ["gw", "web01", "web02", "web03", "desk"] as const) await company.start(name);
    let gateway = transcript.at("gw", company.machine("gw"));
    const desk = transcript.at("desk", company.machine("desk"));

    await chapter(
      "install the packages, and create an installation with a name and a first host",
      async () => {
        await hand("gw", oldOutput);
        await gateway.does(INSTALL);
        await gateway.does("ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519 <&-");
        for (const web of ["web01", "web02", "web03"] as const) {
          await company.carry("gw", web, "root/.ssh/id_ed25519.pub", "/root/.ssh");
          await company.machine(web).must("cp", "/root/.ssh/id_ed25519.pub", "/root/.ssh/authorized_keys");
        }
        const key = (await company.machine("web01").must("cat", "/etc/ssh/ssh_host_ed25519_key.pub")).trim();
        await gateway.does(
          `gateway-setup --name gw.example.org --listen 0.0.0.0 --host 'web01=10.77.0.11:22,user=deploy,key=${key}'`,
          /host enroll web01/,
        );
        await gateway.does(`systemctl enable --now ${SERVICES} gateway-renew.timer gateway-backup.timer`);
        await whole(gateway);
      },
    );
    await chapter("enroll two hosts", async () => {
      await gateway.does(
        `broker-ctl host add ${CONFIG} --name web02 --addr 10.77.0.12:22 --user deploy --groups local --scan --reload`,
        /signer reloaded/,
      );
      for (const web of ["web01", "web02"]) {
        await gateway.does(
          `broker-ctl host enroll ${web} --over ssh ${CONFIG}`,
          /login as deploy with a certificate for \S+ succeeded/,
        );
      }
    });
    await chapter(
      "issue identities: three agents, one with a key that stays on its machine, and two approvers",
      async () => {
        await hand("desk", oldOutput, "gateway-[rc][ut]*");
        await mustRun("sh", "-c", `cp ${oldOutput}/gateway-common*.deb ${company.pathOf("desk")}/root/dist`);
        await desk.does(INSTALL);
        await desk.does("mkdir /root/pki && cd /root && broker-ctl identity request agent-1 --out pki");
        await company.carry("desk", "gw", "root/pki/agent-1.csr", "/root");
        await gateway.does(
          `broker-ctl identity add agent agent-1 --csr /root/agent-1.csr ${CONFIG}`,
          /added/,
        );
        for (const who of ["agent agent-2", "agent agent-3", "approver ann", "approver bob"]) {
          await gateway.does(`broker-ctl identity add ${who} ${CONFIG}`, /added/);
        }
        const agents = '"agent-1", "agent-2", "agent-3", ';
        await gateway.does(`sed -i 's/"run_callers": \\[/&${agents}/' /etc/gateway/config.json`);
        await gateway.does("systemctl restart gateway-control-plane gateway-broker");
        await whole(gateway);
        const files = ["agent-1.crt", "agent-2.*", "agent-3.*", "ann.*", "bob.*", "mtls_ca.crt"];
        await company.carry(
          "gw",
          "desk",
          files.map((file) => `etc/gateway/pki/${file}`).join(" "),
          "/root/pki",
        );
      },
    );
    await chapter("agents run commands that the policy allows", async () => {
      await gateway.does(`broker-ctl policy add --host web01 --allow '^id$'`);
      assert.match(await ask(desk, "agent-1", "web01", "id"), /uid=\d+\(deploy\).* 200$/);
      assert.match(await ask(desk, "agent-2", "web02", "uptime"), /load average.* 200$/);
      assert.match(await ask(desk, "agent-3", "web02", "cat /etc/shadow"), /command not allowed.* 403$/);
    });
    await chapter("renew all certificates while clients use them", async () => {
      await gateway.does(`broker-ctl identity renew --due --within 91 ${CONFIG}`, /signer renewed until/);
      assert.match(await ask(desk, "agent-2", "web01", "id"), / 200$/, "with the former certificate");
      await company.carry("gw", "desk", "etc/gateway/pki/agent-*.crt etc/gateway/pki/ann.crt", "/root/pki");
      assert.match(await ask(desk, "agent-1", "web01", "id"), / 200$/, "with the next one");
    });
    await chapter("add a host", async () => {
      await gateway.does(
        `broker-ctl host add ${CONFIG} --name web03 --addr 10.77.0.13:22 --user deploy --groups local --scan --reload`,
      );
      await gateway.does(
        `broker-ctl host enroll web03 --over ssh ${CONFIG}`,
        /login as deploy with a certificate for \S+ succeeded/,
      );
      await poll(async () => (await ask(desk, "agent-3", "web03", "hostname")).endsWith(" 200"), {
        what: "the new host",
        intervalMs: 2_000,
      });
    });
    const approval = (who: string, rest: string) =>
      `cd /root && broker-ctl approval ${rest} --url gw.example.org:7443 --cert pki/${who}.crt --key pki/${who}.key ` +
      "--ca pki/mtls_ca.crt";
    await chapter("approve", async () => {
      await gateway.does(
        `broker-ctl host add ${CONFIG} --name web01 --force --allow '^id$,^touch /tmp/[a-z]+$' ` +
          "--require-approval '^touch ' --reload",
      );
      const asked = ask(desk, "agent-1", "web01", "touch /tmp/proof");
      const pending = await waitingFor(desk, approval("ann", "list --status pending --json"));
      await desk.isRefused(approval("agent-1", `allow ${pending}`), /not|denied|forbidden/i);
      await desk.does(approval("ann", `allow ${pending} --reason 'INC-42 by phone'`), /approved/);
      assert.match(await asked, /"exit_code":0.* 200$/);
      await company.machine("web01").must("test", "-e", "/tmp/proof");
    });
    await using chat = await Chat.open(transcript, company.networkOf("gw"));
    const askInChat = async (file: string) => {
      const asked = ask(desk, "agent-1", "web01", `touch /tmp/${file}`);
      await chat.read(new RegExp(`agent-1[^]*touch /tmp/${file}`));
      await chat.clicks("U0ANN", /requesters cannot approve their own requests/);
      await assert.rejects(company.machine("web01").must("test", "-e", `/tmp/${file}`));
      await chat.clicks("U0BOB", /^Approved[^]*by approval-bridge/);
      assert.match(await asked, /"exit_code":0.* 200$/);
      await company.machine("web01").must("test", "-e", `/tmp/${file}`);
    };
    await chapter("approve in a chat", async () => {
      await setBridgeUp(gateway, chat);
      await whole(gateway);
      await askInChat("chatted");
      const log = "/var/log/gateway/control-plane/audit.log";
      await gateway.does(
        `broker-ctl audit show --log ${log} --full --json | grep approval-decision-allow | tail -1`,
        /U0BOB, bob@example.org in the identity map/,
      );
    });
    await chapter(
      "deny the attacks of a prompt injection",
      () => playAttacks({ gateway, ask: (agent, command) => ask(desk, agent, "web01", command) }),
    );
    await chapter("rotate the SSH CA while agents run commands", async () => {
      const rotate = (step: string) => `broker-ctl ca rotate ${step} --over ssh ${CONFIG}`;
      const working = new AbortController();
      const results: string[] = [];
      const asking = (async () => {
        while (!working.signal.aborted && results.length < 500) {
          results.push(await ask(desk, "agent-1", "web02", "hostname"));
        }
      })();
      try {
        await gateway.does(rotate("begin"), /ok {3}web03/);
        await gateway.does(rotate("status"), /ok {3}web02: trusts the current key; trusts the next key/);
        await gateway.does(rotate("finish"), /the next key signs/);
        transcript.say("-- sixteen minutes later");
        await gateway.does("printf 2026-01-01T00:00:00.000Z >/etc/gateway/pki/ssh_ca.switched");
        await gateway.does(rotate("finish"), /ok {3}web01/);
      } finally {
        working.abort();
        await asking;
      }
      assert.deepEqual(results.filter((text) => !text.endsWith(" 200")), [], "no command was denied");
      const trusted = await company.machine("web01").must("cat", "/etc/ssh/gateway_ca.pub");
      const signs = await gateway.does("cat /etc/gateway/pki/ssh_ca.pub");
      assert.equal(trusted.trim().split("\n").length, 1);
      assert.ok(trusted.includes(signs.split(" ")[1] ?? "?"));
    });
    await chapter("upgrade", async () => {
      await gateway.does("broker-ctl freeze --end-user agent-3 --reason INC-43");
      await hand("gw", newOutput);
      await gateway.does(INSTALL);
      await whole(gateway);
      await gateway.does("signer --version", new RegExp(`^${NEW}$`, "m"));
      assert.match(await ask(desk, "agent-1", "web01", "id"), / 200$/);
      await askInChat("upgraded");
    });
    await chapter("make hosts reject revoked certificates", async () => {
      for (const web of ["web01", "web02", "web03"] as const) {
        await gateway.does(
          `cd /root && broker-ctl host krl ${web} ${CONFIG} --url https://gw.example.org:9443 ` +
            "--ca-key /etc/gateway/pki/mtls_ca.key",
        );
      }
      await gateway.does("broker-ctl reload");
      for (const web of ["web01", "web02", "web03"] as const) {
        await gateway.does(
          `cd /root && scp -q -o StrictHostKeyChecking=accept-new -r krl-${web} /usr/share/gateway/krl/* root@${web}: && ` +
            `ssh root@${web} ./install-gateway-krl krl-${web}`,
          /--keep/,
        );
        // sshd has just restarted and does not listen yet.
        await poll(() => gateway.machine.run("ssh", `root@${web}`, "true").then(({ code }) => code === 0), {
          what: `sshd of ${web}`,
        });
        await gateway.does(`ssh root@${web} ./install-gateway-krl --keep`, /kept/);
      }
      await gateway.does("broker-ctl freeze --end-user agent-2 --reason INC-44 --wait", /web03/);
    });
    await chapter("back up, lose the machine, restore on another one", async () => {
      await desk.does("age-keygen -o /root/identity.txt", /age1/);
      const recipient = (await desk.does("age-keygen -y /root/identity.txt")).trim();
      const made = await gateway.does(
        `broker-ctl backup /root/backup --recipient ${recipient} ${CONFIG}`,
        /keys \(encrypted\)/,
      );
      const publicKey = /--public-key (?<key>\S+)/.exec(made)?.groups?.["key"];
      await mustRun("cp", "-a", join(company.pathOf("gw"), "root/backup"), join(work, "backup"));
      await company.lose("gw");
      transcript.say("-- gw is gone");
      gateway = transcript.at("gw2", await company.start("gw2", "10.77.0.1"));
      // The accounts of this machine get other user IDs than those of the lost machine.
      await gateway.does("useradd --system backup-agent && useradd --system monitoring");
      await hand("gw2", newOutput);
      await mustRun("cp", "-a", join(work, "backup"), join(company.pathOf("gw2"), "root/backup"));
      await company.carry("desk", "gw2", "root/identity.txt", "/root");
      await gateway.does(INSTALL);
      await gateway.does(
        `gateway-setup --restore /root/backup --identity /root/identity.txt --public-key ${publicKey}`,
        /end where they did/,
      );
      await gateway.does("rm /root/identity.txt");
      const bridge = "cd /etc/gateway && stat -c '%n %U:%G %a' approval-bridge.json approval-bridge.env";
      await gateway.does(bridge, /json root:gateway-approval-bridge 640[^]*env root:root 600/);
      await gateway.does(`systemctl enable --now ${SERVICES} gateway-renew.timer gateway-backup.timer`);
      await whole(gateway);
      assert.match(await ask(desk, "agent-1", "web01", "id"), / 200$/);
      assert.match(
        await ask(desk, "agent-3", "web02", "uptime"),
        /frozen.* 403$/,
        "a freeze is in the backup",
      );
      await gateway.does(
        "broker-ctl audit verify --log /var/log/gateway/signer/audit.log --key /etc/gateway/pki/signer_audit.seed",
      );
    });
    await chapter("move the CA key from a file to an agent", async () => {
      await gateway.does("systemctl enable --now gateway-ca-agent");
      const socket = "/run/gateway-ca-agent/agent.sock";
      await gateway.does(`SSH_AUTH_SOCK=${socket} ssh-add - < /etc/gateway/pki/ssh_ca`);
      await gateway.does(
        `broker-ctl ca-keys add --name _default --type agent --socket ${socket} ` +
          `--public-key-path /etc/gateway/pki/ssh_ca.pub ${CONFIG}`,
      );
      for (const line of ["systemctl restart gateway-signer", "shred -u /etc/gateway/pki/ssh_ca"]) {
        await gateway.does(line);
        await signing(gateway);
        assert.match(await ask(desk, "agent-1", "web01", "id"), / 200$/, "the same key in the agent");
      }
      await gateway.does("systemctl restart gateway-signer");
      await signing(gateway);
      assert.match(
        await ask(desk, "agent-1", "web01", "id"),
        / 200$/,
        "also after a restart without the file",
      );
    });
    await chapter("doctor", async () => {
      await gateway.does("systemctl start gateway-backup.service");
      const backup = "--backup /var/backups/gateway/$(ls /var/backups/gateway)";
      // The exit code must be 0 too.
      await gateway.does(
        `broker-ctl doctor --live ${backup} ${CONFIG}`,
        /^\d+ PASS, 0 WARN, 0 UNKNOWN, 0 FAIL$/m,
      );
    });
  } finally {
    await Deno.remove(work, { recursive: true });
  }
});

/** Returns the ID of the pending request. */
async function waitingFor(desk: Person, list: string): Promise<string> {
  let id: string | undefined;
  await poll(async () => {
    const { stdout } = await desk.machine.run("sh", "-c", list);
    id = /"id":"([0-9a-f]+)"/.exec(stdout)?.[1];
    return id !== undefined;
  }, { what: "a request", intervalMs: 300 });
  return id ?? "";
}
