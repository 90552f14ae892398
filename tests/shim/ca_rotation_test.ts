import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { JsonClient } from "@gateway/shared/http";
import { createFolder, run } from "../adapters/ctl_fixture.ts";
import { run as runProgram } from "../stage/run.ts";
import { startAgent } from "../stage/ssh_agent.ts";
import { freePort } from "../stage/free_port.ts";
import { signerCommand } from "../stage/service_command.ts";
import { ServiceProcess } from "../stage/service_process.ts";
import { CONFIG, EnrolHost, runOverSshTo } from "./enroll_host.ts";
import { ACCOUNT, mayNotSeal } from "./sealed_host.ts";

const NEEDS = "(needs root, sshd and overlays)";

Deno.test({
  name: `ca rotate changes the key that hosts trust without an interruption of logins ${NEEDS}`,
  ignore: mayNotSeal,
  async fn() {
    await using host = await EnrolHost.start("LogLevel VERBOSE");
    await using folder = await createFolder();
    const hostKey = (await host.sh("cut -d' ' -f1,2 /etc/ssh/test_key.pub")).trim();
    const signer = `127.0.0.1:${freePort()}`;
    const made = await run(
      folder.path,
      ...[
        "init",
        "--dir=.",
        "--direct",
        "--listen-signer",
        signer,
        "--monitor-signer",
        `127.0.0.1:${freePort()}`,
      ],
      ...["--host", `web01=127.0.0.1:${host.port},user=${ACCOUNT},key=${hostKey}`],
    );
    assert.equal(made.exit, 0, made.err);
    const at = (name: string) => `${folder.path}/${name}`;
    const read = (name: string) => Deno.readTextFile(at(name));
    assert.equal((await runOverSshTo(host, folder.path, "host", "enrol", "web01")).code, 0);
    await using _signer = await ServiceProcess.start(await signerCommand(at("signer.json")));
    using client = new JsonClient({
      clock: systemClock,
      baseUrl: `https://${signer}`,
      cert: await read("pki/broker.crt"),
      key: await read("pki/broker.key"),
      ca: await read("pki/mtls_ca.crt"),
    });
    const publicKey = (await host.sh("cut -d' ' -f1,2 /var/k/user.pub")).trim();
    const sign = async () => {
      const { status, body, text } = await client.request({
        method: "POST",
        path: "/v1/sign",
        body: {
          ...{
            host: "web01",
            role: "target",
            purpose: "oneshot",
            command: "hostname",
            public_key: publicKey,
          },
          ...{ ttl_seconds: 120, end_user: "", end_user_groups: null },
        },
      });
      assert.equal(status, 200, text);
      return (body as { readonly certificate: string }).certificate;
    };
    const logIn = (certificate: string, file = "u2") =>
      host.sh(
        `cd /var/k && cp user ${file} && cat >${file}-cert.pub && ssh -F none -i ${file} -o BatchMode=yes -o StrictHostKeyChecking=no \
          -o UserKnownHostsFile=/dev/null -o ConnectTimeout=20 -p ${host.port} ${ACCOUNT}@127.0.0.1 true`,
        certificate,
      ).then(() => true, () => false);
    const rotate = (step: string) =>
      runOverSshTo(host, folder.path, "ca", "rotate", step, "--client-config", at("broker-ctl.json"));
    let [isOver, logins] = [false, 0];
    const throughout = (async () => {
      while (!isOver) {
        assert.ok(await logIn(await sign()), `login ${logins}`);
        logins++;
      }
    })();
    const steps = (async () => {
      try {
        const former = await read("pki/ssh_ca");
        assert.match((await rotate("finish")).text, /Cannot finish: no rotation in progress/);
        for (const _ of ["first", "again"]) {
          const { code, text } = await rotate("begin");
          assert.deepEqual([code, /^ok {3}web01/m.test(text)], [0, true], text);
        }
        assert.match((await rotate("status")).text, /web01: trusts the current key; trusts the next key/);
        assert.equal(await read("pki/ssh_ca"), former);
        const old = await sign();
        const switched = await rotate("finish");
        assert.deepEqual(
          [switched.code, /run finish again in 16 minutes/.test(switched.text)],
          [0, true],
          switched.text,
        );
        assert.notEqual(await read("pki/ssh_ca"), former);
        assert.ok(await logIn(old, "u3"), "a certificate of the former key, before it ends");
        assert.match((await rotate("begin")).text, /Cannot begin: the previous rotation is not finished/);
        await Deno.writeTextFile(at("pki/ssh_ca.switched"), "torn");
        assert.match(
          (await rotate("finish")).text,
          /run finish again in 16 minutes, when certificates of the previous key have expired/,
        );
        await Deno.writeTextFile(at("pki/ssh_ca.switched"), "2020-01-01T00:00:00Z\n");
        const finished = await rotate("finish");
        assert.equal(finished.code, 0, finished.text);
        assert.equal(await logIn(old, "u3"), false, "a certificate of the former key, afterwards");
        assert.match((await rotate("status")).text, /no rotation in progress/);
      } finally {
        isOver = true;
      }
    })();
    await Promise.all([throughout, steps]);
    assert.ok(logins > 3, `${logins} logins`);
  },
});

