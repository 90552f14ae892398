#!/bin/sh
# Makes this host's sshd accept certificates of another CA for one account. All existing logins keep working. Requires
# root. Reads the settings with sshd -T, tests each change with sshd -t and rolls all changes back on failure.
#   --user NAME --principal NAME   account, and the principal whose certificates can log in to it
#   --ca FILE                      public keys to trust in addition, one per line
#   --drop-ca FILE                 public keys to stop trusting, one per line
#   --remove                       remove the principal, and the keys of --ca with the last principal
#   --status                       change nothing; print the trusted CA keys, the relevant sshd settings, the account's
#                                  shell, the time, whether a login is possible and whether the principal is accepted
#   --sshd-config FILE             config file of sshd (default: /etc/ssh/sshd_config)
#   --confirm SECONDS              roll all changes back unless --keep runs within this time
#   --keep | --undo                keep the changes of --confirm, or roll them back now
set -uf
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C; export PATH LC_ALL; umask 022
user=; principal=; ca=; drop=; mode=add; config=; confirm=
state=/etc/gateway; book=$state/enrolments; pending=$state/enrolment.pending; own=/etc/ssh/gateway_ca.pub
fail() { printf 'enrol: %s\n' "$1" >&2; exit "${2:-1}"; }
while [ $# -gt 0 ]; do
  case $1 in
    --remove | --status | --keep | --undo) mode=${1#--}; shift; continue ;;
    --user | --principal | --ca | --drop-ca | --sshd-config | --confirm) [ $# -ge 2 ] || fail "$1 needs a value" 2 ;;
    *) fail "unknown option $1" 2 ;;
  esac
  case $1 in
    --user) user=$2 ;; --principal) principal=$2 ;; --ca) ca=$2 ;; --drop-ca) drop=$2 ;;
    --sshd-config) config=$2 ;; --confirm) confirm=$2 ;;
  esac
  shift 2
done
[ "$(id -u)" = 0 ] || fail 'must be run as root'
sshd=$(command -v sshd) || fail 'cannot find sshd in the PATH'
main=${config:-/etc/ssh/sshd_config}

# put FILE <CONTENT: replaces the file atomically, because sshd can read it at any time. Keeps owner and mode.
put() {
  new=$(mktemp "$1.XXXXXX") && cat >"$new" && chmod 644 "$new" || fail "cannot write $1"
  if [ -e "$1" ]; then chown --reference="$1" "$new" && chmod --reference="$1" "$new" || fail "cannot write $1"; fi
  mv -f "$new" "$1" || fail "cannot write $1"
}

# Saves a file before its first change, or records that it is new.
keep() {
  name=$(printf %s "$1" | tr / %)
  if [ -e "$pending/old$name" ] || [ -e "$pending/new$name" ]; then return; fi
  if [ -e "$1" ]; then cp -p "$1" "$pending/old$name" || fail "cannot save a copy of $1"; else : >"$pending/new$name"; fi
}
undo() {
  set +f
  for kept in "$pending"/old%* "$pending"/new%*; do
    [ -e "$kept" ] || continue
    name=${kept##*/}; path=$(printf %s "${name#???}" | tr % /)
    case $name in old*) new=$(mktemp "$path.XXXXXX") && cp -p "$kept" "$new" && mv -f "$new" "$path" ;; new*) rm -f "$path" ;; esac
  done
  set -f
  [ ! -e "$pending/reload" ] || reload
  rm -rf "$pending"
}

# With systemd if it has a unit, else with SIGHUP.
reload() {
  if [ -z "$config" ] && [ -d /run/systemd/system ]; then
    for unit in ssh sshd; do
      systemctl is-active --quiet "$unit" 2>/dev/null || continue
      systemctl reload "$unit" && systemctl is-active --quiet "$unit"; return
    done
    # With socket activation, no process has the old config.
    systemctl is-active --quiet ssh.socket sshd.socket 2>/dev/null && return
  fi
  file=$("$sshd" -T -f "$main" 2>/dev/null | sed -n 's/^pidfile //p')
  pid=$(cat "$file" 2>/dev/null) || return 1
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = sshd ] && kill -HUP "$pid" || return 1
  sleep 1; kill -0 "$pid" 2>/dev/null
}

