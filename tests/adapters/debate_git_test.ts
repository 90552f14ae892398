import assert from "node:assert/strict";
import { realTools, temporaryFolder } from "./debate_tools_fixture.ts";
import { isMissing } from "../stage/is_missing.ts";

const ignore = isMissing("git", ["/usr/bin/git", "/usr/local/bin/git"]);

async function git(cwd: string, ...args: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command("git", {
    args: [
      "-c",
      "user.name=Ada",
      "-c",
      "user.email=ada@example.com",
      "-c",
      "init.defaultBranch=main",
      ...args,
    ],
    cwd,
    clearEnv: true,
    env: { PATH: "/usr/local/bin:/usr/bin:/bin", GIT_CONFIG_GLOBAL: "/dev/null" },
  }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
}

async function createRepository(path: string): Promise<void> {
  await Deno.mkdir(path, { recursive: true });
  await git(path, "init", "-q");
  await Deno.writeTextFile(`${path}/a.txt`, "1\n2\n");
  await git(path, "add", ".");
  await git(path, "commit", "-q", "-m", "first");
  await Deno.writeTextFile(`${path}/a.txt`, "1\n3\n");
  await git(path, "commit", "-q", "-am", "set the pool to hunter2");
}

Deno.test({
  name: "git_recent_changes shows commits with dates and what they touched",
  ignore,
  fn: async () => {
    await using folder = await temporaryFolder();
    await createRepository(`${folder.path}/app`);
    const call = await realTools({ roots: [`${folder.path}/app`] });
    const { ok, text } = await call("git_recent_changes", { count: 5 });
    assert.equal(ok, true, text);
    assert.match(text, /^git log of \., 5 at most: exit code 0 \[\d+ ms\]/);
    assert.match(
      text,
      /[0-9a-f]{7} \d{4}-\d\d-\d\dT\S+ Ada: set the pool to \[REDACTED\]\n+ a\.txt \| 2 \+-/,
    );
    assert.match(text, /Ada: first/);
    assert.doesNotMatch((await call("git_recent_changes", { count: 1 })).text, /Ada: first/);
    assert.equal((await call("git_recent_changes", { repo_path: `${folder.path}/app` })).ok, true);
  },
});

Deno.test({
  name: "git_recent_changes runs no program that a repository names",
  ignore,
  fn: async () => {
    await using folder = await temporaryFolder();
    const repository = `${folder.path}/app`;
    const owned = `${folder.path}/owned`;
    await createRepository(repository);
    await Deno.writeTextFile(`${folder.path}/evil.sh`, `#!/bin/sh\ntouch ${owned}\n`, { mode: 0o755 });
    await Deno.writeTextFile(`${repository}/.gitattributes`, "*.txt diff=evil\n");
    const evil = `${folder.path}/evil.sh`;
    for (
      const [key, value] of [
        ["core.pager", evil],
        ["core.fsmonitor", evil],
        ["diff.external", evil],
        ["diff.evil.textconv", evil],
        ["diff.evil.command", evil],
        ["log.showSignature", "true"],
        ["gpg.program", evil],
        ["core.sshCommand", evil],
        ["alias.log", `!${evil}`],
        ["core.hooksPath", folder.path],
      ] as const
    ) await git(repository, "config", key, value);
    const call = await realTools({ roots: [repository] });
    const { ok, text } = await call("git_recent_changes", {});
    assert.equal(ok, true, text);
    await assert.rejects(Deno.stat(owned), Deno.errors.NotFound);
  },
});

Deno.test({
  name: "git_recent_changes stays within the roots, also behind links and .git files",
  ignore,
  fn: async () => {
    await using folder = await temporaryFolder();
    await createRepository(`${folder.path}/outside`);
    const root = `${folder.path}/root`;
    await Deno.mkdir(`${root}/plain`, { recursive: true });
    await Deno.mkdir(`${root}/pointing`);
    await Deno.writeTextFile(`${root}/pointing/.git`, `gitdir: ${folder.path}/outside/.git\n`);
    await Deno.symlink(`${folder.path}/outside`, `${root}/link`);
    const call = await realTools({ roots: [root] });
    for (
      const repo_path of [
        "link",
        "pointing",
        "plain",
        "../outside",
        `${folder.path}/outside`,
        "--help",
        "-C/etc",
      ]
    ) {
      const { ok, text } = await call("git_recent_changes", { repo_path });
      assert.equal(ok, false, repo_path);
      assert.doesNotMatch(text, /Ada/);
    }
    // A repository around a root is not in it.
    await createRepository(folder.path);
    assert.equal((await call("git_recent_changes", { repo_path: "plain" })).ok, false);
  },
});
