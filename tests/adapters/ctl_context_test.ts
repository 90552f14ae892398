import assert from "node:assert/strict";
import { createFolder, names, run, runInTerminal } from "./ctl_fixture.ts";

/** A home with two installations, `lab` and `b/lab`, and a signer's config without context in `elsewhere`. */
async function createHome() {
  const folder = await createFolder();
  const variables = { HOME: folder.path };
  const at = (workingFolder: string, ...args: string[]) =>
    runInTerminal({ workingFolder: `${folder.path}/${workingFolder}`, variables }, ...args);
  const init = async (...args: string[]) => JSON.parse((await at(".", "init", "--json", ...args)).out);
  const first = await init("--dir=lab");
  const second = await init("--dir=b/lab", "--listen-signer=127.0.0.1:9444");
  await Deno.mkdir(`${folder.path}/empty`);
  await Deno.mkdir(`${folder.path}/elsewhere`);
  await Deno.copyFile(second.signer_config, `${folder.path}/elsewhere/signer.json`);
  return {
    ...{ path: folder.path, at, first, second },
    contexts: `${folder.path}/.config/broker-ctl/contexts.json`,
    async whoami(workingFolder: string, ...args: string[]) {
      const { context, config, client_config, services } = JSON.parse(
        (await at(workingFolder, "whoami", "--json", ...args)).out,
      );
      const paths = [config, client_config].map((path = "") => path.replace(`${folder.path}/`, ""));
      return [context, ...paths, services[0].url.slice(-4)];
    },
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

Deno.test("init writes contexts, and each command finds the files of the right one", async () => {
  await using home = await createHome();
  const { at, whoami } = home;
  assert.deepEqual([home.first.context, home.second.context], ["lab", "lab-2"]);
  assert.equal((await at(".", "init", "--dir=b/lab", "--force", "--json")).exit, 0);
  await Deno.writeTextFile(`${home.path}/ssh_config`, "");
  const third = await at(".", "init", "--dir=b/c", "--import-ssh-config=ssh_config", "--json");
  assert.equal(JSON.parse(third.out).context, "c");
  const listed = JSON.parse((await at("empty", "context", "ls", "--json")).out);
  assert.deepEqual([listed.current, Object.keys(listed.contexts)], ["lab", ["lab", "lab-2", "c"]]);

  const lab = ["lab", "lab/signer.json", "lab/broker-ctl.json", "9443"];
  assert.deepEqual(await whoami("empty"), lab);
  assert.deepEqual(await whoami("empty", "--context", "lab-2"), [
    ...["lab-2", "b/lab/signer.json", "b/lab/broker-ctl.json", "9443"],
  ]);
  assert.deepEqual((await whoami("empty", "--config", "../b/lab/signer.json"))[0], "lab-2");
  // Connections of another installation must not follow a config that no context names.
  assert.deepEqual((await whoami("empty", "--config", "../elsewhere/signer.json")).slice(0, 3), [
    ...["", "elsewhere/signer.json", ""],
  ]);
  assert.deepEqual(await whoami("elsewhere"), [
    "lab",
    "elsewhere/signer.json",
    "lab/broker-ctl.json",
    "9443",
  ]);
  assert.match((await at("elsewhere", "host", "ls")).err, /^note: the config is \.\/signer\.json/);
  assert.equal((await whoami("elsewhere", "--context=lab-2"))[1], "b/lab/signer.json");
  const variables = { HOME: home.path, BROKER_CTL_CONFIG: `${home.path}/b/lab/broker-ctl.json` };
  const { out } = await runInTerminal({ workingFolder: home.path, variables }, "whoami", "--json");
  assert.equal(JSON.parse(out).client_config, variables.BROKER_CTL_CONFIG);

  assert.equal((await at("empty", "context", "use", "lab-2")).exit, 0);
  assert.equal((await whoami("empty"))[0], "lab-2");
  assert.equal((await at("empty", "context", "rm", "lab-2")).exit, 0);
  assert.equal((await whoami("empty"))[0], "");
  const added = await at("empty", "context", "use", "again", "--config", "../b/lab/signer.json");
  assert.match(added.out, /"again" is current/);
  assert.match(
    (await at("empty", "context", "show")).out,
    /^Context: +again\nConfig: +\/.*\/b\/lab\/signer\.json\n/,
  );
});

Deno.test.each<{ args: string; contexts?: string; err: RegExp }>([
  { args: "host list --context nope", err: /Cannot find context "nope"\nfix: broker-ctl context list/ },
  { args: "context use nope", err: /Cannot find context "nope"\nfix: broker-ctl context list/ },
  {
    args: "context use no/pe --config lab/signer.json",
    err: /Cannot use context "no\/pe": expected a plain name\nfix: broker-ctl context use --help/,
  },
  {
    args: "host list",
    contexts: "{",
    err: /Cannot load contexts .*\nfix: correct this file, or remove it: rm /,
  },
  {
    args: "freeze list",
    contexts: '{"current":"x","contexts":{"x":{"config":"relative"}}}',
    err: /contexts\.x\.config.*\nfix: correct this file/,
  },
  ...["host list", "freeze list"].map((args) => ({
    args,
    contexts:
      '{"current":"old","contexts":{"old":{"config":"/no/signer.json","client_config":"/no/ctl.json"}}}',
    err: /no such file\nfix: context old names this file: .*broker-ctl context remove old/,
  })),
  ...["host list --config", "freeze list --client-config"].map((args) => ({
    args: `${args} /nope`,
    contexts: '{"current":"old","contexts":{"old":{}}}',
    err: new RegExp(`"/nope": no such file\\nfix: pass ${args.split(" ")[2]}, or create a config`),
  })),
])(
  "$args with wrong contexts prints one line of error and one line of fix",
  async ({ args, contexts, err }) => {
    await using home = await createHome();
    if (contexts !== undefined) await Deno.writeTextFile(home.contexts, contexts);
    const result = await home.at(".", args);
    assert.match(result.err, err);
    assert.deepEqual([result.out, result.err.split("\n").length], ["", 3]);
    assert.equal((await home.at(".", "version")).exit, 0);
  },
);

Deno.test("init succeeds if no context can be written, and leaves existing connections in force", async () => {
  await using folder = await createFolder();
  const variables = { HOME: folder.path };
  const init = (...args: string[]) =>
    runInTerminal({ workingFolder: folder.path, variables }, "init", ...args);
  await Deno.writeTextFile(`${folder.path}/.config`, "");
  const { exit, err } = await init("--local", "--dir=a");
  assert.deepEqual([exit, err.split(":")[0]], [0, "warning"]);
  await Deno.remove(`${folder.path}/.config`);
  assert.equal((await init("--local", "--dir=b", "--context=")).exit, 0);
  const none = await runInTerminal(
    { workingFolder: folder.path, variables },
    "whoami",
    "--config=b/mcp.json",
  );
  assert.deepEqual([none.exit, none.out.split("\n").at(-2)], [0, "(a local installation: no services)"]);
  assert.equal((await run(folder.path, "init", "--local", "--dir=c")).exit, 0);
  assert.equal((await names(folder.path)).includes(".config"), false);
  await Deno.mkdir(`${folder.path}/.config/broker-ctl`, { recursive: true });
  await Deno.writeTextFile(`${folder.path}/.config/broker-ctl/config.json`, "{}");
  assert.match((await init("--dir=d")).out, /\nContext "d" added\. To use it: broker-ctl context use d\n$/);
});