case $mode in
  keep) rm -rf "$pending"; exit ;;
  undo) [ ! -d "$pending" ] || undo; exit ;;
esac
[ -n "$user" ] && [ -n "$principal" ] || fail '--user and --principal are required' 2
getent passwd "$user" >/dev/null || fail "cannot find account $user"
show() { "$sshd" -T -f "$main" -C "user=$user,host=localhost,addr=127.0.0.1,laddr=127.0.0.1,lport=22" 2>&1; }
settings=$(show) || fail "cannot read the settings of sshd: $(printf '%s\n' "$settings" | tail -n 1)"
setting() { printf '%s\n' "$settings" | sed -n "s/^$1 //p" | head -n 1; }
trusted=$(setting trustedusercakeys); pattern=$(setting authorizedprincipalsfile)
home=$(getent passwd "$user" | cut -d : -f 6); shell=$(getent passwd "$user" | cut -d : -f 7); shell=${shell:-/bin/sh}
principals_file() {
  file=$(printf %s "$pattern" | sed "s|%%|%|g; s|%u|$user|g; s|%h|$home|g")
  case $file in /*) ;; *) file=$home/$file ;; esac
  printf %s "$file"
}
# Prints "yes", or why no key can log in to the account.
login() {
  case $shell in */nologin | */false) echo shell; return ;; esac
  [ -x "$shell" ] || { echo shell; return; }
  entry=$(awk -F : -v user="$user" '$1 == user { print $2 ":" $8 }' /etc/shadow 2>/dev/null)
  if [ "${entry#*:}" ] && [ "${entry#*:}" -lt $(($(date +%s) / 86400)) ]; then echo expired; return; fi
  # With PAM, sshd accepts keys for an account with a locked password. Without PAM, it does not.
  if [ "$(setting usepam)" != yes ]; then case $entry in !*) echo locked; return ;; esac; fi
  echo yes
}
# Prints type and base64 of each key. Like sshd, skips comments and stops at the first line that is not a key.
keys() { awk '/^[[:blank:]]*(#|\r?$)/ { next } $1 !~ /^(ssh|ecdsa|sk)-/ || $2 !~ /^AAAA/ { exit } { sub(/\r$/, ""); print $1, $2 }'; }
key() { printf '%s\n' "$1" | keys; }
has() { [ -f "$1" ] && keys <"$1" | grep -qxF -- "$(key "$2")"; }
# Prints the principal of each line: its last word, after options and before a comment.
principals() { [ ! -f "$1" ] || awk '{ sub(/#.*/, "") } NF { print $NF }' "$1"; }
admits() { principals "$1" | grep -qxF -- "$principal"; }
# Root writes to this path, so no other user may be able to replace it. Entries of a sticky directory are safe.
safe() {
  directory=$(dirname -- "$1")
  until [ -d "$directory" ]; do directory=$(dirname -- "$directory"); done
  while :; do
    [ "$(stat -c %u -- "$directory")" = 0 ] && { [ -k "$directory" ] || [ $((0$(stat -c %a -- "$directory") & 022)) -eq 0 ]; } ||
      fail "users other than root can write to $directory; add $principal to $1 manually"
    [ "$directory" = / ] && return
    directory=$(dirname -- "$directory")
  done
}

if [ "$mode" = status ]; then
  if [ "$trusted" != none ] && [ -f "$trusted" ]; then keys <"$trusted" | sed 's/^/ca: /'; fi
  printf '%s\n' "$settings" | sed -nE 's/^(forcecommand|revokedkeys|authorizedkeysfile|authorizedkeyscommand|permituserenvironment) /sshd: &/p'
  printf 'shell: %s\n' "$shell"; printf 'time: %s\n' "$(date +%s)"
  printf 'login: %s\n' "$(login)"
  if [ "$pattern" != none ] && admits "$(principals_file)"; then echo 'principal: yes'; else echo 'principal: no'; fi
  exit
