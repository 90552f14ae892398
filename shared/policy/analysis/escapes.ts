// Ways in which harmless programs run other commands, write files or read secrets. Facts of the programs' manuals.

/** One way to misuse a program. */
export interface Escape {
  readonly program: string;
  /** RE2 pattern of the commands that use it. */
  readonly pattern: string;
  readonly gives: string;
}

const RUNS = "runs any command";
const WRITES = "writes any file";
const READS = "reads any file";

/** An option of a program, anywhere behind its name. The program can have a path. */
const option = (program: string, options: string, gives: string): Escape => ({
  program,
  pattern: `^(?:/[^ ]*/)?${program} (?:.* )?(?:${options})`,
  gives,
});

export const ESCAPES: readonly Escape[] = [
  option(
    "tar",
    "--checkpoint-action[= ]exec|--to-command|-I |--use-compress-program|--rsh-command|-F ",
    RUNS,
  ),
  option("git", "-c [^ ]*(?:pager|sshCommand|editor|alias)[^ ]*=", RUNS),
  option("systemctl", "edit( |$)", WRITES),
  option("cp", "/etc/shadow", READS),
  {
    program: "apply",
    pattern:
      "^apply (?:pods|(?:deployments|daemonsets|statefulsets|replicasets)\\.apps|(?:jobs|cronjobs)\\.batch) ",
    gives: "starts a workload that can use all Secrets and ServiceAccounts of its namespace",
  },
];

/** An option without effect that the program accepts before its subcommand. */
export const NEUTRAL_OPTIONS: Readonly<Record<string, string>> = {
  systemctl: "--no-pager",
  git: "--no-pager",
  kubectl: "--v=0",
  docker: "--debug",
};

/** A narrower pattern for each program; `NAME` stands for what the author wants to allow. */
export const NARROWER: Readonly<Record<string, string>> = {
  tar: "^tar -tf /backup/[a-z0-9.-]+$",
  git: "^git -C /srv/[a-z0-9-]+ status$",
  systemctl: "^systemctl status [a-z0-9@._-]+$",
};
