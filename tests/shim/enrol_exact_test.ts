import assert from "node:assert/strict";
import { EnrolHost, PRINCIPAL } from "./enrol_host.ts";
import { ACCOUNT, mayNotSeal } from "./sealed_host.ts";

const NEEDS = "(needs root, sshd and overlays)";

Deno.test({
  name: `a host's lines count as sshd reads them: no comment, no part of another name ${NEEDS}`,
  ignore: mayNotSeal,
  async fn() {
    await using host = await EnrolHost.start(
      "TrustedUserCAKeys /etc/ssh/cas\nAuthorizedPrincipalsFile /etc/ssh/who/%u",
    );
    const who = `/etc/ssh/who/${ACCOUNT}`;
    await host.sh(`mkdir -p /etc/ssh/who; printf '# %s\\n${PRINCIPAL}2\\n' '${PRINCIPAL}' >${who}
      { printf '# '; cat /var/k/ours.pub; cat /var/k/other.pub; } >/etc/ssh/cas`);
    const status = async () => (await host.enrol({ mode: "status" })).stdout;
    const ours = (await host.sh("cut -d' ' -f1,2 /var/k/ours.pub")).trim();
    const said = await status();
    assert.deepEqual([said.includes(`ca: ${ours}\n`), /principal: no\n$/.test(said)], [false, true], said);
    assert.equal((await host.enrol()).code, 0);
    assert.equal(await host.mayLogIn("ours", PRINCIPAL), true);
    assert.equal((await status()).includes(`ca: ${ours}\n`), true);

    // sshd reads no further than this, so that it trusts nobody.
    await host.sh("cp /etc/ssh/cas /etc/ssh/cas.good; sed -i '2i no key' /etc/ssh/cas");
    assert.equal(await host.mayLogIn("ours", PRINCIPAL), false);
    const refused = await host.enrol();
    assert.match(refused.stderr, /a line before it is no key[^]*everything was taken back/);
    await host.sh("mv /etc/ssh/cas.good /etc/ssh/cas");

    // By hand, as sshd takes them too.
    await host.sh(
      `sed -i 's/^ssh-ed25519 /ssh-ed25519\\t/' /etc/ssh/cas; sed -i 's/^${PRINCIPAL}$/& # ann/' ${who}`,
    );
    assert.equal(await host.mayLogIn("ours", PRINCIPAL), true);
    const { code, stderr } = await host.enrol({ mode: "remove" });
    assert.deepEqual([code, stderr], [0, ""]);
    assert.equal(await host.mayLogIn("ours", PRINCIPAL), false);
    assert.equal(await host.mayLogIn("ours", `${PRINCIPAL}2`), false, "the CA is trusted no more");
    assert.equal(await host.mayLogIn("other", `${PRINCIPAL}2`), true, "what others had it trust stays");
    assert.match(await host.sh("cat /etc/ssh/cas"), /^# ssh-ed25519/);
  },
});
