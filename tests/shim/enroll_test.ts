import assert from "node:assert/strict";
import { createFolder, run } from "../adapters/ctl_fixture.ts";
import { CONFIG, EnrolHost, PRINCIPAL, runOverSshTo } from "./enroll_host.ts";
import { ACCOUNT, mayNotSeal } from "./sealed_host.ts";

const NEEDS = "(needs root, sshd and overlays)";

/** Hosts before the enrollment: lines of sshd_config, a preparation, and a principal of the other CA. */
const HOSTS: readonly {
  readonly name: string;
  readonly lines: string;
  readonly prepare?: string;
  readonly other?: string;
}[] = [
  { name: "trusts nobody", lines: "PasswordAuthentication no" },
  { name: "trusts nobody and ends in a Match", lines: "Match User nobody\nX11Forwarding no" },
  {
    name: "trusts another CA by files of principals",
    lines: "TrustedUserCAKeys /etc/ssh/cas\nAuthorizedPrincipalsFile /etc/ssh/who/%u",
    prepare: `cp /var/k/other.pub /etc/ssh/cas; mkdir -p /etc/ssh/who; printf staff >/etc/ssh/who/${ACCOUNT}`,
    other: "staff",
  },
  {
    name: "trusts another CA, in drop-ins",
    lines: "Include /etc/ssh/test.d/*.conf",
    prepare: "echo 'TrustedUserCAKeys /var/k/other.pub' >/etc/ssh/test.d/10-other.conf",
    other: ACCOUNT,
  },
];

for (const { name, lines, prepare = "true", other } of HOSTS) {
  Deno.test({
    name: `enroll and unenroll keep the other logins of a host that ${name} ${NEEDS}`,
    ignore: mayNotSeal,
    async fn() {
      await using host = await EnrolHost.start(lines);
      await host.sh(`${prepare}; kill -HUP $(cat /etc/ssh/test.pid); sleep 1`);
      const others = async () => other === undefined || await host.mayLogIn("other", other);
      assert.deepEqual([await host.mayLogIn("ours", PRINCIPAL), await others()], [false, true], "before");
      for (const _ of ["first", "again"]) {
        const { code, stdout, stderr } = await host.enrol();
        assert.deepEqual([code, stderr], [0, ""], stdout);
        assert.deepEqual([await host.mayLogIn("ours", PRINCIPAL), await others()], [true, true], "enrolled");
      }
      assert.equal(await host.mayLogIn("ours", "host:web02"), false, "another host's certificate");
      assert.match(
        await host.sh(`sshd=$(command -v sshd); $sshd -T -f ${CONFIG} | grep -i loglevel`),
        /DEBUG/,
      );
      const status = await host.enrol({ mode: "status" });
      assert.match(status.stdout, /^ca: ssh-ed25519 \S+[^]*principal: yes\n$/);
      const { code, stderr } = await host.enrol({ mode: "remove" });
      assert.deepEqual([code, stderr], [0, ""]);
      assert.deepEqual([await host.mayLogIn("ours", PRINCIPAL), await others()], [false, true], "unenrolled");
    },
  });
}

Deno.test({
  name: `a host rolls back changes that were not confirmed or that sshd rejects ${NEEDS}`,
  ignore: mayNotSeal,
  async fn() {
    await using host = await EnrolHost.start("TrustedUserCAKeys /var/k/other.pub");
    const before = [await host.state(), await host.sh("cat /var/k/other.pub")];
    const now = async () => [await host.state(), await host.sh("cat /var/k/other.pub")];
    // The operator does not confirm.
    assert.equal((await host.enrol({ confirmSeconds: 10 })).code, 0);
    assert.equal(await host.mayLogIn("ours", PRINCIPAL), true);
    await host.sh(
      "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do [ -d /etc/gateway/enrolment.pending ] || exit 0; sleep 1; done; exit 1",
    );
    assert.deepEqual(await now(), before);
    assert.deepEqual([await host.mayLogIn("ours", PRINCIPAL), await host.mayLogIn("other", ACCOUNT)], [
      false,
      true,
    ]);
    // The operator rolls back the enrollment.
    assert.equal((await host.enrol({ confirmSeconds: 600 })).code, 0);
    const second = await host.enrol();
    assert.match(second.stderr, /another enrollment is in progress/);
    assert.equal((await host.enrol({ mode: "undo" })).code, 0);
    assert.deepEqual(await now(), before);
    await host.sh("mv /etc/ssh/test.pid /var/k/test.pid");
    const unreachable = await host.enrol();
    assert.match(
      unreachable.stderr,
      /cannot reload sshd: no systemd unit [^]* \/etc\/ssh\/test\.pid does not name a running sshd\nfix: set PidFile/,
    );
    await host.sh("mv /var/k/test.pid /etc/ssh/test.pid");
    assert.deepEqual(await now(), before);
    // sshd would exit on a reload.
    await host.sh("echo NoSuchOption yes >>/etc/ssh/test_config");
    const broken = await now();
    const refused = await host.enrol();
    assert.notEqual(refused.code, 0);
    assert.match(refused.stderr, /bad configuration options/);
    assert.deepEqual(await now(), broken);
    assert.equal(await host.mayLogIn("other", ACCOUNT), true);
  },
});

