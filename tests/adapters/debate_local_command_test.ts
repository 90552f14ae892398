import assert from "node:assert/strict";
import { type CallTool, realTools, temporaryFolder } from "./debate_tools_fixture.ts";

async function withProject(
  test: (call: CallTool, root: string, outside: string) => Promise<void>,
): Promise<void> {
  await using folder = await temporaryFolder();
  const root = `${folder.path}/project`;
  const outside = `${folder.path}/outside`;
  await Deno.mkdir(`${root}/logs`, { recursive: true });
  await Deno.mkdir(outside);
  await Deno.writeTextFile(`${root}/logs/app.log`, "one\ntwo hunter2\nthree\n");
  await Deno.writeTextFile(`${root}/.env`, "KEY=in-dotenv\n");
  await Deno.writeTextFile(`${outside}/passwd`, "outside-content\n");
  await Deno.symlink(`${outside}/passwd`, `${root}/leak`);
  await Deno.symlink(outside, `${root}/leaks`);
  await Deno.symlink("logs/app.log", `${root}/inner`);
  await test(await realTools({ roots: [root] }), root, outside);
}

Deno.test("run_local_command runs programs of this machine", async () => {
  await withProject(async (call, root) => {
    for (
      const [command, output] of [
        ["uname -s", /Linux/],
        ["tail -2 logs/app.log", /two \[REDACTED\]\nthree$/],
        ["cat inner", /three$/],
        [`cat ${root}/logs/app.log`, /three$/],
        ["grep -n -i TWO logs/app.log", /2:two/],
        ["find . -name '*.log' -type f", /logs\/app\.log$/],
        ["wc -l logs/app.log", /3 .*app\.log/],
        ["ls -l logs", /app\.log/],
        ["df -h /", /Filesystem/],
        ["ps aux --sort=-rss", /PID/],
        ["id -u", /\d+$/],
        ["date -u +%Y", /20\d\d$/],
      ] as const
    ) {
      const { ok, text } = await call("run_local_command", { command });
      assert.equal(ok, true, text);
      assert.match(text, output);
    }
  });
});

Deno.test("run_local_command never reads outside of the roots, nor secrets", async () => {
  await withProject(async (call, _root, outside) => {
    for (
      const command of [
        `cat ${outside}/passwd`,
        "cat ../outside/passwd",
        "cat logs/../../outside/passwd",
        "cat leak",
        "cat leaks/passwd",
        "grep -r outside leaks",
        "grep outside leak",
        "grep -rh outside .",
        "head -c 100 leak",
        "find leaks",
        "ls leaks",
        "cat .env",
        "grep KEY .env",
        "cat 'logs/app.log\0'",
      ]
    ) {
      const { text } = await call("run_local_command", { command });
      assert.doesNotMatch(text, /outside-content|passwd$|in-dotenv/, command);
    }
  });
});

/** Files that are not read by their names, and what they hold. */
const SECRET_PATHS = [
  ".env",
  ".env.local",
  ".ENV",
  "config/secrets/db.txt",
  "tls/server.key",
  "tls/server.PEM",
  "home/.ssh/config",
  "home/.aws/notes.txt",
  "home/.kube/cache/a.json",
  "id_ed25519",
  "etc/shadow",
  "infra/terraform.tfstate",
  "Credentials.json",
];

Deno.test("run_local_command searches folders without coming upon secret files", async () => {
  await withProject(async (call, root) => {
    for (const path of SECRET_PATHS) {
      await Deno.mkdir(`${root}/${path}`.replace(/\/[^/]*$/, ""), { recursive: true });
      await Deno.writeTextFile(`${root}/${path}`, `KEY is in ${path}\n`);
    }
    await Deno.writeTextFile(`${root}/logs/app.log`, "KEY is in the log\n");
    for (
      const command of [
        "grep -r KEY",
        "grep -r KEY .",
        "grep -rn KEY . logs",
        "grep --recursive KEY .",
        "grep -rh --include='*' KEY .",
        "grep -r --include=.env KEY .",
        "grep -r --include='*.key' --include='*.PEM' KEY .",
        "grep -r KEY home config etc tls infra",
        "grep -rv nothing .",
        "grep -rc KEY .",
        "grep -rL nothing .",
      ]
    ) {
      const { text } = await call("run_local_command", { command });
      for (const path of SECRET_PATHS) {
        assert.doesNotMatch(text, new RegExp(`(?:in |/|^)${path}`, "m"), command);
      }
    }
    const { text } = await call("run_local_command", { command: "grep -rh KEY ." });
    assert.match(text, /\nKEY is in the log$/);
  });
});

Deno.test("run_local_command runs nothing but its one program, whatever the words", async () => {
  await withProject(async (call, root) => {
    for (
      const command of [
        `ls; touch ${root}/owned`,
        `ls\ntouch ${root}/owned`,
        `ls && touch ${root}/owned`,
        `ls $(touch ${root}/owned)`,
        `ls \`touch ${root}/owned\``,
        `ls > ${root}/owned`,
        `find . -exec touch ${root}/owned {} +`,
        `find . -fprint ${root}/owned`,
        `touch ${root}/owned`,
        `grep -f ${root}/owned x logs/app.log`,
        `sh -c 'touch ${root}/owned'`,
      ]
    ) {
      assert.equal((await call("run_local_command", { command })).ok, false, command);
    }
    await assert.rejects(Deno.stat(`${root}/owned`), Deno.errors.NotFound);
  });
});

Deno.test("run_local_command stops at its bound in time and tells what there was", async () => {
  await withProject(async (call) => {
    const { ok, text } = await call("run_local_command", { command: "vmstat 10 10", timeout: 0.3 });
    assert.equal(ok, false);
    assert.match(text, /stopped after 0\.3 s|not installed/);
  });
});
