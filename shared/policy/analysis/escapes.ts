// Ways in which ordinary programs run other commands, write files or reveal secrets: facts of their manuals. Shells,
// wrappers such as `env`, interpreters and `find -exec` are not listed, because the parser rejects them.

/** One way to misuse programs. */
export interface Escape {
  /** RE2 pattern of the programs, without anchors. */
  readonly programs: string;
  /** RE2 pattern of the commands that use it. */
  readonly pattern: string;
  /** What it does, as the end of a sentence that begins with the program. */
  readonly gives: string;
}

const RUNS = "runs any command";
const STARTS = "starts programs of the requester's choice";
const WRITES = "writes any file";
const SECRETS = "reveals secrets";

/** The programs can have a path. */
const escape = (programs: string, rest: string, gives: string): Escape => {
  return { programs: `(?:/[^ ]*/)?(?:${programs})`, pattern: `^(?:/[^ ]*/)?(?:${programs})${rest}`, gives };
};
/** Words that begin with one of the options, anywhere behind one of the programs. */
const using = (programs: string, options: string, gives: string): Escape =>
  escape(programs, ` (?:.* )?(?:${options})`, gives);
/** One of the subcommands, behind options of the program. */
const calling = (programs: string, subcommands: string, gives: string): Escape =>
  escape(programs, ` (?:-[^ ]*(?: [^- ][^ ]*)? )*(?:${subcommands})(?: |$)`, gives);
/** Programs that give it with any arguments. */
const any = (programs: string, gives: string): Escape => escape(programs, "(?: |$)", gives);

/** Files with secrets that exist on most hosts. */
const SECRET_FILES =
  "(?:/etc/(?:shadow|gshadow|sudoers|ssh/ssh_host_ed25519_key|kubernetes/admin\\.conf)|/root/\\.ssh/id_ed25519|/proc/self/environ)";

