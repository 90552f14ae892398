/** Whether tests run on the system's sshd. What is left out where they can't says so here. */
import assert from "node:assert/strict";
import { SSHD_PROBLEM } from "../ssh_target/sshd_problem.ts";
import { availableKinds } from "../ssh_target/target.ts";

const ignore = !availableKinds().includes("openssh");
const name = "tests of the system's sshd run on it";

Deno.test({ name: ignore ? `${name} (left out: ${SSHD_PROBLEM})` : name, ignore }, () => {
  assert.equal(SSHD_PROBLEM, "");
});

/** What a process finds that is started by these words. */
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
    name: "sshd's account is missing",
    launcher: (folder) => [...NO_ACCOUNT, `${folder}/passwd`],
    says: /sshd can't start: Privilege separation user sshd does not exist/,
  },
  {
    name: "root has no capabilities",
    launcher: () => ["setpriv", "--bounding-set=-all", "--inh-caps=-all"],
    says: /sshd lets nobody in: /,
  },
  {
    name: "root is root of a user namespace alone",
    launcher: () => ["unshare", "--user", "--map-root-user"],
    says: /sshd lets nobody in: /,
  },
])("where $name the embedded server is taken, and why is said (needs root)", {
  ignore: ignore || Deno.uid() !== 0,
}, async ({ launcher, says }) => {
  const folder = await Deno.makeTempDir({ prefix: "sshd-problem-" });
  try {
    assert.match(await problemUnder(...launcher(folder)), says);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
