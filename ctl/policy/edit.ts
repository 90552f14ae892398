import { join, resolve } from "node:path";
import { readConfigText } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import { diffPolicies } from "@gateway/shared/policy/analysis";
import { quoteText, shellQuote, visibleText } from "@gateway/shared/text";
import type { Call, Given } from "../kit/command.ts";
import { confirm } from "../kit/confirm.ts";
import { readOperatorText } from "../kit/files.ts";
import { conflict, type Environment, HintedError, invalid } from "../kit/output.ts";
import { runEditor } from "../kit/programs.ts";
import {
  type Change,
  changing,
  checkEdit,
  type EditedFile,
  LOCAL_FILE,
  SIGNER_FILE,
} from "../kit/signer_change.ts";
import { compileSigner, type HostConfig, loadSignerHosts } from "../kit/signer_file.ts";
import { formatFinding, lintChange } from "../kit/lint_warnings.ts";
import { describeChanges } from "./analyze.ts";
import { findPolicy, mergeDocument, writeDocument } from "./document.ts";

const TAKES = {
  "--host <name>": "host whose own policy to edit",
  "--group <name>": "group of hosts whose policies to edit, instead of --host",
  "--yes": "apply without confirmation",
} as const;

type Flags = Given<typeof TAKES> & { readonly config?: string; readonly dryRun?: boolean };

/** `policy edit`: changes a policy in the operator's editor, and shows what that changes in access. */
export const EDIT = changing({
  name: "edit",
  summary: "Edit the policy of a host or group in an editor.",
  takes: TAKES,
  help: `
Examples:
  broker-ctl policy edit --host web01
  broker-ctl policy edit --group web --reload
  EDITOR='sed -i s/nginx/caddy/' broker-ctl policy edit --group web --dry-run

Opens the policy in $VISUAL, $EDITOR or vi. Comments show the other policies that apply. A text that the signer would
reject, or that fails a case of policy_tests, is opened again with the problem. Then the command shows new findings of
policy lint and the changes of policy diff, and asks for confirmation. If the rules have changed since the document was
opened, nothing is written.
`,
  uses: ["programs"],
  acceptsLocal: true,
  async change(given, call, isLocal) {
    if (isLocal) return await editPolicy(given, call, LOCAL_FILE);
    // Hosts in the database have no text to edit.
    await loadSignerHosts(given.config, call.workingFolder);
    return await editPolicy(given, call, SIGNER_FILE);
  },
});

async function editPolicy<C extends HostConfig>(
  { yes = false, dryRun = false, config: path, ...names }: Flags,
  { workingFolder, terminal, keys, variables }: Call,
  file: EditedFile<C>,
): Promise<Change> {
  const configPath = resolve(workingFolder, path ?? "signer.json");
  const text = await readConfigText(configPath, file.what);
  const config = file.parse(text, configPath);
  const policy = findPolicy(config, names);
  const label = `${policy.kind} ${quoteText(policy.name)}`;
  const opened = writeDocument(text, config, policy);
  const asks = !yes && !dryRun;
  if (asks && keys === undefined) {
    throw invalid("Cannot ask for confirmation without a terminal", undefined, "pass --dry-run, then --yes");
  }
  const accept = async (document: string, draft: string): Promise<Change> => {
    const edit = (text: string, config: HostConfig) =>
      mergeDocument({ document, opened }, text, config, policy);
    const change = (lines: readonly string[], json: object = {}): Change => ({
      edit,
      describe: () => ({ json: { ...policy, ...json }, lines }),
    });
    const text = await readConfigText(configPath, file.what);
    const { before, config, edited } = await checkEdit(file, { file: configPath, text, edit });
    if (edited === text) return change([`no change of ${label}`]);
    const [from, to] = [compileSigner(before), compileSigner(config)];
    const [findings, changes] = [lintChange(from, to), diffPolicies(from, to)];
    const lines = [...findings.flatMap((each) => formatFinding(each)), ...describeChanges(changes)];
    if (!asks || keys === undefined) return change([`${label} edited`, ...lines], { findings, changes });
    terminal.err([...lines, `Your text: ${draft}`].map((line) => `${visibleText(line)}\n`).join(""));
    if (await confirm({ terminal, keys }, `Apply to ${label}?`)) {
      return change([`${label} edited`], { findings, changes });
    }
    throw conflict(`Cannot edit ${label}: the change was not confirmed`);
  };
  const again = `broker-ctl policy edit --${policy.kind} ${shellQuote(policy.name)}`;
  return await editDraft(opened, { variables, keys, accept, again });
}

const PROBLEM = "// error: ";

/**
 * Opens a document in the editor until it is accepted. Its file stays until the change is written.
 *
 * @param again the command for another try
 */
async function editDraft(
  opened: string,
  { variables, keys, accept, again }: Pick<Environment, "variables" | "keys"> & {
    readonly accept: (document: string, draft: string) => Promise<Change>;
    readonly again: string;
  },
): Promise<Change> {
  // The mode of the directory is 0700.
  const folder = await Deno.makeTempDir({ prefix: "broker-ctl-policy-" });
  const path = join(folder, "policy.jsonc");
  const remove = () => Deno.remove(folder, { recursive: true });
  let document = opened;
  let problem: AppError | undefined;
  try {
    for (;;) {
      const lines = problem?.message.split("\n") ?? [];
      const shown = lines.map((line) => `${PROBLEM}${visibleText(line)}\n`).join("") + document;
      await Deno.writeTextFile(path, shown, { mode: 0o600 });
      await runEditor(path, variables);
      const text = await readOperatorText(path, "document");
      if (problem !== undefined && text === shown) throw problem;
      document = text.split("\n").filter((line) => !line.startsWith(PROBLEM)).join("\n");
      try {
        const { edit, describe } = await accept(document.trim() === "" ? opened : document, path);
        return { edit, describe: async (config, file) => (await remove(), describe(config, file)) };
      } catch (error) {
        // Without a terminal, the editor is a script that would make the same mistake again.
        const isReopened = error instanceof AppError && error.code === "invalid_config";
        if (!isReopened || keys === undefined) throw error;
        problem = error;
      }
    }
  } catch (error) {
    if (document === opened) await remove();
    if (document === opened || !(error instanceof AppError)) throw error;
    const fix = error instanceof HintedError ? error.hint : again;
    throw new HintedError(error, `${fix}; your text is in ${path}`);
  }
}
