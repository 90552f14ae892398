import { Option } from "commander";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { once } from "../kit/arguments.ts";
import {
  formatInstanceKey,
  isInstanceName,
  loadAuditKey,
  LOG_SERVICES,
  type LogService,
} from "./instance_keys.ts";
import type { AddCommand } from "../kit/context.ts";

interface PublicKeyFlags {
  readonly service: LogService;
  readonly instance: string;
  readonly key: string;
}

const EXAMPLES = `
Examples:
  broker-ctl audit public-key --service signer --instance signer-1 --key /etc/gateway/signer_audit.seed

Run it on the machine of the instance, where its seed is, and put the line into the file for audit verify --keys. The
line is no secret; whoever can change the file decides whose records count.
`;

/** `audit public-key`: what checks the log of one instance where its seed is not at hand. */
export const addPublicKey: AddCommand = (audit, context) => {
  audit.command("public-key")
    .description("Show the public key of an instance's audit log, as audit verify --keys reads it.")
    .addOption(
      new Option("--service <service>", "what it is an instance of").choices(LOG_SERVICES)
        .makeOptionMandatory(),
    )
    .requiredOption("--instance <name>", "its name, as in instance of its config", once)
    .requiredOption("--key <file>", "the seed file that it signs with (its audit_key)", once)
    .addHelpText("after", EXAMPLES)
    .action(({ service, instance, key }: PublicKeyFlags, command) =>
      context.run(command, [], async () => {
        if (!isInstanceName(instance)) {
          throw new AppError("invalid_request", `Cannot use the instance name ${quoteText(instance)}`);
        }
        const publicKey = await loadAuditKey(key, context.workingFolder);
        if (publicKey === undefined) throw new AppError("invalid_request", "--key is needed");
        return {
          json: { service, instance, public_key: publicKey.bytes.toBase64() },
          lines: [formatInstanceKey({ service, instance, publicKey })],
        };
      })
    );
};