Deno.test({
  name: `host enroll does not write to a directory that another user can write to ${NEEDS}`,
  ignore: mayNotSeal,
  async fn() {
    const lines = "TrustedUserCAKeys /var/k/other.pub\nAuthorizedPrincipalsFile %h/.ssh/who";
    await using host = await EnrolHost.start(lines);
    const before = [await host.state(), await host.sh("cat /var/k/other.pub")];
    const { code, stderr } = await host.enrol();
    assert.notEqual(code, 0);
    assert.match(stderr, /users other than root can write to [^]*all changes were rolled back/);
    assert.deepEqual([await host.state(), await host.sh("cat /var/k/other.pub")], before);
  },
});

Deno.test({
  name: `host enroll --over ssh tests a login and rolls back all changes if it fails ${NEEDS}`,
  ignore: mayNotSeal,
  async fn() {
    await using host = await EnrolHost.start("TrustedUserCAKeys /var/k/other.pub");
    await using folder = await createFolder();
    const hostKey = (await host.sh("cut -d' ' -f1,2 /etc/ssh/test_key.pub")).trim();
    const added = `web01=127.0.0.1:${host.port},user=${ACCOUNT},key=${hostKey}`;
    assert.equal((await run(folder.path, "init", "--dir=.", "--host", added)).exit, 0);
    const enrol = (verb = "enrol") => runOverSshTo(host, folder.path, "host", verb, "web01");
    const before = await host.state();
    const good = await enrol();
    assert.equal(good.code, 0, good.text);
    assert.match(good.text, /login as gw-sealed with a certificate for host:web01 succeeded/);
    assert.equal((await enrol("unenrol")).code, 0);
    await Deno.writeTextFile(`${folder.path}/bin/ssh.no-listener`, "");
    const patient = await enrol();
    assert.equal(patient.code, 0, `sshd reads its config anew, and listens again: ${patient.text}`);
    assert.equal((await enrol("unenrol")).code, 0);
    // The enrollment itself is correct, but sshd rejects the account.
    await host.sh(
      `echo 'DenyUsers ${ACCOUNT}' | cat - ${CONFIG} >/var/k/new && cp /var/k/new ${CONFIG}; kill -HUP $(cat /etc/ssh/test.pid); sleep 1`,
    );
    const kept = await host.state();
    const bad = await enrol();
    assert.equal(bad.code, 1);
    assert.match(
      bad.text,
      /Cannot log in to \S+ as gw-sealed[^]*sshd's log on the host has the reason[^]*all changes were rolled back/,
    );
    assert.equal(await host.state(), kept);
    assert.notEqual(before, "");
  },
});

Deno.test({
  name: `host enroll explains why no login to the account is possible and how to fix it ${NEEDS}`,
  ignore: mayNotSeal,
  async fn() {
    await using host = await EnrolHost.start("PasswordAuthentication no");
    const before = await host.state();
    const status = async () => (await host.enrol({ mode: "status" })).stdout.match(/^login: (.*)$/m)?.[1];
    assert.equal(await status(), "yes");
    for (
      const { damage, word, why } of [
        { damage: "-L", word: "locked", why: "its password is locked, and sshd has UsePAM no" },
        { damage: "-e 1", word: "expired", why: "the account has expired" },
        { damage: "-s /usr/sbin/nologin", word: "shell", why: "its login shell is /usr/sbin/nologin" },
        { damage: "-s /bin/none", word: "shell", why: "its login shell is /bin/none" },
      ]
    ) {
      await host.sh(`usermod ${damage} ${ACCOUNT}`);
      const { code, stderr } = await host.enrol();
      assert.deepEqual([code, await host.state(), await status()], [1, before, word], damage);
      const [problem = "", fix = ""] = stderr.split("; fix: ");
      assert.equal(problem, `enrol: cannot log in as ${ACCOUNT}: ${why}`);
      await host.sh(fix.split("\n")[0] ?? "");
    }
    assert.equal((await host.enrol()).code, 0);
    assert.equal(await host.mayLogIn("ours", PRINCIPAL), true, "the printed commands fix it");
  },
});
