import assert from "node:assert/strict";
import { formatFlags } from "@gateway/shared/permissions";
import { bridgePermissions, readSettings } from "../../ctl/bridge/settings.ts";
import { CHANNEL, clickOn, FakeSlack, textOf } from "../adapters/fake_slack.ts";
import { poll } from "../stage/poll.ts";
import { ROOT } from "../stage/service_command.ts";
import { type ControlPlaneScene, withControlPlane } from "./control_plane_scene.ts";

const TOKENS = { SLACK_BOT_TOKEN: "xoxb-secret", SLACK_APP_TOKEN: "xapp-secret" };

/** The bridge as a separate process, with the permissions that its settings require. */
class BridgeProcess implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #collected: Promise<void>;
  log = "";

  constructor(args: readonly string[]) {
    const settings = readSettings(args, { variables: {}, workingFolder: ROOT });
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", ...formatFlags(bridgePermissions(settings)), `${ROOT}ctl/bridge/main.ts`, ...args],
      env: { ...TOKENS, NO_COLOR: "1" },
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    this.#child = child;
    this.#collected = (async () => {
      for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) this.log += text;
    })();
  }

  async stop(signal: Deno.Signal = "SIGTERM"): Promise<Deno.CommandStatus> {
    try {
      this.#child.kill(signal);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
    return await this.end();
  }

  async end(): Promise<Deno.CommandStatus> {
    const status = await this.#child.status;
    await this.#collected;
    return status;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop("SIGKILL");
  }
}

async function optionsOf(
  { stage: { init } }: ControlPlaneScene,
  slack: FakeSlack,
): Promise<readonly string[]> {
  const [, listen = ""] = /"listen": "([^"]+)"/.exec(await Deno.readTextFile(init.control_plane_config)) ??
    [];
  const map = `${init.folder}/identities.json`;
  await Deno.writeTextFile(map, '{ "U0BOB": "bob@example.com", "U0ANN": "ann@example.com" }');
  return [
    ...["--cp-url", listen, "--ca", init.mtls_ca, "--cert", init.approver.cert, "--key", init.approver.key],
    ...["--state", `${init.folder}/bridge.db`, "--identity-map", map, "--poll", "1s"],
    ...["--slack-channel", CHANNEL, "--slack-api-url", slack.apiUrl],
  ];
}

Deno.test("approval-bridge: a request approved in the chat is signed and shows the approver, although the process is killed", () =>
  withControlPlane({}, async (scene) => {
    await using slack = new FakeSlack();
    await scene.stage.startSigner();
    await scene.stage.startControlPlane();
    const options = await optionsOf(scene, slack);
    await using check = new BridgeProcess([...options, "--check"]);
    assert.equal((await check.end()).code, 0, check.log);
    assert.match(check.log, /control plane accepted the approver's certificate[^]*chat accepted the tokens/);

    const id = await scene.park({ end_user: "ann@example.com", reason: "the page is slow" });
    await using killed = new BridgeProcess(options);
    await poll(() => slack.posted.length === 1, { what: "the message" });
    await slack.connected();
    await killed.stop("SIGKILL");
    slack.cut();
    await using bridge = new BridgeProcess(options);
    await slack.connected();
    const [message] = slack.posted;
    assert.match(
      textOf(message!),
      /end user {3}ann@example\.com[^]*"hostname"[^]*reason {5}"the page is slow"/,
    );
    slack.send(clickOn(message!, "approve", "U0ANN"));
    await poll(() => slack.said.length === 1, { what: "the refusal" });
    assert.match(slack.said[0]!, /requesters cannot approve their own requests/);
    slack.send(clickOn(message!, "approve"));
    await poll(() => /^Approved[^]*by approver-local/.test(textOf(slack.posted[0]!)), {
      what: "the decision",
    });
    assert.equal((await scene.poll(id)).status, 200);
    assert.equal(slack.posted.length, 1, "nothing is posted twice");

    const log = await Deno.readTextFile(scene.stage.init.control_plane_audit_log);
    const [decision] = log.split("\n").filter((line) => line.includes('"approval-decision-allow"'));
    assert.match(decision ?? "", /"approved_by":"approver-local"/);
    assert.match(
      decision ?? "",
      /reported by the chat bridge: Slack user U0BOB, bob@example\.com in the identity map/,
    );
    assert.equal((await bridge.stop()).code, 0, bridge.log);
    assert.doesNotMatch(check.log + killed.log + bridge.log, /xoxb-secret|xapp-secret|secret-ticket/);
  }));
