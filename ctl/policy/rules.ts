import type { Command } from "commander";
import * as z from "@zod/zod";
import { quoteText } from "@gateway/shared/text";
import { once } from "../kit/arguments.ts";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import type { CommandResult } from "../kit/output.ts";
import { addRemoteOptions, askSigner, joinPath, REMOTE_HELP } from "../kit/remote.ts";

interface RuleFlags {
  readonly host: string;
  readonly allow: string;
}

/** A change to a host's allow patterns. */
interface RuleChange {
  readonly name: "add" | "remove";
  readonly method: "POST" | "DELETE";
  readonly done: string;
  readonly conflict: string;
}

const ADD: RuleChange = {
  name: "add",
  method: "POST",
  done: "added",
  conflict: "the pattern is there already, nothing changed; broker-ctl policy explain shows what holds",
};

const REMOVE: RuleChange = {
  name: "remove",
  method: "DELETE",
  done: "removed",
  conflict: "the host's own policy has no such pattern, letter by letter, nothing changed",
};

const NOTE = `
The signer rewrites its signer.json, comments and all else kept, and applies it at once; with policy_source
"database" it is a new version of the hosts, in force at all signers. Patterns are RE2 and
match anywhere in a command: anchor them with ^ and $. The first rule makes the host an allowlist; an allowlist
without rules denies everything. Only the host's own policy is changed, not those of its groups.
${REMOTE_HELP}`;

const allowEdited = z.object({ status: z.string(), host: z.string(), hosts: z.int() });

/** `policy add` and `policy remove`: one allow pattern of one host, for good. */
export const addRules: AddCommand = (policy, context) => {
  addRule(policy, context, ADD)
    .description("Allow one more pattern on a host, for good.")
    .addHelpText(
      "after",
      `\nExamples:\n  broker-ctl policy add --host web01 --allow '^systemctl status nginx$'\n${NOTE}`,
    );
  addRule(policy, context, REMOVE)
    .description("Take an allow pattern of a host away.")
    .addHelpText(
      "after",
      `\nExamples:\n  broker-ctl policy remove --host web01 --allow '^systemctl status nginx$'\n${NOTE}`,
    );
};

function addRule(policy: Command, context: CommandContext, change: RuleChange): Command {
  return addRemoteOptions(policy.command(change.name))
    .requiredOption("--host <name>", "the host", once)
    .requiredOption("--allow <pattern>", "the RE2 pattern", once)
    .action((flags: RuleFlags, command) =>
      context.run(command, ["config", "clientConfig"], () => edit(command, context, change, flags))
    );
}

async function edit(
  command: Command,
  context: CommandContext,
  { name, method, done, conflict }: RuleChange,
  { host, allow }: RuleFlags,
): Promise<CommandResult> {
  const { body, data } = await askSigner(command, context, {
    what: `policy ${name}`,
    method,
    path: joinPath("v1", "policy", "hosts", host, "allow"),
    body: { pattern: allow },
    schema: allowEdited,
    advice: {
      404: "broker-ctl host list --remote shows the hosts",
      409: conflict,
      500: "the signer kept its policy; its log says more",
    },
  });
  return { json: body, lines: [`allow ${quoteText(allow)} ${done} on ${host} (hosts: ${data.hosts})`] };
}
