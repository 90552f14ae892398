import { addGrant, compileGrant, type LiveGrants, NO_GRANTS, removeGrants, waiverScope } from "./grants.ts";
import { SAMPLE_NOW, sampleGrant, sampleGrants } from "../testing/sample_grant.ts";
import { compileSample, sampleConfig, sampleIntent } from "../testing/sample_policy.ts";
import { decideSsh } from "./ssh.ts";

const RESTART = "systemctl restart app-7";
const policy = compileSample(sampleConfig({
  command_policy: {
    mode: "allowlist",
    allow: ["^uptime$", "^systemctl (status|restart) "],
    require_approval: ["^systemctl restart"],
  },
}));
const numbers = Array.from({ length: 1_000 }, (_, n) => n);
const none: LiveGrants = { grants: NO_GRANTS, now: SAMPLE_NOW };
const spread = sampleGrants(...numbers.map((n) => ({ host: `web${n % 100}`, allow: [`^app-${n} status$`] })));
const onOneHost = sampleGrants(
  ...numbers.map((n) => ({ caller: `broker-${n % 50}`, allow: [`^app-${n} status$`] })),
);
const waivers = sampleGrants(
  ...numbers.map((n) => waiverScope(sampleIntent({ command: `systemctl restart app-${999 - n}` }))),
);

const CASES = {
  "allowed by the host's own rules": sampleIntent(),
  "denied by them": sampleIntent({ command: "who" }),
  "needing approval": sampleIntent({ command: RESTART }),
};

for (const [name, intent] of Object.entries(CASES)) {
  Deno.bench(`decideSsh(), ${name}: no grants`, { group: name, baseline: true }, () => {
    decideSsh(policy, intent, none);
  });
  Deno.bench(`decideSsh(), ${name}: 1,000 grants on 100 hosts`, { group: name }, () => {
    decideSsh(policy, intent, spread);
  });
  Deno.bench(`decideSsh(), ${name}: 1,000 grants for 50 callers on the host`, { group: name }, () => {
    decideSsh(policy, intent, onOneHost);
  });
  Deno.bench(`decideSsh(), ${name}: 1,000 waivers on the host`, { group: name }, () => {
    decideSsh(policy, intent, waivers);
  });
}

const compiled = compileGrant(sampleGrant({ id: "new" }));
if (compiled.kind === "invalid") throw new Error(compiled.problem);
const { grant } = compiled;

Deno.bench("addGrant() and removeGrants() beside 1,000 on the host", () => {
  removeGrants(addGrant(onOneHost.grants, grant), new Set(["new"]));
});
