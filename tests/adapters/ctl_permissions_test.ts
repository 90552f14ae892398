import assert from "node:assert/strict";
import { join } from "node:path";
import { createFolder, run } from "./ctl_fixture.ts";
import { ROOT } from "../stage/service_command.ts";
import { isMissing } from "../stage/is_missing.ts";
import { fileURLToPath } from "node:url";
import { VERSION } from "@gateway/shared/service";

Deno.test("permissions prints the flags of a new installation on one line", async () => {
  await using folder = await createFolder();
  await run(folder.path, "init", "--dir=.");
  const signer = await run(folder.path, "permissions", "signer");
  assert.match(
    signer.out,
    /^--no-prompt --cached-only --no-code-cache --v8-flags=\S+ --allow-read=.*\/pki\/ssh_ca,.*\n$/,
  );
  assert.match(signer.out, / --allow-net=127\.0\.0\.1:9160,127\.0\.0\.1:9443 --ignore-env\n$/);
  const mcp = await run(
    folder.path,
    "permissions",
    "broker",
    "--frontend",
    "serve-mcp",
    "-config=config.json",
  );
  assert.doesNotMatch(mcp.out, /ssh_ca|8443|broker-server/);
});

Deno.test("permissions quotes only the value of a flag for the shell", async () => {
  await using folder = await createFolder();
  const odd = join(folder.path, "gate way");
  await Deno.mkdir(odd, { mode: 0o700 });
  await run(odd, "init", "--dir=.");
  const { out } = await run(odd, "permissions", "signer");
  assert.match(out, / --allow-read='\/[^']*\/gate way\/[^']*' /);
  assert.match(out, / --allow-net=127\.0\.0\.1:9160,/);
});

Deno.test("permissions rejects a config that does not load", async () => {
  await using folder = await createFolder();
  await Deno.writeTextFile(join(folder.path, "signer.json"), '{ "hots": {} }');
  const result = await run(folder.path, "permissions", "signer", "--json");
  assert.equal(result.exit, 1);
  assert.equal(JSON.parse(result.err).code, "invalid_config");
  assert.match(JSON.parse(result.err).message, /unknown key "hots"/);
});

const KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c";
const CLOSED = "127.0.0.1:1";

async function brokerCtl(cwd: string, args: readonly string[], path = Deno.env.get("PATH") ?? "") {
  const program = ["--quiet", "--no-prompt", "--cached-only", "-P=broker-ctl", `${ROOT}ctl/main.ts`];
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", ...program, ...args],
    cwd,
    stdin: "null",
    env: { NO_COLOR: "1", PATH: path, XDG_CONFIG_HOME: cwd },
  }).output();
  return { success, text: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}

Deno.test("commands that start ssh can do so with the permissions of broker-ctl", async () => {
  await using folder = await createFolder();
  const cwd = folder.path;
  await Deno.writeTextFile(`${cwd}/ssh_config`, `Host db01\n  HostName 10.0.0.9\n`);
  const host = `web01=${CLOSED},user=deploy,key=${KEY}`;
  const init = await brokerCtl(
    cwd,
    ["init", "--dir", "gw", "--host", host, "--import-ssh-config", "ssh_config"],
  );
  assert.equal(init.success, true, init.text);
  assert.match(init.text, /db01/);
  const config = ["--config", "gw/signer.json"];
  const scan = ["--name", "web02", "--addr", CLOSED, "--user", "deploy", "--groups", "local", "--scan"];
  for (
    const args of [
      ["host", "add", ...config, ...scan],
      ["host", "enrol", "web01", ...config, "--over", "ssh"],
      ["host", "unenrol", "web01", ...config, "--over", "ssh"],
      ["host", "install-shim", "web01", ...config, "--over", "ssh"],
      ["ca", "rotate", "status", ...config, "--over", "ssh"],
      ["doctor", ...config, "--live", "--over", "ssh"],
    ]
  ) {
    const { text } = await brokerCtl(cwd, args);
    // This output proves that the program ran.
    assert.match(text, /refused|no Ed25519 host key/, `${args.join(" ")}: ${text}`);
    assert.doesNotMatch(text, /Cannot start|run access/);
  }
});

