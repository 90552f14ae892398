import assert from "node:assert/strict";
import { join } from "node:path";
import { isMissing } from "../stage/is_missing.ts";
import { createFolder, run } from "./ctl_fixture.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;

/** What asks a shell for the completions of a line, and prints them one a line. */
const ASK: Readonly<Record<(typeof SHELLS)[number], (script: string, words: readonly string[]) => string>> = {
  bash: (script, words) =>
    `source ${script}; COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); ` +
    `COMP_CWORD=${words.length - 1}; _broker_ctl; printf '%s\\n' "\${COMPREPLY[@]}"`,
  // Outside of the line editor compadd has nobody to tell: here it tells us.
  zsh: (script, words) =>
    `compdef() { }; _files() { print -l -- \${words[CURRENT]}*(N) }; ` +
    `compadd() { shift; print -l -- \${(M)@:#\${words[CURRENT]}*} }; source ${script}; ` +
    `words=(${words.map((word) => `'${word}'`).join(" ")}); CURRENT=${words.length}; _broker_ctl`,
  fish: (script, words) => `source ${script}; complete -C '${words.join(" ")}'`,
};

const rows = SHELLS.flatMap((shell) =>
  [
    { line: "broker-ctl host ad", expected: ["add"] },
    { line: "broker-ctl --config x host add --policy-m", expected: ["--policy-mode"] },
    { line: "broker-ctl ca-keys add --type a", expected: ["agent", "akv"] },
    { line: "broker-ctl callers rm --rel", expected: ["--reload"] },
    { line: "broker-ctl host add --config sig", expected: ["signer.json"] },
    { line: "broker-ctl rest", expected: ["restore"] },
  ].map((row) => ({ shell, ...row }))
);

const places = (shell: string) => [`/bin/${shell}`, `/usr/bin/${shell}`, `/usr/local/bin/${shell}`];
const there = SHELLS.filter((shell) => !isMissing(shell, places(shell)));

Deno.test.each(rows.filter(({ shell }) => there.includes(shell)))(
  "completion in $shell of '$line' gives $expected",
  async ({ shell, line, expected }) => {
    await using folder = await createFolder();
    const script = join(folder.path, "completion");
    await Deno.writeTextFile(script, (await run(folder.path, "completion", shell)).out);
    await Deno.writeTextFile(join(folder.path, "signer.json"), "{}");
    const options = { cwd: folder.path, env: { HOME: folder.path }, stdin: "null" } as const;
    const norc = { bash: ["--norc", "-c"], zsh: ["-f", "-c"], fish: ["--no-config", "-c"] }[shell];
    const { stdout, stderr } = await new Deno.Command(shell, {
      ...options,
      args: [...norc, ASK[shell](script, line.split(" "))],
    }).output();
    const shown = new TextDecoder().decode(stdout).split("\n").filter((word) => word !== "");
    assert.deepEqual(
      shown.map((word) => word.split("\t")[0]).sort(),
      expected,
      new TextDecoder().decode(stderr),
    );
  },
);
