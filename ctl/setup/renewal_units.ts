import { join } from "node:path";
import type { Runtime } from "./guide.ts";
import type { Layout } from "./layout.ts";
import type { PlannedEntry } from "./plan.ts";

/** A systemd service and its timer that renew what ends within 30 days; they do nothing until they are enabled. */
export function renewalUnits(layout: Layout, { deno, sources }: Runtime): readonly PlannedEntry[] {
  const program = deno === undefined
    ? ["/usr/bin/env", "broker-ctl"]
    : [deno, "run", "--quiet", "--no-prompt", "-P=broker-ctl", join(sources, "ctl/main.ts")];
  const words = [...program, "identity", "renew", "--due", "--config", layout.signerConfig];
  return [
    { path: "systemd", mode: 0o755 },
    {
      path: "systemd/gateway-renew.service",
      mode: 0o644,
      content: `# Made by broker-ctl init.
[Unit]
Description=Renew the gateway's certificates that end soon

[Service]
Type=oneshot
ExecStart=${words.map((word) => `"${escape(word)}"`).join(" ")}
`,
    },
    {
      path: "systemd/gateway-renew.timer",
      mode: 0o644,
      content:
        `# Made by broker-ctl init. As root: systemctl enable --now ${layout.folder}/systemd/gateway-renew.timer
# (and systemctl link ${layout.folder}/systemd/gateway-renew.service before)
[Unit]
Description=Renew the gateway's certificates that end soon

[Timer]
OnCalendar=daily
RandomizedDelaySec=1h
Persistent=true

[Install]
WantedBy=timers.target
`,
    },
  ];
}

/** As systemd.unit(5) has it: `%` begins a specifier, `$` a variable, and quotes hold C's escapes. */
function escape(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("%", "%%").replaceAll("$", "$$$$");
}
