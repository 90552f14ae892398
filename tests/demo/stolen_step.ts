import { findKrlProblem } from "../stage/krl_host.ts";
import { logIn, LOGIN_REFUSED, steal } from "../stage/leaky_broker.ts";
import type { Stage } from "../stage/stage.ts";
import type { StepResult } from "./reporter.ts";
import { brokerCtl } from "./scene.ts";

/** A thief logs in without the broker, until the freeze; somebody else's certificate stays good. */
export async function showStolen(stage: Stage): Promise<StepResult> {
  const problem = findKrlProblem();
  if (problem !== "") {
    return {
      ok: true,
      shows: `passed over, because it needs the system's sshd: ${problem}`,
      facts: { problem },
    };
  }
  const stolen = await steal(stage, "mallory", "control_plane");
  const other = await steal(stage, "alice", "control_plane");
  const before = await logIn(stage, stolen);
  const from = performance.now();
  const frozen = await brokerCtl(stage, "freeze", "--end-user", "mallory", "--reason", "DEMO-2", "--wait");
  const after = await logIn(stage, stolen);
  const ms = Math.round(performance.now() - from);
  const others = await logIn(stage, other);
  const unfrozen = await brokerCtl(stage, "unfreeze", "--end-user", "mallory");
  const still = await logIn(stage, stolen);
  return {
    ok: before === "in" && frozen.ok && LOGIN_REFUSED.test(after) && others === "in" && unfrozen.ok &&
      LOGIN_REFUSED.test(still),
    shows: [
      `the thief, with its own SSH client:  ${before === "in" ? "is in" : before}`,
      frozen.text,
      `the thief, once more:                ${after}`,
      `a certificate of somebody else:      ${others === "in" ? "is in" : others}`,
      "an unfreeze does not bring the certificate back",
    ].join("\n"),
    facts: { serial: stolen.serial.toString(), freeze_to_refusal_ms: ms },
  };
}
