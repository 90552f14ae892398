import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { type Scene, shareTargets } from "../ssh_target/scene.ts";
import { terminalTest } from "../ssh_target/terminals.ts";
import { availableKinds, currentUser } from "../ssh_target/target.ts";
import { systemClock, systemRandom } from "@gateway/shared/clock";
import { createMetrics } from "@gateway/shared/service/metrics";
import { createTimings } from "../../broker/request/records.ts";
import { createConnectSession } from "../../broker/sessions/connect_session.ts";
import type { SessionLink } from "../../broker/sessions/session.ts";
import { createEphemeralKey } from "../../broker/ssh/login.ts";
import { keptBytes } from "../../broker/ssh/output.ts";
import { createTestCa, PRINCIPAL } from "../ssh_target/certificates.ts";
import { createOpensshTarget, findSshd } from "../ssh_target/openssh.ts";
import { mayNotMount } from "./tiny_disk.ts";
import { SSHD_PROBLEM } from "../ssh_target/sshd_problem.ts";
import { createFolder } from "../stage/folder.ts";

const kinds = availableKinds().map((kind) => ({ kind }));
const withTarget = shareTargets();
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const LIMIT = 10_485_760;
const MARK = `\n[output truncated: limit of ${LIMIT} bytes exceeded]\n`;

function testOverTargets(
  name: string,
  test: (scene: Scene) => Promise<void>,
  { onSshd = Deno.test }: { readonly onSshd?: typeof terminalTest } = {},
): void {
  for (const { kind } of kinds) {
    const register = kind === "openssh" ? onSshd : Deno.test;
    register(`${name} (${kind})`, () => withTarget(kind, test));
  }
}

testOverTargets("runCommand() gives a command that reads stdin its end at once", async ({ run }) => {
  const result = await run("cat; echo done");
  assert.equal(text(result.stdout), "done\n");
  assert.equal(result.exitCode, 0);
});

testOverTargets("runCommand() runs the forced command in place of the one asked for", async ({ run }) => {
  const result = await run("echo asked", { fields: { criticalOptions: { "force-command": "echo forced" } } });
  assert.equal(text(result.stdout), "forced\n");
});

testOverTargets("runCommand() keeps bytes that are not UTF-8", async ({ run }) => {
  const result = await run(String.raw`printf '\377\376\000A\303'`);
  assert.deepEqual([...result.stdout], [0xff, 0xfe, 0, 0x41, 0xc3]);
});

testOverTargets(
  "runCommand() passes a command line with every kind of quote and non-ASCII",
  async ({ run }) => {
    const result = await run(`printf '%s|' "a b" 'c"d' é\\ü 日本`);
    assert.equal(text(result.stdout), `a b|c"d|éü|日本|`);
  },
);

for (const [signal, exitCode] of [["TERM", 143], ["KILL", 137], ["USR1", 128]] as const) {
  testOverTargets(`runCommand() gives ${exitCode} for a command killed by ${signal}`, async ({ run }) => {
    assert.equal((await run(`kill -${signal} $$; sleep 5`)).exitCode, exitCode);
  });
}

testOverTargets(
  "runCommand() with a terminal has one stream and line ends of a terminal",
  async ({ run }) => {
    const result = await run("echo out; echo err >&2; exit 4", { pty: true });
    assert.equal(text(result.stdout), "out\r\nerr\r\n");
    assert.equal(result.stderr.length, 0);
    assert.equal(result.exitCode, 4);
  },
  { onSshd: terminalTest },
);

if (kinds.some(({ kind }) => kind === "openssh")) {
  terminalTest(
    "runCommand() asks for a terminal of 220 by 40 without echo",
    () =>
      withTarget("openssh", async ({ run }) => {
        const shown = text((await run("echo $TERM; stty -a", { pty: true })).stdout);
        assert.match(shown, /^xterm-256color\r\n/);
        assert.match(shown, /rows 40; columns 220;/);
        assert.match(shown, / -echo /);
      }),
  );
}

testOverTargets("runCommand() reports a refused terminal", async ({ run }) => {
  await assert.rejects(run("echo no", { pty: true, fields: { extensions: [] } }), {
    code: "upstream_failure",
    message: "execution: the host refused the pseudo-terminal or the command",
  });
});

testOverTargets("runCommand() cuts a flood of both streams and still gets the exit code", async ({ run }) => {
  const result = await run(
    "head -c 30000000 /dev/zero | tr '\\0' a & head -c 30000000 /dev/zero | tr '\\0' b >&2; wait; exit 7",
  );
  assert.equal(result.exitCode, 7);
  for (const [stream, letter] of [[result.stdout, "a"], [result.stderr, "b"]] as const) {
    assert.equal(stream.length, LIMIT + MARK.length);
    assert.equal(text(stream.subarray(LIMIT)), MARK);
    assert.ok(stream.subarray(0, LIMIT).every((byte) => byte === letter.charCodeAt(0)));
  }
});