/** Escapes of commands on hosts. */
export const HOST_ESCAPES: readonly Escape[] = [
  // Archives, files and text.
  using(
    "tar|bsdtar",
    "--checkpoint-action[= ]exec|--to-command|--use-compress-program|--rsh-command|--rmt-command|--info-script|--new-volume-script|-[A-Za-z]*[IF]",
    RUNS,
  ),
  using("tar|bsdtar", "-[A-Za-z]*x|x[a-z]*(?: |$)|--extract|--get(?: |$)|-C|--directory", WRITES),
  escape("tar|bsdtar", " [A-Za-z]*[IF]", RUNS),
  using("find", "-fprintf? |-fprint0 |-fls |-delete(?: |$)", "writes or deletes files"),
  using("sed", "(?:-e ?)?(?:[0-9,$]*e|s[^a-z0-9 ].*e(?: |$))", RUNS),
  using("sed", "-[nErsz]*i|--in-place|(?:-e ?)?(?:[0-9,$]*w|s[^a-z0-9 ].*w )", WRITES),
  using("sed", "-[nErsz]*f|--file", STARTS),
  using("sort", "--compress-program", RUNS),
  using("sort|shuf|iconv", "-[A-Za-z]*o|--output", WRITES),
  using("split|csplit", "--filter", RUNS),
  using("zip", "-TT|--unzip-command", RUNS),
  using("cpio", "--rsh-command|-[A-Za-z]*i|--extract", STARTS),
  any(
    "cp|mv|ln|install|tee|dd|truncate|rsync|touch|mkdir|rm|rmdir|unlink|shred|patch|unzip|7z|gunzip|ar",
    "changes files",
  ),
  using("uniq", "[^- ][^ ]* [^- ]", WRITES),
  using("xxd", "-r", WRITES),
  using(
    "cat|head|tail|less|more|grep|egrep|fgrep|zcat|zgrep|tac|nl|rev|cut|sort|uniq|od|xxd|hexdump|strings|base64|base32|diff|cmp|comm|join|paste|fold|fmt|column|file|wc|date|jq|yq|stat|sed|openssl|curl|cksum|md5sum|sha256sum|ls|tar|zip|ip|ss|dig|git|cp",
    SECRET_FILES,
    SECRETS,
  ),
  using("rsync", "-[a-zA-Z]*e|--rsh|--rsync-path", RUNS),
  // Interpreters, editors and pagers.
  any(
    "m4|dc|gnuplot|octave|R|julia|irb|pry|ipython|jshell|java|groovy|scala|erl|elixir|sbcl|ghci|ocaml|swift|vi|vim|view|rvim|nvim|vimdiff|ed|ex|red|nano|pico|emacs|joe|mcedit|mc",
    RUNS,
  ),
  any("less|more|most|pg|man|info", "runs any command from its prompt"),
  // Version control, builds and configuration.
  using(
    "git",
    "-c [^ ]*(?:pager|sshcommand|sshCommand|editor|alias|fsmonitor|external|askpass|proxy|helper|textconv|hookspath|hooksPath)[^ ]*=|--exec-path=|--config-env|--upload-pack|--receive-pack|ext::|--open-files-in-pager|-O[^ ]|--extcmd|--exec(?:=| )",
    RUNS,
  ),
  calling(
    "git",
    "bisect run|submodule foreach|filter-branch|difftool -x|config|clone|am|send-email|shell|daemon|p4|svn|push|pull|fetch|checkout|switch|restore|reset|merge|rebase|commit|stash|worktree|apply|clean|archive",
    "runs any command, or the hooks and filters of the repository",
  ),
  any(
    "make|gmake|cmake|ninja|ant|mvn|gradle|npm|npx|pnpm|yarn|bundle|rake|cargo|go|gcc|g\\+\\+|cc|rustc|pip3?|pipx|gem|composer|poetry|tox|ansible|ansible-playbook|salt|salt-call|puppet|chef-client",
    RUNS,
  ),
  // Packages.
  using("apt|apt-get|apt-cache|aptitude", "-o|--option|-c|--config-file", RUNS),
  calling(
    "apt|apt-get|aptitude|yum|dnf|zypper|apk|snap|pacman|brew|flatpak",
    "install|reinstall|localinstall|update|upgrade|dist-upgrade|full-upgrade|build-dep|remove|purge|add|del|-S|-U",
    "runs the scripts of packages",
  ),
  using(
    "dpkg|rpm",
    "-i|-U|--install|--upgrade|--eval|-E|--pipe|--define|-D|--pre-invoke|--post-invoke|--unpack|--configure|-F",
    RUNS,
  ),
  // Services, hosts and debugging.
  calling(
    "systemctl",
    "edit|link|enable|set-environment|import-environment|set-property|revert|preset|isolate|kexec|switch-root",
    "changes what systemd starts",
  ),
  calling("systemctl", "show-environment|show|cat", SECRETS),
  any(
    "systemd-cat|systemd-nspawn|machinectl|busctl|dbus-send|gdbus|logsave|capsh|run-mailcap|service|init|telinit|rc-service|initctl|crontab|at|batch|anacron|logrotate|incrontab|fcrontab|perf|bpftrace|stap|gcore|gdbserver|hyperfine|rr|criu|facter|ldd",
    STARTS,
  ),
  any(
    "insmod|modprobe|rmmod|kexec|ldconfig|update-alternatives|sysctl|mount|umount|losetup|swapon|debugfs|chmod|chown|chgrp|setfacl|setcap|chattr|usermod|useradd|groupadd|gpasswd|passwd|chpasswd|visudo|vipw",
    "changes the system, or who may do what",
  ),
  using(
    "nginx|apache2|httpd|haproxy|dnsmasq|openvpn|dhclient|sshd|rsyslogd|postgres",
    "-[cfCgp]|--config|--up|--dhcp-script|-sf",
    STARTS,
  ),
  // Network.
  using("ssh|scp|sftp|ssh-copy-id|autossh", "-[A-Za-z46]*[oFSED]|-o", RUNS),
  any(
    "ssh|scp|sftp|rsh|rlogin|telnet|ftp|lftp|tftp|mosh|autossh|socat|nc|ncat|netcat|nc\\.openbsd|nc\\.traditional|websocat|chisel|cryptcat",
    "reaches other hosts",
  ),
  using(
    "curl",
    "-[A-Za-z]*[oOTKJ]|--output|--remote-name|--upload-file|--config|--dump-header|-D|--cookie-jar|-c |--trace|--stderr|--create-dirs",
    WRITES,
  ),
  using(
    "curl",
    "file://|FILE://|--unix-socket|-[A-Za-z]*d[^ ]* ?@|--data[a-z-]* ?@|-F [^ ]*=@|--netrc",
    SECRETS,
  ),
  using("wget|wget2|aria2c", "--use-askpass|--execute|-e |--on-[a-z-]+", RUNS),
  any("wget|wget2|aria2c|axel|split|csplit", WRITES),
  using("openssl", "-engine|-provider|-out|-in|s_client|s_server|-config", STARTS),
  using("tcpdump|tshark|dumpcap", "-[A-Za-z]*[zwrF]", RUNS),
  using("nmap", "--script|-o[NXGSA]|--interactive|-iL|--datadir", RUNS),
  using(
    "ip|nft|tc|bridge|iptables|ip6tables|ebtables",
    "netns exec|vrf exec|-b|-batch|--batch|-f|--file|--modprobe|-M",
    RUNS,
  ),
  // Containers and clusters.
  calling(
    "docker|podman|nerdctl|ctr|crictl|lxc|incus|buildah",
    "run|exec|cp|build|create|compose|container|import|load|commit|plugin|service|stack|swarm|attach|checkpoint|volume|image|system|context|tasks|task|launch|shell|unshare|mount",
    RUNS,
  ),
  using(
    "systemctl|journalctl|loginctl|hostnamectl|timedatectl|docker|podman",
    "-H|--host|-M|--machine|--url|--connection|--config",
    "acts on other hosts",
  ),
  calling("docker|podman|nerdctl|crictl", "inspect|inspecti|inspectp", SECRETS),
  calling(
    "kubectl|oc|k3s|microk8s",
    "exec|run|debug|cp|apply|create|replace|patch|edit|set|attach|proxy|port-forward|expose|annotate|label|rollout|scale|delete|drain|plugin|krew|auth|certificate|kustomize|kubectl",
    "changes the cluster or runs commands in it",
  ),
  using("kubectl|oc", "(?:get|describe) (?:[^ ]*,)?secrets?(?:[ ,/.]|$)|--raw|cluster-info dump", SECRETS),
  using("kubectl|oc|helm", "--kubeconfig|-f|--filename|--token|--as|-k|--server|-s", STARTS),
  calling(
    "helm|argocd|flux|kustomize|terraform|tofu|pulumi|vagrant|packer|nomad|consul|vault|virsh|qm|pct|juju",
    "[a-z].*",
    STARTS,
  ),
  // Databases.
  any(
    "psql|mysql|mariadb|sqlite3|sqlite|mongo|mongosh|redis-cli|valkey-cli|clickhouse-client|influx|cqlsh",
    "runs any statement, and commands from its prompt",
  ),
  // Accounts.
  any(
    "pg_dump|pg_dumpall|mysqldump|mongodump|pg_basebackup|printenv|secret-tool|pass|gpg|gpg2|ssh-add|ssh-agent|ssh-keygen|keytool|certutil|kinit|aws|gcloud|az|doctl",
    SECRETS,
  ),
];

