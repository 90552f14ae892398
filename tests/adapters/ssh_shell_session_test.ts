import assert from "node:assert/strict";
import { systemClock, systemRandom } from "@gateway/shared/clock";
import { createMetrics } from "@gateway/shared/service/metrics";
import { createTimings } from "../../broker/request/records.ts";
import { createConnectSession } from "../../broker/sessions/connect_session.ts";
import type { SessionLink } from "../../broker/sessions/session.ts";
import { createEphemeralKey } from "../../broker/ssh/login.ts";
import { keptBytes } from "../../broker/ssh/output.ts";
import { createTestCa, PRINCIPAL } from "../ssh_target/certificates.ts";
import { createOpensshTarget, findSshd } from "../ssh_target/openssh.ts";
import { currentUser } from "../ssh_target/target.ts";
import { mayNotMount } from "./tiny_disk.ts";

const SHELLS = ["/bin/dash", "/bin/bash", "/bin/busybox"];
const MODES = ["shell", "pty"] as const;
const NEVER = new AbortController().signal;
const FRESH = /^execution: the command left the shell's loop .* fresh shell/;

/** Opens a session on a real sshd whose `/bin/sh` is a shell of another name. */
async function withSession(
  { shell, mode }: { readonly shell: string; readonly mode: "shell" | "pty" },
  test: (run: (command: string) => Promise<string>) => Promise<void>,
): Promise<void> {
  const sshd = findSshd();
  assert.ok(sshd, "sshd is not installed");
  const dir = await Deno.makeTempDir({ prefix: "shell-session-" });
  const ca = createTestCa();
  const target = await createOpensshTarget(sshd, currentUser(), {
    caPublicKeyLine: ca.publicKeyLine,
    principals: { [currentUser()]: [PRINCIPAL] },
    dir,
    launcher: [
      "unshare",
      "--mount",
      "--propagation",
      "private",
      "/bin/sh",
      "-c",
      'mount --bind "$0" "$(readlink -f /bin/sh)" || exit; exec "$@"',
      await Deno.realPath(shell),
    ],
  });
  let link: SessionLink | undefined;
  try {
    const key = createEphemeralKey();
    link = await createConnectSession({
      clock: systemClock,
      random: systemRandom,
      timings: createTimings(createMetrics()),
    })({
      hops: [{
        name: "target",
        addr: `127.0.0.1:${target.port}`,
        hostKey: target.hostKeyLine,
        user: target.user,
        certificate: await ca.certify(key.publicKeyLine, {}),
        key,
      }],
      mode,
      elevationPrefix: "",
      signal: NEVER,
    });
    const { run } = link;
    await test(async (command) => {
      const { stdout, stderr, exitCode } = await run.call(link, command, {
        signal: AbortSignal.timeout(60_000),
      });
      const text = new TextDecoder();
      return `${text.decode(keptBytes(stdout))}|${text.decode(keptBytes(stderr))}|${exitCode}`;
    });
  } finally {
    await link?.close();
    await target.close();
    await Deno.remove(dir, { recursive: true });
  }
}

const CASES = SHELLS.flatMap((shell) => MODES.map((mode) => ({ shell, mode })));

Deno.test.each(CASES)(
  "a session in mode $mode with $shell as /bin/sh answers at once whatever a command does to its streams and loop (needs root)",
  { ignore: mayNotMount },
  async (options) => {
    await withSession(options, async (run) => {
      assert.equal(await run(`cd /usr; x=kept; cmp /proc/$$/exe ${options.shell}`), "||0");
      for (const command of ["continue", "break", "exec 6>&- 7>&-", "exec 0<&0"]) {
        assert.equal(await run(command), "||0", command);
      }
      assert.equal(await run("echo $x; pwd"), "kept\n/usr\n||0");
      assert.equal(await run("exec 2>&1"), "||0");
      assert.equal(await run("echo a; echo b >&2"), "a\nb\n||0");
      assert.equal(await run("exec 1>&- 2>&-"), "||0");
      assert.match(await run("echo a 2>/dev/null; true"), /^\|\|0$/);

      for (const command of ["break 9", "continue 9", "continue 2"]) {
        await assert.rejects(run(`y=lost; ${command}`), { message: FRESH }, command);
        assert.equal(await run("echo \"[$x$y]\"; pwd | grep -c '^/usr$'"), "[]\n0\n||1", command);
      }
      assert.equal(await run("echo out; sh -c 'exit 4'"), "out\n||4");
      await assert.rejects(run("exit 3"), /session shell has ended/);
    });
  },
);

Deno.test.each(SHELLS.map((shell) => ({ shell })))(
  "a session in mode pty with $shell as /bin/sh gives LF, as programs print it (needs root)",
  { ignore: mayNotMount },
  async ({ shell }) => {
    await withSession({ shell, mode: "pty" }, async (run) => {
      assert.equal(await run("printf 'a\\nb\\r\\nc'; test -t 1 && echo tty"), "a\nb\r\nctty\n||0");
    });
  },
);