testOverTargets("runCommand() keeps output that is exactly at the limit whole", async ({ run }) => {
  const result = await run("head -c 1000 /dev/zero", { limits: { outputBytes: 1000 } });
  assert.equal(result.stdout.length, 1000);
});

testOverTargets("runCommand() copes with a thousand lines one byte at a time", async ({ run }) => {
  const result = await run("i=0; while [ $i -lt 1000 ]; do printf x; i=$((i+1)); done; printf last");
  assert.equal(text(result.stdout), "x".repeat(1000) + "last");
});

testOverTargets(
  "runCommand() serves several commands at once on connections of their own",
  async ({ run }) => {
    const results = await Promise.all(Array.from({ length: 8 }, (_, index) => run(`echo ${index}`)));
    assert.deepEqual(
      results.map(({ stdout }) => text(stdout)),
      [0, 1, 2, 3, 4, 5, 6, 7].map((n) => `${n}\n`),
    );
  },
);

Deno.test("runCommand() of 1 GB of output keeps at most the limit", {
  ignore: !kinds.some(({ kind }) => kind === "openssh"),
}, () =>
  withTarget("openssh", async ({ run }) => {
    // Measure this thread only, because other tests share the process.
    const used = () => Deno.memoryUsage().heapUsed + Deno.memoryUsage().external;
    const before = used();
    let peak = before;
    const sampler = setInterval(() => {
      peak = Math.max(peak, used());
    }, 10);
    const result = await run("head -c 1000000000 /dev/zero; exit 5").finally(() => clearInterval(sampler));
    assert.equal(result.exitCode, 5);
    assert.equal(result.stdout.length, LIMIT + MARK.length);
    assert.ok(peak - before < 300_000_000, `${peak - before} bytes more`);
  }));

testOverTargets("runCommand() gives the command every byte of its input, and its end", async ({ run }) => {
  for (const length of [0, 1, 256, 5_000_000]) {
    const stdin = Uint8Array.from({ length }, (_, index) => (index * 31 + (index >> 8)) & 0xff);
    const { stdout, exitCode } = await run("cat", { stdin });
    assert.equal(exitCode, 0);
    assert.equal(stdout.length, length);
    assert.ok(Buffer.from(stdout).equals(stdin));
  }
});

testOverTargets("runCommand() copes with a command that does not read its input", async ({ run }) => {
  const stdin = new Uint8Array(8_000_000);
  const result = await run("echo no >&2; exit 3", { stdin });
  assert.deepEqual([text(result.stderr), result.exitCode], ["no\n", 3]);
});

const SHELLS = ["/bin/dash", "/bin/bash", "/bin/busybox"];
const MODES = ["shell", "pty"] as const;
const NEVER = new AbortController().signal;
const FRESH = /^execution: the command left the shell's loop .* fresh shell/;

/** Opens a session on a real sshd with another shell as `/bin/sh`. */
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
  "a $mode session with $shell as /bin/sh returns results after commands that change streams or loop (needs root)",
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

const ignore = !availableKinds().includes("openssh");
const name = "tests of the system's sshd run on it";

Deno.test({ name: ignore ? `${name} (left out: ${SSHD_PROBLEM})` : name, ignore }, () => {
  assert.equal(SSHD_PROBLEM, "");
});

/** The sshd problem found by a process started with this launcher. */
async function problemUnder(...launcher: readonly string[]): Promise<string> {
  const module = new URL("../ssh_target/tell_problem.ts", import.meta.url).pathname;
  const permissions = ["read", "write", "net=127.0.0.1", "run", "env", "sys"].map((name) =>
    `--allow-${name}`
  );
  const deno = [Deno.execPath(), "run", "--quiet", "--no-prompt", "--cached-only", ...permissions, module];
  const [program = "", ...words] = [...launcher, ...deno];
  const { stdout, stderr } = await new Deno.Command(program, { args: words, env: { NO_COLOR: "1" } })
    .output();
  return new TextDecoder().decode(stdout).trim() || new TextDecoder().decode(stderr).trim();
}

const NO_ACCOUNT = [
  ...["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c"],
  'grep -v "^sshd:" /etc/passwd > "$0"; mount --bind "$0" /etc/passwd; exec "$@"',
];

Deno.test.each<{ name: string; launcher: (folder: string) => readonly string[]; says: RegExp }>([
  {
    name: "the sshd account is missing",
    launcher: (folder) => [...NO_ACCOUNT, `${folder}/passwd`],
    says: /sshd can't start: Privilege separation user sshd does not exist/,
  },
  {
    name: "root has no capabilities",
    launcher: () => ["setpriv", "--bounding-set=-all", "--inh-caps=-all"],
    says: /sshd lets nobody in: /,
  },
  {
    name: "root has privileges only inside a user namespace",
    launcher: () => ["unshare", "--user", "--map-root-user"],
    says: /sshd lets nobody in: /,
  },
])("if $name the embedded server is used and the reason reported (needs root)", {
  ignore: ignore || Deno.uid() !== 0,
}, async ({ launcher, says }) => {
  await using folder = await createFolder();
  assert.match(await problemUnder(...launcher(folder.path)), says);
});