Deno.test("policy edit starts an editor with its environment and a private file, and survives its Ctrl-C", async () => {
  await using folder = await createFolder();
  const cwd = folder.path;
  await run(cwd, "init", "--dir=.");
  await Deno.mkdir(`${cwd}/bin`);
  const script = [
    "kill -INT $PPID",
    `echo "$XDG_CONFIG_HOME" $(stat -c %a "$1" "$(dirname "$1")") > ${cwd}/seen; dirname "$1" >> ${cwd}/seen`,
    `sed -i 's/"allow": \\[/&"^id$", /' "$1"`,
  ];
  await Deno.writeTextFile(`${cwd}/bin/vi`, `#!/bin/sh\n${script.join("\n")}\n`, { mode: 0o755 });
  const { text } = await brokerCtl(
    cwd,
    ["policy", "edit", "--group", "_default", "--yes"],
    `${cwd}/bin:${Deno.env.get("PATH")}`,
  );
  assert.match(text, /^group "_default" edited\n/);
  assert.match(await Deno.readTextFile(`${cwd}/signer.json`), /"allow": \["\^id\$", /);
  const [seen, draft = ""] = (await Deno.readTextFile(`${cwd}/seen`)).split("\n");
  assert.equal(seen, `${cwd} 600 700`);
  await assert.rejects(Deno.stat(draft), Deno.errors.NotFound);
});

Deno.test("reload --pid-file signals only the signer of that config", async () => {
  await using folder = await createFolder();
  const cwd = folder.path;
  const script = `#!/bin/sh\ntrap 'kill $!; exit 42' HUP\nsleep 600 &\necho ready\nwait\n`;
  await Deno.writeTextFile(`${cwd}/signer`, script, { mode: 0o755 });
  const signer = new Deno.Command(`${cwd}/signer`, {
    args: ["--config", `${cwd}/signer.json`],
    stdout: "piped",
    stdin: "null",
  }).spawn();
  const output = signer.stdout.getReader();
  await output.read();
  await Deno.writeTextFile(`${cwd}/signer.pid`, `${signer.pid}\n`);
  await Deno.writeTextFile(`${cwd}/other.pid`, `${Deno.pid}\n`);
  await Deno.writeTextFile(`${cwd}/all.pid`, "-1\n");
  const reload = (file: string, config = "signer.json") =>
    brokerCtl(cwd, ["reload", "--pid-file", file, "--config", config, "--url", CLOSED]);
  assert.match((await reload("signer.pid", "else.json")).text, /no signal sent: process \d+ is not the/);
  assert.match((await reload("other.pid")).text, /no signal sent: process \d+ is not the signer of/);
  assert.match((await reload("none.pid")).text, /Cannot read pid file ".*none\.pid": no such file/);
  assert.match((await reload("all.pid")).text, /Cannot use ".*all\.pid": expected a process ID/);
  const { success, text } = await reload("signer.pid");
  assert.deepEqual([success, text], [true, `SIGHUP sent to signer (PID ${signer.pid})\n`]);
  assert.equal((await signer.status).code, 42);
  await output.cancel();
  assert.match((await reload("signer.pid")).text, /no signal sent: process \d+ does not exist/);
});

Deno.test("init --register-mcp registers the broker with claude or prints the command", async () => {
  await using folder = await createFolder();
  const cwd = folder.path;
  const path = `${cwd}/bin:${Deno.env.get("PATH")}`;
  await Deno.mkdir(`${cwd}/bin`);
  const claude = (last: string) =>
    Deno.writeTextFile(`${cwd}/bin/claude`, `#!/bin/sh\nprintf '%s\\n' "$@" > ${cwd}/words\n${last}\n`, {
      mode: 0o755,
    });
  await claude("echo it is there >&2; exit 1");
  const refused = await brokerCtl(cwd, ["init", "--dir", "first", "--register-mcp"], path);
  assert.ok(refused.success, refused.text);
  assert.match(
    refused.text,
    /claude did not register .*: it is there\nAfter fixing the problem, run:\n {3}claude mcp add gateway -- /,
  );
  await claude("exit 0");
  const taken = await brokerCtl(cwd, ["init", "--dir", "second", "--register-mcp", "--json"], path);
  const { mcp_registered, mcp_server } = JSON.parse(taken.text);
  assert.equal(mcp_registered, true);
  const words = (await Deno.readTextFile(`${cwd}/words`)).trimEnd().split("\n");
  assert.deepEqual(words, ["mcp", "add", "gateway", "--", mcp_server.command, ...mcp_server.args]);
});

const SHELLS = ["bash", "zsh", "fish"] as const;

/** A script that requests the completions of a line from a shell and prints one per line. */
const ASK: Readonly<Record<(typeof SHELLS)[number], (script: string, words: readonly string[]) => string>> = {
  bash: (script, words) =>
    `source ${script}; COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); ` +
    `COMP_CWORD=${words.length - 1}; _broker_ctl; printf '%s\\n' "\${COMPREPLY[@]}"`,
  // Outside the line editor, compadd has no effect, so this function replaces it.
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

/** The libraries that every command loads. A new one needs a reason, or `await import()` where it is used. */
const LOADED = ["commander", "ipaddr.js", "jsonc-parser", "re2js", "unbash", "zod"];

interface Module {
  readonly specifier: string;
  readonly dependencies?: readonly {
    readonly specifier: string;
    readonly isDynamic?: boolean;
    readonly code?: { readonly specifier: string };
  }[];
}

const fileOf = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));

async function runStartUp(...args: readonly string[]): Promise<string> {
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: [...args], stderr: "null" }).output();
  return new TextDecoder().decode(stdout);
}

Deno.test.each(
  "ctl/main.ts ctl/bridge/main.ts signer/main.ts control_plane/main.ts broker/main.ts".split(" "),
)(
  "%s prints its version, and with --verbose the build details",
  async (program) => {
    const print = (...args: readonly string[]) =>
      runStartUp(
        "run",
        "--quiet",
        "--no-prompt",
        "--cached-only",
        "--no-check",
        "--ignore-env",
        fileOf(program),
        ...args,
      );
    assert.equal(await print("--version"), `${VERSION}\n`);
    assert.match(await print("--version", "--verbose"), /^version .*\n {2}deno: .*\n {2}platform: /);
  },
);

Deno.test("broker-ctl loads libraries of a command only when the command runs", async () => {
  const info = await runStartUp("info", "--json", "--quiet", fileOf("ctl/main.ts"));
  const { modules } = JSON.parse(info) as { readonly modules: readonly Module[] };
  const dependencies = new Map(modules.map((each) => [each.specifier, each.dependencies ?? []]));
  const loaded = new Set<string>();
  const load = (specifier: string) => {
    if (loaded.has(specifier)) return;
    loaded.add(specifier);
    for (const { code, isDynamic } of dependencies.get(specifier) ?? []) {
      if (code !== undefined && isDynamic !== true) load(code.specifier);
    }
  };
  load(import.meta.resolve("../../ctl/main.ts"));
  const libraries = [...loaded].flatMap((each) => /^npm:\/?(@?[^@]+)@/.exec(each)?.slice(1) ?? []);
  assert.ok(loaded.size > 100, `${loaded.size} modules`);
  assert.deepEqual([...new Set(libraries)].sort(), LOADED);
});