fi

mkdir -p "$state" && mkdir "$pending" 2>/dev/null ||
  fail "another enrollment is in progress on this host ($pending); --undo rolls it back"
done=; trap '[ -n "$done" ] || { undo; printf "enrol: all changes were rolled back\n" >&2; }' EXIT; trap 'exit 1' HUP INT TERM
chmod 700 "$pending"
if [ -n "$confirm" ]; then
  id=$$.$(date +%s); printf %s "$id" >"$pending/id"; cp "$0" "$pending/enrol" || fail 'cannot save a copy of this program'
  # If the change locks out the operator, this process rolls it back.
  mine() { [ "$(cat "$pending/id" 2>/dev/null)" = "$id" ]; }
  (
    trap '' HUP
    while [ "$confirm" -gt 0 ] && mine; do sleep 1; confirm=$((confirm - 1)); done
    if mine; then sh "$pending/enrol" --undo ${config:+--sshd-config "$config"}; fi
  ) >/dev/null 2>&1 </dev/null &
fi

# write_config NAME top|end LINES: writes a drop-in if sshd includes drop-ins, else the main file. Tests the result first.
dropins=$(sed -n 's/^[[:blank:]]*[Ii]nclude[[:blank:]]*\(.*\/\)\*\.conf[[:blank:]]*$/\1/p' "$main" | head -n 1)
write_config() {
  case $2 in
    top) printf '%s\nInclude %s\n' "$3" "$main" ;;
    end) printf 'Include %s\n%s\n' "$main" "$3" ;;
  esac >"$pending/trial"
  "$sshd" -t -f "$pending/trial" 2>"$pending/why" || fail "sshd rejects the new settings: $(tail -n 1 "$pending/why")"
  if [ -n "$dropins" ] && [ -d "$dropins" ]; then
    keep "$dropins$1.conf"; printf '%s\n' "$3" | put "$dropins$1.conf" || exit 1
  else
    keep "$main"
    # A global setting must precede any Match block, and a Match block of ours must not precede global settings.
    case $2 in
      top) { printf '%s\n' "$3"; cat "$main"; } | put "$main" || exit 1 ;;
      end) { awk 1 "$main"; printf '%s\n' "$3"; } | put "$main" || exit 1 ;;
    esac
  fi
  "$sshd" -t -f "$main" 2>"$pending/why" || fail "sshd rejects the new settings: $(tail -n 1 "$pending/why")"
  : >"$pending/reload"
}

add_lines() {
  while IFS= read -r line; do
    case $line in \#*) continue ;; esac
    [ -n "$(key "$line")" ] || continue
    has "$2" "$line" && continue
    keep "$2"; { [ ! -f "$2" ] || awk 1 "$2"; printf '%s\n' "$line"; } | put "$2" || exit 1
  done <"$1"
}
drop_lines() {
  while IFS= read -r line; do
    [ -n "$(key "$line")" ] && grep -qF -- "$(key "$line" | cut -d ' ' -f 2)" "$2" || continue
    keep "$2"; awk -v key="$(key "$line")" '{ line = $0; sub(/\r$/, "") } $1 " " $2 != key { print line }' "$2" | put "$2" || exit 1
  done <"$1"
}

