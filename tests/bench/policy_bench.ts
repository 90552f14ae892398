import { compilePattern, compilePolicy, decideSsh, type SshIntent } from "@gateway/shared/policy";
import type { Row } from "./row.ts";
import { median } from "./statistics.ts";

const RULES = 1000;
const DECISIONS = 2000;

/** Decisions over many rules, and patterns made to be slow. */
export function benchPolicy(): readonly Row[] {
  return [benchDecision(), benchHostile()];
}

function benchDecision(): Row {
  const allow = Array.from({ length: RULES }, (_, i) => `^systemctl status unit-${i}(\\.service)?$`);
  const compiled = compilePolicy({
    hosts: {
      web01: {
        addr: "10.0.0.1:22",
        user: "deploy",
        host_key: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIoI43F0CfGV/VLbTCz6XXLKZwm/HZQSG/N0iAG0D28c",
        principal: "host:web01",
        command_policy: { mode: "allowlist", allow },
      },
    },
    callers: {},
    command_policies: {},
    group_command_policies: {},
    max_ttl_seconds: 0,
  });
  if (compiled.kind === "invalid") throw new Error(compiled.problems.join("\n"));
  const intent = (command: string): SshIntent => ({
    caller: "broker",
    endUser: "",
    endUserGroups: null,
    host: "web01",
    role: "target",
    purpose: "oneshot",
    sessionMode: "",
    command,
    ttlSeconds: 0,
    sudo: false,
    sudoUser: "",
    pty: false,
    fileTransfer: false,
    contentSha256: "",
  });
  const times = Array.from({ length: DECISIONS }, (_, i) => {
    const wanted = intent(
      `systemctl status unit-${(i * 7919) % RULES}.service | head -20`.replace(/ \|.*/, ""),
    );
    const start = performance.now();
    const decision = decideSsh(compiled.policy, wanted);
    const elapsed = performance.now() - start;
    if (decision.kind !== "allowed") throw new Error(decision.reason);
    return elapsed;
  });
  const ms = median(times);
  return {
    what: `decision, ${RULES} rules, median`,
    measured: `${ms.toFixed(3)} ms`,
    baseline: "",
    ratio: "",
    target: "under 1 ms",
    met: ms < 1,
  };
}

/** Ten times the input must not take much more than ten times as long. */
function benchHostile(): Row {
  const ratios = ["(a+)+$", "(a|a)*b", "(.*a){20}", "^(([a-z])+.)+[A-Z]([a-z])+$"].map((source) => {
    const pattern = compilePattern(source);
    const time = (length: number) => {
      const text = "a".repeat(length) + "!";
      return median(Array.from({ length: 50 }, () => {
        const start = performance.now();
        pattern.test(text);
        return performance.now() - start;
      }));
    };
    time(100);
    return time(10_000) / time(1000);
  });
  const worst = Math.max(...ratios);
  return {
    what: "hostile patterns, 10 times the text",
    measured: `${worst.toFixed(1)} times as long`,
    baseline: "",
    ratio: "",
    target: "linear (under 20)",
    met: worst < 20,
  };
}
