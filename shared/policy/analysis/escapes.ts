// Ways in which ordinary programs run other commands, write files or reveal secrets: facts of their manuals. Shells,
// wrappers such as `env`, interpreters and `find -exec` are not listed, because the parser rejects them.
// tests/adapters/policy_escapes_test.ts runs the real programs. The first word of `gives` selects the proof.

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

/** Files with secrets that exist on most hosts, also as the value of an option. */
const SECRET_FILES =
  "(?:[^ ]*[=@]|-[A-Za-z]+)?(?:/etc/(?:shadow|gshadow|sudoers|ssh/ssh_host_ed25519_key|kubernetes/admin\\.conf)|/root/\\.ssh/id_ed25519|/proc/self/environ)";

const SED_SCRIPT = "(?:-[nErsuz]*e ?|--expression[= ])?";
const SED_ADDRESS = "(?:[0-9,$!~+{]|/[^/ ]*/)*";

/** Escapes of commands on hosts. */
export const HOST_ESCAPES: readonly Escape[] = [
  // Archives, files and text.
  using(
    "tar",
    "--checkpoint-action[= ]exec|--to-command|--use-compress-program|--rsh-command|--rmt-command|--info-script|--new-volume-script|-[A-Za-z]*[IF]",
    RUNS,
  ),
  using("bsdtar", "--use-compress-program", RUNS),
  using("tar|bsdtar", "-[A-Za-z]*x|x[a-z]*(?: |$)|--extract|--get(?: |$)|-C|--directory", WRITES),
  using("tar", "-[A-Za-z]*g|--listed-incremental|--index-file|--volno-file|--remove-files|--delete", WRITES),
  escape("tar", " [A-Za-z]*[IF]", RUNS),
  using("find", "-fprintf? |-fprint0 |-fls |-delete(?: |$)", "writes or deletes files"),
  using("sed", `${SED_SCRIPT}(?:${SED_ADDRESS}e|s[^a-z0-9 ].*e[gpIMm0-9]*(?: |$))`, RUNS),
  using("sed", `-[nErsuz]*i|--in-place|${SED_SCRIPT}(?:${SED_ADDRESS}[wW]|s[^a-z0-9 ].*w )`, WRITES),
  using("sed", "-[nErsuz]*f|--file", STARTS),
  using("sort", "--compress-program", RUNS),
  using("sort|shuf|iconv", "-[A-Za-z]*o|--output", WRITES),
  using("split", "--filter", RUNS),
  any("split|csplit|cpio", WRITES),
  using("zip", "-TT|--unzip-command", RUNS),
  using("cpio", "--rsh-command", RUNS),
  any(
    "zip|cp|mv|ln|install|tee|dd|truncate|rsync|touch|mkdir|rm|rmdir|unlink|shred|patch|unzip|7z|gunzip|ar",
    "changes files",
  ),
  any(
    "chmod|chown|chgrp|setfacl|setcap|chattr|usermod|useradd|groupadd|gpasswd|passwd|chpasswd|visudo|vipw",
    "changes who may do what",
  ),
  using("uniq|xxd", "[^- ][^ ]* [^- ]", WRITES),
  using("xxd", "-r", WRITES),
  using(
    "cat|head|tail|less|more|grep|egrep|fgrep|zcat|zgrep|tac|nl|rev|cut|sort|uniq|od|xxd|hexdump|strings|base64|base32|diff|cmp|comm|join|paste|fold|fmt|column|jq|yq|sed|openssl|curl|tar|bsdtar|zip|git|cp",
    SECRET_FILES,
    SECRETS,
  ),
  // Error messages quote lines of the file.
  using("wc|sort", "--files0-from", SECRETS),
  using("date|file|dig|nft", "-[A-Za-z]*f|--file", SECRETS),
  using("ip|tc|bridge", "-b|--?batch", SECRETS),
  using("ss", "-[A-Za-z]*F|--filter", SECRETS),
  using("rsync", "-[a-zA-Z]*e|--rsh|--rsync-path", RUNS),
  any(
    "m4|dc|gnuplot|octave|julia|irb|pry|ipython|jshell|java|groovy|scala|erl|elixir|sbcl|ghci|ocaml|swift",
    RUNS,
  ),
  // Editors and pagers.
  any("vi|vim|view|nvim|vimdiff|ed|ex|nano|pico|emacs|joe|mcedit|mc", RUNS),
  any("rvim|red|info", WRITES),
  any("less|more|most|pg|man", "runs any command from its prompt"),
  using("man", "-P|--pager|-H|--html", RUNS),
  // Version control and builds.
  using(
    "git",
    "-c [^ ]*(?:pager|sshcommand|sshCommand|editor|alias|fsmonitor|external|askpass|proxy|helper|textconv|hookspath|hooksPath)[^ ]*=|--exec-path=|--config-env|--upload-pack|--receive-pack|ext::|--open-files-in-pager|-O[^ ]|--extcmd|--exec(?:=| )",
    RUNS,
  ),
  calling(
    "git",
    "bisect run|submodule foreach|filter-branch|rebase -x|difftool -x|config|clone|am|send-email|shell|daemon|p4|svn",
    RUNS,
  ),
  using("git", "--output", WRITES),
  calling("git", "bundle|init|archive", WRITES),
  using("git", "--no-index|--contents|--file|interpret-trailers", SECRETS),
  calling(
    "git",
    "push|pull|fetch|checkout|switch|restore|reset|merge|rebase|commit|stash|worktree|apply|clean|archive",
    "runs the hooks and filters of the repository",
  ),
  any(
    "make|gmake|cmake|ninja|ant|mvn|gradle|npm|npx|pnpm|yarn|bundle|rake|cargo|go|gcc|g\\+\\+|cc|rustc|pip|pip3|pipx|gem|composer|poetry|tox",
    RUNS,
  ),
  // Packages.
  using("apt|apt-get|apt-cache|aptitude", "-o|--option|-c|--config-file", RUNS),
  calling(
    "apt|apt-get|aptitude|yum|dnf|zypper|apk|snap|pacman|brew|flatpak",
    "install|reinstall|localinstall|update|upgrade|dist-upgrade|full-upgrade|build-dep|remove|purge|add|del|-S|-U",
    "runs the scripts of packages",
  ),
  using("yum|dnf", "--setopt", RUNS),
  using("dpkg", "-[xXeb]|--v?extract|--control|--build|--log", WRITES),
  using(
    "dpkg|rpm",
    "-i|-U|--install|--upgrade|--eval|-E|--pipe|--define|--predefine|-D|--pre-invoke|--post-invoke|--unpack|--configure|-F",
    RUNS,
  ),
  // Services and hosts.
  calling(
    "systemctl",
    "edit|link|enable|set-environment|import-environment|set-property|revert|preset|isolate|kexec|switch-root",
    "changes what systemd starts",
  ),
  using(
    "systemctl|loginctl|hostnamectl|timedatectl|machinectl|busctl",
    "-H|--host|-M|--machine",
    "acts on other hosts",
  ),
  using("journalctl", "--cursor-file", WRITES),
  calling("systemctl", "show-environment|show|cat", SECRETS),
  any(
    "systemd-cat|systemd-nspawn|machinectl|busctl|dbus-send|modprobe|debugfs|logsave|capsh|run-mailcap|service|init|telinit|rc-service|initctl",
    STARTS,
  ),
  any("gdbus", "connects to any D-Bus service"),
  any("crontab|at|batch|anacron|logrotate|incrontab|fcrontab", "runs commands later"),
  any(
    "insmod|rmmod|kexec|ldconfig|update-alternatives|sysctl|mount|umount|losetup|swapon",
    "changes the system",
  ),
  using(
    "nginx|apache2|httpd|haproxy|dnsmasq|openvpn|dhclient|sshd|rsyslogd|postgres",
    "-[cfCgop]|--conf|--up|--plugin|--dhcp-script|-sf",
    STARTS,
  ),
  // Network.
  using("ssh|scp|sftp|ssh-copy-id|autossh", "-[A-Za-z46]*[oFSEDI]", RUNS),
  using("mosh", "--ssh|--client|--server", RUNS),
  using(
    "socat|ncat|nc\\.traditional",
    "-[A-Za-z]*[ec]|--exec|--sh-exec|--lua-exec|EXEC|SYSTEM|SHELL",
    RUNS,
  ),
  any("ftp|lftp", "runs any command from its prompt"),
  any("ssh|scp|sftp|rsh|rlogin|telnet|ftp|lftp|tftp|mosh|autossh", "reaches other hosts"),
  any(
    "socat|nc|ncat|netcat|nc\\.openbsd|nc\\.traditional|websocat|chisel|cryptcat",
    "connects programs to the network",
  ),
  using(
    "curl",
    "-[A-Za-z]*[oOKJDc]|--output|--remote-name|--config|--dump-header|--cookie-jar|--trace|--stderr|--create-dirs|--etag-save|--hsts|--alt-svc|--libcurl",
    WRITES,
  ),
  using(
    "curl",
    "file://|FILE://|--unix-socket|-[A-Za-z]*d[^ ]* ?@|--(?:data[a-z-]*|json|write-out|header|url-query)[= ][^ ]*@|-[A-Za-z]*[wH] ?@|-[A-Za-z]*T|--upload-file|-F [^ ]*=[@<]|--netrc",
    SECRETS,
  ),
  using("curl", "--engine", RUNS),
  using("wget|wget2|aria2c", "--use-askpass|--execute|-e |--on-[a-z-]+", RUNS),
  any("wget|wget2|aria2c|axel", WRITES),
  using("openssl", "-engine|-provider|-config", RUNS),
  using("openssl", "-out|-writerand|-keyout", WRITES),
  using("openssl", "-in", SECRETS),
  using("openssl", "s_client|s_server|-connect", "connects programs to the network"),
  using("tcpdump", "-[A-Za-z]*z", RUNS),
  using("tshark", "-[A-Za-z]*X", RUNS),
  using("tcpdump|tshark|dumpcap", "-[A-Za-z]*w", WRITES),
  using("tcpdump", "-[A-Za-z]*V", SECRETS),
  using("nmap", "--script|--datadir", RUNS),
  using("nmap", "-o[NXGSA]", WRITES),
  using("nmap", "-iL|--excludefile", SECRETS),
  using("ip", "netns exec|vrf exec|-b|--?batch", RUNS),
  using("iptables|ip6tables|ebtables", "--modprobe|-M", RUNS),
  // Containers and clusters.
  calling(
    "docker|podman|nerdctl|ctr|crictl|lxc|incus|buildah",
    "run|exec|cp|build|create|compose|container|import|load|commit|plugin|service|stack|swarm|attach|checkpoint|volume|image|system|context|tasks|task|launch|shell|unshare|mount",
    RUNS,
  ),
  using("docker|podman", "-H|--host|--url|--connection", "acts on other hosts"),
  using("docker", "--config", RUNS),
  using("podman", "--conmon", RUNS),
  calling("docker|podman|nerdctl", "save|export", WRITES),
  calling("docker|podman|nerdctl|crictl", "inspect|inspecti|inspectp", SECRETS),
  calling(
    "kubectl|oc|k3s|microk8s",
    "exec|run|debug|cp|apply|create|replace|patch|edit|set|attach|proxy|port-forward|expose|annotate|label|rollout|scale|delete|drain|plugin|krew|auth|certificate|kustomize|kubectl|config set(?:-[a-z]+)?",
    "changes the cluster or runs commands in it",
  ),
  using("kubectl|oc", "--profile-output|--cache-dir", WRITES),
  using("kubectl|oc", "(?:get|describe) (?:[^ ]*,)?secrets?(?:[ ,/.]|$)|--raw|cluster-info dump", SECRETS),
  using("kubectl|oc|helm", "--kubeconfig", STARTS),
  using("kubectl|oc|helm", "-f|--filename|--token|--as|-k|--server|-s", "acts on other objects or clusters"),
  calling(
    "helm|argocd|flux|kustomize|terraform|tofu|pulumi|ansible|ansible-playbook|salt|salt-call|puppet|chef-client|vagrant|packer|nomad|consul|vault|virsh|qm|pct|juju",
    "[a-z].*",
    STARTS,
  ),
  any("ansible|ansible-playbook|salt|salt-call|puppet|chef-client", RUNS),
  // Databases.
  using("psql", "-[A-Za-z]*[cfoLv]|--command|--file|--output|--log-file|--set", RUNS),
  using("mysql|mariadb", "-[A-Za-z]*e|--execute|--tee|--pager|--init-command|-[A-Za-z]*h|--host", RUNS),
  any("psql|mysql|mariadb|sqlite3|sqlite", "runs any statement, and commands from its prompt"),
  any(
    "mongo|mongosh|redis-cli|valkey-cli|clickhouse-client|influx|cqlsh",
    "connects to any database and runs any statement",
  ),
  any("pg_dump|pg_dumpall|mysqldump|mongodump|pg_basebackup", SECRETS),
  // Debugging and accounts.
  any("perf|bpftrace|stap|gdbserver|hyperfine|rr|criu|facter|ldd|ssh-agent", STARTS),
  using("ssh-keygen", "-[A-Za-z]*[Dw]", STARTS),
  calling("pass", "git", RUNS),
  any("ssh-keygen|keytool|certutil|gcore", WRITES),
  any("ssh-add|kinit", "changes who may do what"),
  any("printenv|secret-tool|pass|gpg|gpg2|gcore|aws|gcloud|az|doctl", SECRETS),
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
