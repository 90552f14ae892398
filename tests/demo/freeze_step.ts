import { HOST, post } from "../stage/stage.ts";
import type { StepResult } from "./reporter.ts";
import { brokerCtl, oneLine, type Scene } from "./scene.ts";

/** Freezes the broker's CN, tries all routes, lifts the freeze. `learned` is the command with a waiver. */
export async function showFreeze(
  { stage, agent, http, learned }: Scene & { readonly learned: string },
): Promise<StepResult> {
  const frozen = await brokerCtl(stage, "freeze", "--caller", "broker-local", "--reason", "DEMO-1");
  const controlPlane = await stage.controlPlaneClient("broker");
  const signer = await stage.signerClient("broker");
  const overMcp = await agent.execute(HOST, "uptime");
  const overHttp = await post(http, "/v1/ssh_run", { host: HOST, command: "uptime" });
  const [asked, askedDirectly] = await Promise.all(
    [controlPlane, signer].map((client) => client.request({ method: "GET", path: "/v1/hosts" })),
  );
  const unfrozen = await brokerCtl(stage, "unfreeze", "--caller", "broker-local");
  const again = await agent.execute(HOST, "uptime");
  const waivers = await brokerCtl(stage, "policy", "grants");
  return {
    ok: frozen.ok && overMcp.isError && /frozen/.test(overMcp.text) && overHttp.status >= 400 &&
      asked?.status === 403 && askedDirectly?.status === 403 && unfrozen.ok && !again.isError &&
      !waivers.text.includes(learned),
    shows: [
      frozen.text,
      `the agent over MCP:         ${oneLine(overMcp.text)}`,
      `the agent over HTTP:        ${overHttp.status} ${detailOf(overHttp.text)}`,
      `hosts from control plane:   ${asked?.status} ${detailOf(asked?.text)}`,
      `hosts from signer:          ${askedDirectly?.status} ${detailOf(askedDirectly?.text)}`,
      `${unfrozen.text}: \`uptime\` runs again; the learned waiver stays revoked`,
    ].join("\n"),
    facts: { http_status: overHttp.status },
  };
}

/** Returns the "detail" of a problem document. */
function detailOf(text = "{}"): string {
  return JSON.parse(text).detail;
}
