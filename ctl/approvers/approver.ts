import * as z from "@zod/zod";
import { systemRandom } from "@gateway/shared/clock";
import { setValue } from "@gateway/shared/config";
import { ifThere } from "@gateway/shared/files";
import { parseJson } from "@gateway/shared/json";
import {
  type ApproverConfig,
  MAX_REQUIRED_APPROVALS,
  type PasskeyConfig,
  requiredApprovals,
} from "@gateway/shared/policy";
import { isSecurityKey, parseApprovalKey } from "@gateway/shared/proofs";
import { fingerprint, formatPublicKey } from "@gateway/shared/ssh";
import { quoteText } from "@gateway/shared/text";
import { resolve } from "node:path";
import type { SignerConfig } from "@gateway/signer/config";
import { command, type CommandGroup, count, named, repeat } from "../kit/command.ts";
import { splitNames, writeFields } from "../kit/entries.ts";
import { readOperatorText } from "../kit/files.ts";
import { conflict, invalid } from "../kit/output.ts";
import { addition, changing, type Collection, managing, type Removal } from "../kit/signer_change.ts";
import { loadSignerFile } from "../kit/signer_file.ts";
import { byName, EMPTY_CELL } from "../kit/table.ts";

const APPROVERS: Collection<ApproverConfig> = {
  what: "approver",
  path: ["approvals", "approvers"],
  of: ({ approvals }) => approvals?.approvers ?? {},
};

const LIST = command({
  name: "list",
  summary: "List the approvers of the signer's config.",
  help: `
Examples:
  broker-ctl approver list

REQUIRED below the table is the number of different people who must sign an approval.
`,
  async run({ config }, { workingFolder }) {
    const { approvals, hosts, kubernetes } = await loadSignerFile(config, workingFolder);
    const rows = byName(approvals?.approvers ?? {}).map(([name, approver]) => [
      name,
      describeKeys(approver).join(" ") || EMPTY_CELL,
      approver.groups?.join(",") ?? "all",
      approver.identities?.join(",") || EMPTY_CELL,
    ]);
    return {
      json: approvals ?? {},
      lines: [
        { none: "(no approvers configured)", columns: ["NAME", "KEYS", "GROUPS", "+OTHER NAMES"], rows },
        ...describeRequired(approvals, { ...hosts, ...kubernetes?.clusters }),
      ],
    };
  },
});

function describeRequired(
  approvals: SignerConfig["approvals"],
  targets: Readonly<Record<string, { readonly approvals_required?: number }>>,
): readonly string[] {
  const groups = Object.entries(approvals?.required_by_group ?? {}).map(([name, n]) => `group ${name}: ${n}`);
  const own = Object.entries(targets).flatMap(([name, { approvals_required: n = 0 }]) =>
    n > 0 ? [`${name}: ${n}`] : []
  );
  return approvals === undefined
    ? []
    : [`required: ${[`${approvals.required}`, ...groups, ...own].join(", ")}`];
}

const ADD = changing({
  name: "add",
  summary: "Add or change an approver in the signer's config.",
  takes: {
    "--name <name>": named("name of the person, as in approval.callers of the control plane"),
    "--ssh-key <key>": repeat("SSH public key, a file or one line; repeatable"),
    "--passkey <text>": repeat("passkey, a file or the text that the page /ui/passkey shows; repeatable"),
    "--group <groups>": repeat("host groups whose requests the person may approve (default: all)"),
    "--identity <names>": repeat(
      "other names of the person as end user or caller, whose requests they may not approve",
    ),
    "--force": "change an existing approver",
  },
  help: `
Examples:
  broker-ctl approver add ann --ssh-key ~/.ssh/id_ed25519.pub --identity ann@example.com --reload
  broker-ctl approver add bob --passkey bob-passkey.json --group web
  broker-ctl approver edit ann --ssh-key id_laptop.pub --ssh-key id_desktop.pub

Compare the printed fingerprint with the person, by telephone or in person: whoever owns the key can approve. A list
replaces the previous list. The signer accepts these signatures for requests that need signed approvals: broker-ctl
approver require.
`,
  async change(given, { workingFolder }) {
    const keys = given.sshKey && await Promise.all(given.sshKey.map((key) => readKey(key, workingFolder)));
    const passkeys = given.passkey &&
      await Promise.all(given.passkey.map((text) => readPasskey(text, workingFolder)));
    return addition(APPROVERS, given, {
      edit(text, there, { approvals }) {
        if (there === undefined && keys === undefined && passkeys === undefined) {
          throw invalid("A new approver needs --ssh-key or --passkey");
        }
        const id = approvals?.installation_id ?? `gateway-${systemRandom.bytes(8).toHex()}`;
        const named = setValue(text, ["approvals", "installation_id"], id);
        return writeFields(named, { path: [...APPROVERS.path, given.name], isNew: there === undefined }, {
          ssh_keys: keys,
          passkeys,
          groups: splitNames(given.group),
          identities: splitNames(given.identity),
        });
      },
      describe: (approver, { approvals }) => ({
        json: { approver, installation_id: approvals?.installation_id },
        facts: `groups=${approver.groups?.join(",") ?? "all"}`,
        lines: describeKeys(approver).map((key) => `  ${key}`),
      }),
    });
  },
});

