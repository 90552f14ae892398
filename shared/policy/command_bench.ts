import { parseCommand } from "./shell.ts";
import { compileCommandPolicy, compilePattern, composePolicies, decideCommand } from "./command.ts";

const COMMAND = "systemctl status nginx.service --no-pager | head -n 20";
const SHAPES = [
  (n: number) => `^systemctl restart app-${n}$`,
  (n: number) => `^journalctl -u [a-z0-9.-]+ -n ${n}$`,
  (n: number) => `^(systemctl|service) (start|stop) unit${n}(\\.service)?$`,
  (n: number) => `\\brm\\s+-[rf]+\\s+/data/${n}\\b`,
];
const rules = Array.from({ length: 999 }, (_, index) => SHAPES[index % SHAPES.length]!(index));
const problems: string[] = [];
const thousand = composePolicies([
  compileCommandPolicy(
    { mode: "allowlist", allow: [...rules, "^(systemctl status|head)\\b"] },
    "p",
    problems,
  ),
]);
const hostile = compilePattern("^(([a-z])+.)+[A-Z]([a-z])+$");

Deno.bench("decideCommand(): 1,000 rules, typical command, last rule matches", () => {
  decideCommand(thousand, COMMAND);
});

Deno.bench("decideCommand(): 1,000 rules, no match", () => {
  decideCommand(thousand, "uptime -p");
});

Deno.bench("parseCommand(): typical command", () => {
  parseCommand(COMMAND);
});

for (const length of [100, 1_000, 10_000]) {
  const text = "a".repeat(length) + "!";
  Deno.bench(`Pattern.test(): hostile pattern, ${length} characters`, { group: "hostile" }, () => {
    hostile.test(text);
  });
}
