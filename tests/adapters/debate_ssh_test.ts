import assert from "node:assert/strict";
import { availableKinds, currentUser, startSshTarget } from "../ssh_target/target.ts";
import { run } from "../stage/run.ts";
import { type CallTool, realTools, temporaryFolder } from "./debate_tools_fixture.ts";
import { isMissing } from "../stage/is_missing.ts";

const ignore = isMissing("ssh", ["/usr/bin/ssh"]) || !availableKinds().includes("openssh");

interface Scene {
  readonly call: CallTool;
  readonly port: number;
  readonly folder: string;
  readonly hostKeyLine: string;
  setKnownHosts(text: string): Promise<void>;
}

async function withHost(test: (scene: Scene) => Promise<void>): Promise<void> {
  await using folder = await temporaryFolder();
  const dir = folder.path;
  for (const name of ["ca", "id"]) {
    await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", `${dir}/${name}`]);
  }
  await run("ssh-keygen", ["-q", "-s", `${dir}/ca`, "-I", "test", "-n", "diag", `${dir}/id.pub`]);
  await Deno.mkdir(`${dir}/host`);
  const target = await startSshTarget({
    caPublicKeyLine: await Deno.readTextFile(`${dir}/ca.pub`),
    principals: { [currentUser()]: ["diag"] },
    dir: `${dir}/host`,
    forceKind: "openssh",
  });
  try {
    await test({
      call: await realTools({
        settings: {
          SSH_DEFAULT_USER: currentUser(),
          SSH_KEY_PATH: `${dir}/id`,
          SSH_KNOWN_HOSTS: `${dir}/known hosts`,
        },
      }),
      port: target.port,
      folder: dir,
      hostKeyLine: target.hostKeyLine,
      setKnownHosts: (text) => Deno.writeTextFile(`${dir}/known hosts`, text),
    });
  } finally {
    await target.close();
  }
}

Deno.test({
  name: "run_ssh_command runs a program on a known host, with words that no shell there takes apart",
  ignore,
  fn: () =>
    withHost(async ({ call, port, folder, hostKeyLine, setKnownHosts }) => {
      await setKnownHosts(`[127.0.0.1]:${port} ${hostKeyLine}\n`);
      const ask = (command: string) => call("run_ssh_command", { host: "127.0.0.1", port, command });
      const { ok, text } = await ask("uname -s");
      assert.equal(ok, true, text);
      assert.match(text, /Linux$/);
      await Deno.writeTextFile(`${folder}/log`, "a | touch x\n$HOME hunter2\n");
      assert.match((await ask(`grep 'a | touch' ${folder}/log`)).text, /\na \| touch x$/);
      assert.match((await ask(`grep '\$HOME' ${folder}/log`)).text, /\n\$HOME \[REDACTED\]$/);
      assert.match((await ask(`grep '; touch ${folder}/owned;' ${folder}/log`)).text, /exit code 1/);
      assert.match((await ask("cat /no/such/file")).text, /exit code 1.*\nstderr:\n.*No such file/s);
      await assert.rejects(Deno.stat(`${folder}/owned`), Deno.errors.NotFound);
      await Deno.mkdir(`${folder}/app/.ssh`, { recursive: true });
      for (const name of ["app.log", ".env", "server.KEY", ".ssh/config"]) {
        await Deno.writeTextFile(`${folder}/app/${name}`, `found in ${name}\n`);
      }
      for (
        const options of ["-rh", "-rh --include=.env", "-h --recursive --include='*.KEY' --include='*.log'"]
      ) {
        const { text } = await ask(`grep ${options} found ${folder}/app`);
        assert.doesNotMatch(text, /found in (?!app)/, options);
      }
      assert.match((await ask(`grep -rh found ${folder}/app`)).text, /\nfound in app\.log$/);
    }),
});

Deno.test({
  name: "run_ssh_command refuses a host that is unknown, or has another key, and learns none",
  ignore,
  fn: () =>
    withHost(async ({ call, port, folder, setKnownHosts }) => {
      const ask = () => call("run_ssh_command", { host: "127.0.0.1", port, command: "uptime" });
      const unknown = await ask();
      assert.equal(unknown.ok, false);
      assert.match(unknown.text, /known_hosts/);
      await assert.rejects(Deno.stat(`${folder}/known hosts`), Deno.errors.NotFound);
      const other = (await Deno.readTextFile(`${folder}/ca.pub`)).trim();
      await setKnownHosts(`[127.0.0.1]:${port} ${other}\n`);
      const changed = await ask();
      assert.equal(changed.ok, false);
      assert.match(changed.text, /known_hosts/);
      assert.equal(await Deno.readTextFile(`${folder}/known hosts`), `[127.0.0.1]:${port} ${other}\n`);
    }),
});

Deno.test({
  name: "run_ssh_command tells a refused key from a host that is not there",
  ignore,
  fn: () =>
    withHost(async ({ call, port, hostKeyLine, setKnownHosts }) => {
      await setKnownHosts(`[127.0.0.1]:${port} ${hostKeyLine}\n`);
      const denied = await call("run_ssh_command", {
        host: "127.0.0.1",
        port,
        user: "nobody-here",
        command: "uptime",
      });
      assert.match(denied.text, /did not accept the key/);
      const away = await call("run_ssh_command", { host: "127.0.0.1", port: 1, command: "uptime" });
      assert.match(away.text, /cannot be reached.*refused/s);
    }),
});

Deno.test({
  name: "run_ssh_command stops at its bound in time",
  ignore,
  fn: () =>
    withHost(async ({ call, port, hostKeyLine, setKnownHosts }) => {
      await setKnownHosts(`[127.0.0.1]:${port} ${hostKeyLine}\n`);
      const { ok, text } = await call("run_ssh_command", {
        host: "127.0.0.1",
        port,
        command: "vmstat 10 10",
        timeout: 1,
      });
      assert.equal(ok, false);
      assert.match(text, /stopped after 1 s/);
    }),
});
