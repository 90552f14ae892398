import { findKrlProblem } from "../stage/krl_host.ts";
import { logIn, LOGIN_REFUSED, steal } from "../stage/leaky_broker.ts";
import type { Stage } from "../stage/stage.ts";
import type { StepResult } from "./reporter.ts";
import { brokerCtl } from "./scene.ts";

/** An attacker with a stolen certificate can log in until the freeze. Other certificates stay valid. */
export async function showStolen(stage: Stage): Promise<StepResult> {
  const problem = findKrlProblem();
  if (problem !== "") {
    return {
      ok: true,
      shows: `skipped, because it needs the system's sshd: ${problem}`,
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
      `attacker, before the freeze:        ${before === "in" ? "logged in" : before}`,
      frozen.text,
      `attacker, after the freeze:         ${after}`,
      `other certificate, after the freeze: ${others === "in" ? "logged in" : others}`,
      "lifting the freeze does not make the certificate valid again",
    ].join("\n"),
    facts: { serial: stolen.serial.toString(), freeze_to_refusal_ms: ms },
  };
}