Deno.test({
  name: `ca rotate finish changes nothing if a host does not trust the next key ${NEEDS}`,
  ignore: mayNotSeal,
  async fn() {
    await using host = await EnrolHost.start("LogLevel VERBOSE");
    await using folder = await createFolder();
    const hostKey = (await host.sh("cut -d' ' -f1,2 /etc/ssh/test_key.pub")).trim();
    await run(
      folder.path,
      "init",
      "--dir=.",
      "--host",
      `web01=127.0.0.1:${host.port},user=${ACCOUNT},key=${hostKey}`,
    );
    assert.equal((await run(folder.path, "ca", "rotate", "begin")).exit, 0);
    const before = await Deno.readTextFile(`${folder.path}/pki/ssh_ca`);
    const { code, text } = await runOverSshTo(host, folder.path, "ca", "rotate", "finish");
    assert.equal(code, 1);
    assert.match(text, /nothing was changed[^]*FAIL web01: does NOT trust the current key/);
    assert.equal(await Deno.readTextFile(`${folder.path}/pki/ssh_ca`), before);
    const finish = (...more: string[]) => runOverSshTo(host, folder.path, "ca", "rotate", "finish", ...more);
    assert.match((await finish("--except", "web02")).text, /no host of this name trusts the key/);
    assert.equal(await Deno.readTextFile(`${folder.path}/pki/ssh_ca`), before);
    await finish("--except", "web01");
    assert.notEqual(await Deno.readTextFile(`${folder.path}/pki/ssh_ca`), before);
    assert.match(
      await Deno.readTextFile(`${folder.path}/pki/ssh_ca.excepted`),
      / web01 was not checked for the next key/,
    );
    // The state after a kill that happened when the key was already installed.
    const keys = await Promise.all(
      ["", ".pub"].map((end) => Deno.readTextFile(`${folder.path}/pki/ssh_ca${end}`)),
    );
    await Deno.writeTextFile(`${folder.path}/pki/ssh_ca.next`, keys[0]!);
    await Deno.writeTextFile(`${folder.path}/pki/ssh_ca.pub`, "the former");
    await finish("--except", "web01");
    assert.deepEqual(
      await Promise.all(["", ".pub"].map((end) => Deno.readTextFile(`${folder.path}/pki/ssh_ca${end}`))),
      keys,
    );
    await assert.rejects(Deno.stat(`${folder.path}/pki/ssh_ca.next`), Deno.errors.NotFound);
  },
});

Deno.test({
  name: `ca rotate changes a key in an agent, and doctor shows which keys a host trusts ${NEEDS}`,
  ignore: mayNotSeal,
  async fn() {
    await using host = await EnrolHost.start("LogLevel VERBOSE");
    await using folder = await createFolder();
    const at = (name: string) => `${folder.path}/${name}`;
    await using agent = await startAgent(at("agent.sock"));
    const hostKey = (await host.sh("cut -d' ' -f1,2 /etc/ssh/test_key.pub")).trim();
    await run(
      folder.path,
      ...["init", "--dir=.", "--direct", "--listen-signer", `127.0.0.1:${freePort()}`, "--monitor-signer"],
      ...[`127.0.0.1:${freePort()}`, "--host", `web01=127.0.0.1:${host.port},user=${ACCOUNT},key=${hostKey}`],
    );
    for (const name of ["ca", "ca2"]) {
      await runProgram("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", at(name)]);
      await agent.add(at(name));
      await Deno.remove(at(name));
    }
    const named = ["--name", "_default", "--type", "agent", "--socket", agent.socket];
    const kept = await run(folder.path, "ca-keys", "add", ...named, "--public-key-path", at("ca.pub"));
    assert.equal(kept.exit, 0, kept.err);
    await using _signer = await ServiceProcess.start(await signerCommand(at("signer.json")));
    const rotate = async (step: string, expected: { readonly code: number; readonly says: RegExp }) => {
      const args = ["ca", "rotate", step, "--client-config", at("broker-ctl.json")];
      const { code, text } = await runOverSshTo(host, folder.path, ...args);
      assert.equal(code, expected.code, text);
      assert.match(text, expected.says);
    };
    const trusts = async (key: string) => (await host.sh("cat /etc/ssh/gateway_ca.pub")).includes(key.trim());
    const [first, second] = [await Deno.readTextFile(at("ca.pub")), await Deno.readTextFile(at("ca2.pub"))];

    await rotate("begin", {
      code: 1,
      says: /Cannot find ".*ca\.pub\.next"\nfix: add the next key to the same agent/,
    });
    await Deno.writeTextFile(at("ca.pub.next"), first);
    await rotate("begin", { code: 1, says: /it is the current key/ });
    await Deno.writeTextFile(at("ca.pub.next"), second);
    await rotate("begin", { code: 0, says: /^ok {3}web01/m });
    assert.deepEqual([await trusts(first), await trusts(second)], [true, true]);
    await rotate("finish", { code: 0, says: /run finish again in 16 minutes/ });
    assert.equal(await Deno.readTextFile(at("ca.pub")), second);
    await Deno.writeTextFile(at("ca.pub.switched"), "2020-01-01T00:00:00Z\n");
    await rotate("finish", {
      code: 0,
      says: /web01: .*login as gw-sealed with a certificate for host:web01 succeeded/,
    });
    assert.deepEqual([await trusts(first), await trusts(second)], [false, true]);

    const diagnose = async () => (await runOverSshTo(host, folder.path, "doctor", "--live")).text;
    const wrong = (text: string) => text.split("\n").filter((line) => line.includes('host "web01"'));
    const [line = "", ...more] = wrong(await diagnose());
    assert.match(line, /^\[WARN\] .*has no RevokedKeys/);
    assert.deepEqual(more, []);
    await host.sh(`sed -i '1i ForceCommand /bin/true' ${CONFIG}; echo >/etc/ssh/gateway_ca.pub`);
    const [trust = "", force = ""] = wrong(await diagnose());
    assert.match(trust, /^\[FAIL\] .*does not trust the signer's CA/);
    assert.match(force, /^\[FAIL\] .*ForceCommand "\/bin\/true"/);
  },
});