if [ "$mode" = add ]; then
  [ -f "$ca" ] || fail '--ca is required' 2
  [ "$(setting pubkeyauthentication)" = yes ] || fail 'sshd does not accept public keys; set PubkeyAuthentication yes'
  case $(login) in
    shell) fail "cannot log in as $user: its login shell is $shell; fix: usermod -s /bin/sh $user" ;;
    expired) fail "cannot log in as $user: the account has expired; fix: usermod -e '' $user" ;;
    # Replaces the lock with a hash that no password matches.
    locked) fail "cannot log in as $user: its password is locked, and sshd has UsePAM no; fix: usermod -p '*' $user" ;;
  esac
  former=$trusted
  if [ "$trusted" = none ]; then
    # Keys from an earlier enrollment must not become trusted again.
    trusted=$own; keep "$trusted"; rm -f "$trusted"; add_lines "$ca" "$trusted"
    write_config gateway top "TrustedUserCAKeys $trusted"
  else
    case $trusted in /*) ;; *) fail "TrustedUserCAKeys is not an absolute path: $trusted" ;; esac
    add_lines "$ca" "$trusted"
  fi
  if [ "$pattern" = none ]; then
    pattern=/etc/ssh/auth_principals/%u; file=$(principals_file)
    mkdir -p /etc/ssh/auth_principals; keep "$file"
    # Without such a file, sshd accepts the account's name as principal. Certificates of an already trusted CA need it.
    {
      if [ "$former" != none ]; then echo "$user"; fi
      [ ! -f "$book" ] || awk -v user="$user" '$1 == user { print $2 }' "$book"
      echo "$principal"
    } | awk '!seen[$0]++' | put "$file" || exit 1
    write_config "gateway-$user" end "Match User $user
AuthorizedPrincipalsFile $pattern"
  else
    file=$(principals_file)
    if ! admits "$file"; then
      safe "$file"; mkdir -p "$(dirname "$file")"; keep "$file"
      { [ ! -f "$file" ] || awk 1 "$file"; printf '%s\n' "$principal"; } | put "$file" || exit 1
    fi
  fi
  if ! grep -qxF -- "$user $principal" "$book" 2>/dev/null; then
    keep "$book"; { [ ! -f "$book" ] || cat "$book"; printf '%s %s\n' "$user" "$principal"; } | put "$book" || exit 1
  fi
  [ -z "$drop" ] || drop_lines "$drop" "$trusted"
else
  if [ "$pattern" != none ]; then
    file=$(principals_file)
    if admits "$file"; then
      safe "$file"; keep "$file"
      principal=$principal awk '{ line = $0; sub(/#.*/, "") } !NF || $NF != ENVIRON["principal"] { print line }' "$file" | put "$file" || exit 1
    fi
  fi
  if grep -qxF -- "$user $principal" "$book" 2>/dev/null; then keep "$book"; grep -vxF -- "$user $principal" "$book" | put "$book" || exit 1; fi
  if [ -n "$ca" ] && [ ! -s "$book" ] && [ "$trusted" != none ] && [ -f "$trusted" ]; then drop_lines "$ca" "$trusted"; fi
fi

# Checks the result in sshd's own settings.
settings=$(show) || fail 'cannot read the settings of sshd after the change'
if [ "$mode" = add ]; then
  [ "$(setting trustedusercakeys)" = "$trusted" ] || fail "sshd still uses $(setting trustedusercakeys), not $trusted: an earlier line of its configuration sets it"
  pattern=$(setting authorizedprincipalsfile)
  admits "$(principals_file)" || fail "sshd reads principals from $(principals_file): an earlier line of its configuration sets it"
  while IFS= read -r line; do
    [ -z "$(key "$line")" ] || has "$trusted" "$line" || { [ -n "$drop" ] && has "$drop" "$line"; } || fail "sshd cannot find the CA in $trusted: an earlier line is not a key"
  done <"$ca"
  [ "$(setting forcecommand)" = none ] || printf 'enrol: ForceCommand of sshd for %s overrides the command of certificates\n' "$user" >&2
fi
if [ "$mode" = remove ] && [ "$pattern" != none ] && admits "$(principals_file)"; then fail "$(principals_file) still contains $principal"; fi
if [ -e "$pending/reload" ]; then
  reload || fail "cannot reload sshd: no systemd unit ssh or sshd is active, and ${file:-its PidFile} does not name a running sshd
fix: set PidFile in $main, restart sshd, and enroll again"
fi
done=1; [ -n "$confirm" ] || rm -rf "$pending"
[ "$mode" = add ] && echo "$user accepts $principal ($trusted, $(principals_file))" || echo "$user no longer accepts $principal"
