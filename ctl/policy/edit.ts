import { join, resolve } from "node:path";
import { readConfigText } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import type { CompiledPolicy } from "@gateway/shared/policy";
import { diffPolicies, lintPolicy } from "@gateway/shared/policy/analysis";
import { quoteText, shellQuote, visibleText } from "@gateway/shared/text";
import { type Call, type Given, oneOf } from "../kit/command.ts";
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
import { formatFinding } from "../kit/lint_warnings.ts";
import { describeChanges } from "./analyze.ts";
import { findBase, findPolicy, KINDS, mergeDocument, writeDocument } from "./document.ts";

const TAKES = {
  "<name>": "name of a host, group or command policy",
  "--kind <kind>": oneOf(KINDS, "kind of the name, if several kinds have it"),
  "--file <file>": "edited document, instead of an editor; - reads standard input",
  "--print": "print the document",
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
  broker-ctl policy edit web01
  broker-ctl policy edit web --kind group --reload
  broker-ctl policy edit web01 --print > web01.jsonc
  broker-ctl policy edit web01 --file web01.jsonc --dry-run

Opens a host's own policy, a group's policies, or a command policy in $VISUAL, $EDITOR or vi. Comments show the other
policies that apply. A text that the signer would reject, or that fails a case of policy_tests, is opened again with the
problem. Then the command shows new findings of policy lint and the changes of policy diff, and asks for confirmation. If the rules have changed since the document was opened, it is rejected.
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
  { name, kind, file: source, print = false, yes = false, dryRun = false, config: path }: Flags,
  { workingFolder, terminal, keys, variables }: Call,
  file: EditedFile<C>,
): Promise<Change> {
  const configPath = resolve(workingFolder, path ?? "signer.json");
  const text = await readConfigText(configPath, file.what);
  const config = file.parse(text, configPath);
  const policy = findPolicy(config, name, kind);
  const label = `${policy.kind} ${quoteText(name)}`;
  const opened = writeDocument(text, config, policy);
  const change = (document: string, lines: readonly string[], json: object = {}): Change => ({
    edit: (text, config) => mergeDocument(document, text, config, policy),
    describe: () => ({ json: { ...policy, ...json }, lines }),
  });
  if (print) return change(opened, opened.trimEnd().replaceAll("\t", "  ").split("\n"), { document: opened });
  const asks = !yes && !dryRun;
  if (asks && keys === undefined) {
    throw invalid("Cannot ask for confirmation without a terminal", undefined, "pass --dry-run, then --yes");
  }
  const accept = async (given: string, notes: readonly string[] = []) => {
    // Without a base, it is that of the config at the start of this command.
    const document = findBase(given) === undefined ? `${given}\n${findBase(opened)}` : given;
    const text = await readConfigText(configPath, file.what);
    const { edit } = change(document, []);
    const { before, config, edited } = await checkEdit(file, { file: configPath, text, edit });
    if (edited === text) return change(document, [`no change of ${label}`]);
    const { lines, ...review } = reviewChange(compileSigner(before), compileSigner(config));
    if (!asks || keys === undefined) return change(document, [`${label} edited`, ...lines], review);
    terminal.err([...lines, ...notes].map((line) => `${visibleText(line)}\n`).join(""));
    if (await confirm({ terminal, keys }, `Apply to ${label}?`)) {
      return change(document, [`${label} edited`], review);
    }
    throw conflict(`Cannot edit ${label}: the change was not confirmed`);
  };
  if (source === "-") return await accept(await new Response(Deno.stdin.readable).text());
  if (source !== undefined) {
    return await accept(await readOperatorText(resolve(workingFolder, source), "document"));
  }
  const again = `broker-ctl policy edit ${shellQuote(name)} --kind ${policy.kind}`;
  return await editDraft(opened, { variables, keys, accept, again });
}

/** What a change does to access, and its new risks. */
function reviewChange(before: CompiledPolicy, after: CompiledPolicy) {
  const known = new Set(lintPolicy(before).map(({ pattern, problem }) => `${pattern} ${problem}`));
  const findings = lintPolicy(after).filter(({ pattern, problem }) => !known.has(`${pattern} ${problem}`));
  const changes = diffPolicies(before, after);
  return {
    findings,
    changes,
    lines: [...findings.flatMap((each) => formatFinding(each)), ...describeChanges(changes)],
  };
}

const PROBLEM = "// error: ";

/**
 * Opens a document in the editor until it is accepted. Its file stays until the change is written.
 *
 * @param again the command for another try
 */
async function editDraft<C>(
  opened: string,
  { variables, keys, accept, again }: Pick<Environment, "variables" | "keys"> & {
    readonly accept: (document: string, notes: readonly string[]) => Promise<Change>;
    readonly again: string;
  },
): Promise<Change> {
  // The mode of the directory is 0700.
  const folder = await Deno.makeTempDir({ prefix: "broker-ctl-policy-" });
  const path = join(folder, "policy.jsonc");
  const remove = () => Deno.remove(folder, { recursive: true });
  let [shown, document] = [opened, opened];
  let problem: AppError | undefined;
  try {
    for (;;) {
      await Deno.writeTextFile(path, shown, { mode: 0o600 });
      await runEditor(path, variables);
      const text = await readOperatorText(path, "document");
      document = text.split("\n").filter((line) => !line.startsWith(PROBLEM)).join("\n");
      if (problem !== undefined && text === shown) throw problem;
      try {
        const change = await accept(document.trim() === "" ? opened : document, [`Your text: ${path}`]);
        return {
          ...change,
          describe: async (config, file) => (await remove(), change.describe(config, file)),
        };
      } catch (error) {
        // Without a terminal, the editor is a script that would make the same mistake again.
        if (!(error instanceof AppError) || error.code !== "invalid_config" || keys === undefined) {
          throw error;
        }
        problem = error;
        const lines = error.message.split("\n").map((line) => `${PROBLEM}${visibleText(line)}\n`);
        shown = lines.join("") + document;
      }
    }
  } catch (error) {
    if (document === opened) await remove();
    if (document === opened || !(error instanceof AppError)) throw error;
    const fix = error instanceof HintedError ? error.hint : `${again} --file ${shellQuote(path)}`;
    throw new HintedError(error, `${fix}; your text is in ${path}`);
  }
}
