import { createRedactor } from "./redact.ts";

const redact = createRedactor(undefined);

Deno.bench("createRedactor(), built-in rules", () => {
  createRedactor(undefined);
});

Deno.bench("redact(), a command without secrets", () => {
  redact("systemctl restart nginx && journalctl -u nginx --since today | tail -n 50");
});

Deno.bench("redact(), a command with two secrets", () => {
  redact("mysql -u app -phunter2 -e 'select 1' && curl -H 'Authorization: Bearer abc.def' https://h/x");
});

const long = "A_TOKEN=x ".repeat(6554);
Deno.bench("redact(), 64 KiB of secrets", () => {
  redact(long);
});
