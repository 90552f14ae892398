import assert from "node:assert/strict";
import { errorText } from "@gateway/shared/errors";
import { editConfig, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";

/** What a service says that does not start. */
async function refusal(start: () => Promise<unknown>): Promise<string> {
  return await start().then(() => assert.fail("it has started"), errorText);
}

async function setState(stage: Stage, config: string, path: string): Promise<void> {
  await editConfig(config, [{ path: ["state_db"], value: `${stage.init.folder}/${path}` }]);
}

Deno.test("no service starts on a state_db that is another's or damaged: it says path, cause and remedy", () =>
  withStage({ controlPlane: true }, async (stage) => {
    const { signer_config, control_plane_config } = stage.init;
    await setState(stage, signer_config, "one.db");
    await (await stage.startSigner()).stop();
    await setState(stage, control_plane_config, "one.db");
    const foreign = await refusal(() => stage.startControlPlane());
    assert.match(
      foreign,
      /Cannot open state_db \\?"[^"]*\/one\.db\\?": it is the state database of a signer, not of a/,
    );
    assert.match(foreign, /name a file of its own, or a new one, in state_db; this one is left as it is/);
    await Deno.truncate(`${stage.init.folder}/one.db`, 6000);
    const damaged = await refusal(() => stage.startSigner());
    assert.match(
      damaged,
      /Cannot open state_db [^]*\/one\.db[^]*malformed; stop the service, keep this file, [^]*freeze again/,
    );
    await Deno.remove(`${stage.init.folder}/one.db`);
    await stage.startSigner();
    await setState(stage, control_plane_config, "two.db");
    await stage.startControlPlane();
  }));
