/**
 * A fake chat in a separate process, on the loopback interface of the approval bridge's machine. Each input line, such
 * as `approve U0BOB`, is a click on the last message. The output is the text that the channel then shows.
 *
 * @module
 */
import process from "node:process";
import { createInterface } from "node:readline";
import { writeAllSync } from "@gateway/shared/text";
import { clickOn, FakeSlack, textOf } from "../adapters/fake_slack.ts";
import { poll } from "../stage/poll.ts";

await using slack = new FakeSlack();
const answer = (text: string) => writeAllSync(Deno.stdout, `${JSON.stringify(text)}\n`);
let seen = 0;
const shown = () => [...slack.messages.values()].map(textOf).join("\n");

answer(slack.apiUrl);
for await (const line of createInterface({ input: process.stdin })) {
  const [action = "", user = ""] = line.split(" ");
  if (action === "read") {
    await poll(() => slack.posted.length > seen, { what: "a message" });
    seen = slack.posted.length;
    await slack.connected();
  } else {
    const before = shown();
    slack.send(clickOn(slack.posted.at(-1)!, action === "deny" ? "deny" : "approve", user));
    await poll(() => shown() !== before, { what: "the result of the click" });
  }
  answer(`${textOf(slack.posted.at(-1)!)}\n${slack.said.at(-1) ?? ""}`);
}