const apply = (resources: string, gives: string): Escape => {
  return { programs: "apply", pattern: `^apply (?:${resources}) `, gives };
};

/** Workloads in the form of cluster rules. */
export const CLUSTER_ESCAPES: readonly Escape[] = [
  apply(
    "pods|replicationcontrollers|(?:deployments|daemonsets|statefulsets|replicasets)\\.apps|(?:jobs|cronjobs)\\.batch",
    "starts workloads without approval: they can use all Secrets and ServiceAccounts of the namespace, and run privileged or with hostPath and hostNetwork unless the cluster forbids it",
  ),
  apply(
    "(?:cluster)?role(?:binding)?s\\.rbac\\.authorization\\.k8s\\.io|serviceaccounts|[a-z]+webhookconfigurations\\.admissionregistration\\.k8s\\.io",
    "changes who may do what in the cluster without approval",
  ),
];

/** An option without effect that the program accepts before its subcommand. */
export const NEUTRAL_OPTIONS: Readonly<Record<string, string>> = {
  systemctl: "--no-pager",
  journalctl: "--no-pager",
  git: "--no-pager",
  kubectl: "--v=0",
  docker: "--debug",
  podman: "--noout",
  "apt-get": "-q",
  apt: "-q",
  ip: "-4",
  helm: "--debug",
};

/** Narrow patterns of programs that are often allowed; `lintPolicy()` finds nothing in them. */
export const NARROWER: Readonly<Record<string, string>> = {
  tar: "^tar -tf /backup/[a-z0-9.-]+$",
  git: "^git -C /srv/app (?:status|log --oneline -[0-9]+)$",
  systemctl: "^systemctl status [a-z0-9][a-z0-9@._-]*$",
  find: "^find /var/log -name [a-z0-9*.]+$",
  sed: "^sed -n [0-9]+,[0-9]+p /var/log/[a-z0-9.]+$",
  docker: "^docker (?:ps|logs --tail [0-9]+ [a-z0-9][a-z0-9-]*)$",
  kubectl: "^kubectl get (?:pods|deployments) -n [a-z0-9][a-z0-9-]*$",
  cat: "^cat /var/log/[a-z0-9-]+\\.log$",
  curl: "^curl -fsS http://127\\.0\\.0\\.1:[0-9]+/health$",
  psql: "^app-report$",
};
