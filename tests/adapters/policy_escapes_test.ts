import assert from "node:assert/strict";
import { compilePattern } from "@gateway/shared/policy";
import { HOST_ESCAPES } from "../../shared/policy/analysis/escapes.ts";
import { isMissing } from "../stage/is_missing.ts";
import { createFolder } from "../stage/folder.ts";

/** What a command that uses an escape leaves behind: the file `proof`, or the secret on standard output. */
type Effect = "proof" | "secret";

// Each command runs as an agent would run it, in a directory with the files `in`, `secret`, `run` and a repository.
Deno.test.each<[command: string, effect: Effect]>([
  ["tar -cf out.tar in --checkpoint=1 --checkpoint-action=exec=./run", "proof"],
  ["tar -cf out.tar --use-compress-program=./run in", "proof"],
  ["tar -cf out.tar -I ./run in", "proof"],
  ["tar -xf saved.tar --to-command=./run", "proof"],
  ["tar -xf saved.tar proof", "proof"],
  ["find . -name in -fprintf proof x", "proof"],
  ["sed -n 1e./run in", "proof"],
  ["sed s/.*/.\\/run/e in", "proof"],
  ["sed -n wproof in", "proof"],
  ["sed -f script in", "proof"],
  ["sort -o proof in", "proof"],
  ["sort --compress-program=./run -S 1k big", "proof"],
  ["split --filter=./run in", "proof"],
  ["cp in proof", "proof"],
  ["mv in proof", "proof"],
  ["ln in proof", "proof"],
  ["install in proof", "proof"],
  ["dd if=in of=proof", "proof"],
  ["uniq in proof", "proof"],
  ["touch proof", "proof"],
  ["git -c alias.x=!./run x", "proof"],
  ["git -c core.fsmonitor=./run status", "proof"],
  ["git -c diff.external=./run diff", "proof"],
  ["git grep -O./run word", "proof"],
  ["git clone -u ./run . copy", "proof"],
  ["git archive -o proof HEAD", "proof"],
  ["make -f makefile", "proof"],
  ["ssh -o ProxyCommand=./run nowhere", "proof"],
  ["curl -s -o proof file:///dev/null", "proof"],
  ["curl -s file://$PWD/secret", "secret"],
  ["openssl enc -base64 -in in -out proof", "proof"],
])("an escape of the table works: %s leaves the %s", async (command, effect) => {
  const [program = ""] = command.split(" ");
  if (isMissing(program, [`/usr/bin/${program}`, `/bin/${program}`])) return;
  await using folder = await createFolder();
  const write = (name: string, text: string, mode = 0o600) =>
    Deno.writeTextFile(`${folder.path}/${name}`, text, { mode });
  const run = async (words: readonly string[]) => {
    const [name = "", ...args] = words;
    const { stdout } = await new Deno.Command(name, {
      ...{ args, cwd: folder.path, stdin: "null", stderr: "null" },
      env: { HOME: folder.path, GIT_CONFIG_GLOBAL: "/dev/null" },
    }).output();
    return new TextDecoder().decode(stdout);
  };
  await write("in", "word\n");
  await write("secret", "hunter2\n");
  await write("run", "#!/bin/sh\n: >proof\n", 0o700);
  await write("script", "w proof\n");
  await write("makefile", "all:\n\t./run\n");
  await write("big", "x\n".repeat(4000));
  await write("proof", "");
  await run(["tar", "-cf", "saved.tar", "proof", "in"]);
  await Deno.remove(`${folder.path}/proof`);
  for (const line of ["init -q", "add in", "-c user.name=a -c user.email=a@b commit -qm x"]) {
    await run(["git", ...line.split(" ")]);
  }
  await write("in", "word\nmore\n");
  const asked = command.replace("$PWD", folder.path);
  assert.ok(HOST_ESCAPES.some(({ pattern }) => compilePattern(pattern).test(asked)), "the table lists it");
  const out = await run(asked.split(" "));
  const isProved = await Deno.stat(`${folder.path}/proof`).then(() => true, () => false);
  assert.ok(effect === "proof" ? isProved : out.includes("hunter2"), out);
});