const REMOVE: Removal = {
  argument: ["<name>", "name of the approver"],
  help: `
Examples:
  broker-ctl approver remove bob --reload

Signatures of the person are invalid as soon as the signer has loaded the change, also of approvals that are not
collected yet.
`,
};

const SIGNERS = [0, MAX_REQUIRED_APPROVALS] as const;

const REQUIRE = changing({
  name: "require",
  summary: "Set how many people must sign an approval.",
  takes: {
    "<count>": count("number of different people; 0: the control plane's word suffices", ...SIGNERS),
    "--group <group>": "only for hosts and clusters of this group",
  },
  help: `
Examples:
  broker-ctl approver require 1 --reload
  broker-ctl approver require 2 --group prod --reload

The largest number that applies to a host or cluster counts: this number, the number of each of its groups, and its own
(broker-ctl host edit NAME --approvals 2). It applies to requests that a rule of the policy sends to an approver.
`,
  change: ({ count: required, group }) => ({
    edit(text, { approvals }) {
      if (approvals === undefined) {
        const problem = "Cannot require signatures: the signer's config has no approvers";
        throw conflict(problem, undefined, "broker-ctl approver add NAME --ssh-key FILE");
      }
      const where = group === undefined ? ["required"] : ["required_by_group", group];
      return setValue(text, ["approvals", ...where], required);
    },
    describe({ approvals, hosts, kubernetes, policy_source }) {
      const targets = { ...hosts, ...kubernetes?.clusters };
      const groups = group === undefined ? [] : [group];
      const inForce = requiredApprovals(approvals, { groups });
      const what = group === undefined
        ? "every approval without a larger number"
        : `approvals of group ${quoteText(group)}`;
      const isUnknown = group !== undefined && policy_source !== "database" &&
        !Object.values(targets).some((each) => each.groups?.includes(group));
      return {
        json: { required, ...(group !== undefined && { group, in_force: inForce }) },
        lines: [
          `${what}: ${inForce} must sign`,
          ...describeRequired(approvals, targets),
          ...isUnknown ? [`warning: no host or cluster is in group ${quoteText(group)}`] : [],
        ],
      };
    },
  }),
});

/** `approver`: the people whose signatures the signer accepts. */
export const APPROVER: CommandGroup = {
  name: "approver",
  summary: "Manage the people who may sign approvals.",
  commands: [LIST, ...managing(APPROVERS, ADD, REMOVE), REQUIRE],
};

/** The option of hosts and clusters. */
export const APPROVALS_OPTION = {
  "--approvals <count>": count("people who must sign each approval", ...SIGNERS),
} as const;

/** Each key as `ssh SHA256:…` or `passkey SHA256:…`. */
function describeKeys({ ssh_keys = [], passkeys = [] }: ApproverConfig): readonly string[] {
  return [
    ...ssh_keys.map((line) => {
      const key = parseApprovalKey(line);
      return `${isSecurityKey(key) ? "security-key" : "ssh"} ${fingerprint(key.blob)}`;
    }),
    ...passkeys.map(({ public_key }) =>
      `passkey ${fingerprint(Uint8Array.fromBase64(public_key, { alphabet: "base64url" }))}`
    ),
  ];
}

async function readKey(text: string, workingFolder: string): Promise<string> {
  const line = text.includes(" ")
    ? text
    : await readOperatorText(resolve(workingFolder, text), "SSH public key");
  const { algorithm, blob } = parseApprovalKey(line);
  return formatPublicKey(algorithm, blob, line.trim().split(/[ \t]+/).slice(2).join(" "));
}

const passkeyText = z.strictObject({ id: z.string().min(1), public_key: z.string().min(1) });

async function readPasskey(text: string, workingFolder: string): Promise<PasskeyConfig> {
  const path = resolve(workingFolder, text);
  const json = text.startsWith("{") || await ifThere(Deno.stat(path)) === undefined
    ? text
    : await readOperatorText(path, "passkey");
  try {
    return passkeyText.parse(parseJson(json));
  } catch (cause) {
    const problem = `Cannot read passkey ${quoteText(text)}: not the text of the registration page`;
    throw invalid(problem, cause, "copy the text of the page /ui/passkey of the control plane");
  }
}
