/**
 * The configuration of a repository can name programs. `git log` runs without pager, external diff, text
 * conversion, signatures and fetching, so that it starts none of them.
 */
import * as z from "@zod/zod";
import {
  type Call,
  countArgument,
  defineTool,
  describeRun,
  refuse,
  timeoutArgument,
  type ToolServices,
} from "./define_tool.ts";
import type { ReadableFolders } from "./run_local_command.ts";
import type { ProgramResult, RunProgram } from "./run_program.ts";
import type { Tool } from "../engine/ports.ts";

const MAX_COUNT = 50;

const schema = z.strictObject({
  repo_path: z.string().min(1).max(4096).default(".").describe(
    "folder of the repository; by default the project",
  ),
  count: countArgument(10, MAX_COUNT, "how many of the newest commits"),
  timeout: timeoutArgument(15),
});

const ENV = {
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_TERMINAL_PROMPT: "0",
  GIT_OPTIONAL_LOCKS: "0",
  GIT_NO_LAZY_FETCH: "1",
  // There is no such transport, so nothing is fetched.
  GIT_ALLOW_PROTOCOL: "none",
};

const CONFIG = [
  "core.fsmonitor=false",
  "core.hooksPath=/dev/null",
  "log.showSignature=false",
  "core.sshCommand=false",
];

const LOG = [
  "log",
  "--no-show-signature",
  "--no-ext-diff",
  "--no-textconv",
  "--no-color",
  "--no-decorate",
  "--no-mailmap",
  "--date=iso-strict",
  "--format=%n%h %ad %an: %s",
  "--stat=120",
  "--stat-count=20",
];

export function createGitRecentChanges(
  { runProgram, folders }: { readonly runProgram: RunProgram; readonly folders: ReadableFolders },
  services: ToolServices,
): Tool {
  const git = async (args: readonly string[], cwd: string, { signal }: Call): Promise<ProgramResult> =>
    await runProgram({
      program: "git",
      args: ["--no-pager", ...CONFIG.flatMap((entry) => ["-c", entry]), ...args],
      cwd,
      env: ENV,
      signal,
    });
  return defineTool({
    name: "git_recent_changes",
    description:
      "Shows the newest commits of a git repository with date, author, subject and the files that changed.",
    schema,
    async run({ repo_path: path, count }, call) {
      const [base] = await folders.roots();
      const repository = await folders.find(path.startsWith("/") ? path : `${base ?? ""}/${path}`);
      if (repository === undefined) {
        refuse(
          `${JSON.stringify(path)} does not exist, or is not within the folders of ALLOWED_PROJECT_ROOTS`,
        );
      }
      const title = `git log of ${path}, ${count} at most`;
      // A .git file, or a repository that contains this folder, may lead elsewhere.
      const where = await git(
        ["rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir"],
        repository,
        call,
      );
      if (where.kind === "missing" || where.stopped !== undefined || where.code !== 0) {
        return describeRun(title, "git", where, call);
      }
      for (const folder of where.stdout.trim().split("\n")) {
        if (await folders.find(folder) !== undefined) continue;
        refuse(
          `The repository of ${JSON.stringify(path)} is not within the folders of ALLOWED_PROJECT_ROOTS`,
        );
      }
      return describeRun(title, "git", await git([...LOG, `--max-count=${count}`], repository, call), call);
    },
  }, services);
}
