#!/bin/sh
# Has this host's sshd accept certificates of a further CA for one account, and takes nothing from what it accepts now.
# Run it as root. It looks with sshd -T, checks each change with sshd -t before it counts, and undoes all of it on failure.
#   --user NAME --principal NAME   whose certificates may log in to the account
#   --ca FILE                      lines of public keys to be trusted beside those that are
#   --drop-ca FILE                 lines of public keys to be trusted no more
#   --remove                       take the principal back, and --ca when no other principal is left
#   --status                       change nothing; print the CA lines that are trusted, what sshd is set to, the account's
#                                  shell, the time, and whether sshd lets anybody in and trusts the principal
#   --sshd-config FILE             what sshd is started with, if not its own
#   --confirm SECONDS              undo everything unless --keep is run within that time
#   --keep | --undo                end such a wait
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
sshd=$(command -v sshd) || fail 'there is no sshd in the PATH'
main=${config:-/etc/ssh/sshd_config}

# Whole or not at all: sshd may read it at any moment. put FILE <content, with the mode that it had
put() {
  new=$(mktemp "$1.XXXXXX") && cat >"$new" && chmod 644 "$new" || fail "cannot write $1"
  if [ -e "$1" ]; then chown --reference="$1" "$new" && chmod --reference="$1" "$new" || fail "cannot write $1"; fi
  mv -f "$new" "$1" || fail "cannot write $1"
}

# What is to be put back: each file is kept before its first change, or noted as new.
keep() {
  name=$(printf %s "$1" | tr / %)
  if [ -e "$pending/old$name" ] || [ -e "$pending/new$name" ]; then return; fi
  if [ -e "$1" ]; then cp -p "$1" "$pending/old$name" || fail "cannot keep $1"; else : >"$pending/new$name"; fi
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

# By its unit where systemd has one, else by the signal that sshd_config(5) names.
reload() {
  if [ -z "$config" ] && [ -d /run/systemd/system ]; then
    for unit in ssh sshd; do
      systemctl is-active --quiet "$unit" 2>/dev/null || continue
      systemctl reload "$unit" && systemctl is-active --quiet "$unit"; return
    done
    # Started for each connection: there is nothing that holds an old config.
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
[ -n "$user" ] && [ -n "$principal" ] || fail '--user and --principal are needed' 2
getent passwd "$user" >/dev/null || fail "there is no account $user"
tell() { "$sshd" -T -f "$main" -C "user=$user,host=localhost,addr=127.0.0.1,laddr=127.0.0.1,lport=22" 2>&1; }
said=$(tell) || fail "sshd does not tell its configuration: $(printf '%s\n' "$said" | tail -n 1)"
setting() { printf '%s\n' "$said" | sed -n "s/^$1 //p" | head -n 1; }
trusted=$(setting trustedusercakeys); pattern=$(setting authorizedprincipalsfile)
home=$(getent passwd "$user" | cut -d : -f 6); shell=$(getent passwd "$user" | cut -d : -f 7); shell=${shell:-/bin/sh}
principals_file() {
  file=$(printf %s "$pattern" | sed "s|%%|%|g; s|%u|$user|g; s|%h|$home|g")
  case $file in /*) ;; *) file=$home/$file ;; esac
  printf %s "$file"
}
# Why nobody gets into the account, whatever the key is; "yes" otherwise.
login() {
  case $shell in */nologin | */false) echo shell; return ;; esac
  [ -x "$shell" ] || { echo shell; return; }
  entry=$(awk -F : -v user="$user" '$1 == user { print $2 ":" $8 }' /etc/shadow 2>/dev/null)
  if [ "${entry#*:}" ] && [ "${entry#*:}" -lt $(($(date +%s) / 86400)) ]; then echo expired; return; fi
  # PAM lets a key into an account whose password is locked; sshd without it does not.
  if [ "$(setting usepam)" != yes ]; then case $entry in !*) echo locked; return ;; esac; fi
  echo yes
}
# Keys by type and base64, as sshd reads a file: comments do not count, and nothing behind a line that is no key.
keys() { awk '/^[[:blank:]]*(#|\r?$)/ { next } $1 !~ /^(ssh|ecdsa|sk)-/ || $2 !~ /^AAAA/ { exit } { sub(/\r$/, ""); print $1, $2 }'; }
key() { printf '%s\n' "$1" | keys; }
has() { [ -f "$1" ] && keys <"$1" | grep -qxF -- "$(key "$2")"; }
# Whom a line of principals lets in: its last word, behind options and before a comment.
principals() { [ ! -f "$1" ] || awk '{ sub(/#.*/, "") } NF { print $NF }' "$1"; }
admits() { principals "$1" | grep -qxF -- "$principal"; }
# Root writes there: nobody else may put something else in the way. A sticky folder keeps its entries.
safe() {
  folder=$(dirname -- "$1")
  until [ -d "$folder" ]; do folder=$(dirname -- "$folder"); done
  while :; do
    [ "$(stat -c %u -- "$folder")" = 0 ] && { [ -k "$folder" ] || [ $((0$(stat -c %a -- "$folder") & 022)) -eq 0 ]; } ||
      fail "others than root may write to $folder: add $principal to $1 by hand"
    [ "$folder" = / ] && return
    folder=$(dirname -- "$folder")
  done
}

if [ "$mode" = status ]; then
  if [ "$trusted" != none ] && [ -f "$trusted" ]; then keys <"$trusted" | sed 's/^/ca: /'; fi
  printf '%s\n' "$said" | sed -nE 's/^(forcecommand|revokedkeys|authorizedkeysfile|authorizedkeyscommand|permituserenvironment) /sshd: &/p'
  printf 'shell: %s\n' "$shell"; printf 'time: %s\n' "$(date +%s)"
  printf 'login: %s\n' "$(login)"
  if [ "$pattern" != none ] && admits "$(principals_file)"; then echo 'principal: yes'; else echo 'principal: no'; fi
  exit
fi

mkdir -p "$state" && mkdir "$pending" 2>/dev/null ||
  fail "another enrolment is under way on this host ($pending; --undo takes back what it did)"
done=; trap '[ -n "$done" ] || { undo; printf "enrol: everything was taken back\n" >&2; }' EXIT; trap 'exit 1' HUP INT TERM
chmod 700 "$pending"
if [ -n "$confirm" ]; then
  id=$$.$(date +%s); printf %s "$id" >"$pending/id"; cp "$0" "$pending/enrol" || fail 'cannot keep this program'
  # Whoever is cut off by the change can't undo it: this does.
  mine() { [ "$(cat "$pending/id" 2>/dev/null)" = "$id" ]; }
  (
    trap '' HUP
    while [ "$confirm" -gt 0 ] && mine; do sleep 1; confirm=$((confirm - 1)); done
    if mine; then sh "$pending/enrol" --undo ${config:+--sshd-config "$config"}; fi
  ) >/dev/null 2>&1 </dev/null &
fi

# add_config WHERE LINES: to the drop-ins where sshd reads those, else to the main file; checked before it counts.
dropins=$(sed -n 's/^[[:blank:]]*[Ii]nclude[[:blank:]]*\(.*\/\)\*\.conf[[:blank:]]*$/\1/p' "$main" | head -n 1)
write_config() {
  case $2 in
    top) printf '%s\nInclude %s\n' "$3" "$main" ;;
    end) printf 'Include %s\n%s\n' "$main" "$3" ;;
  esac >"$pending/trial"
  "$sshd" -t -f "$pending/trial" 2>"$pending/why" || fail "sshd would not take it: $(tail -n 1 "$pending/why")"
  if [ -n "$dropins" ] && [ -d "$dropins" ]; then
    keep "$dropins$1.conf"; printf '%s\n' "$3" | put "$dropins$1.conf" || exit 1
  else
    keep "$main"
    # A file that ends in a Match would take a line at its end into it; one that begins with one ends never.
    case $2 in
      top) { printf '%s\n' "$3"; cat "$main"; } | put "$main" || exit 1 ;;
      end) { awk 1 "$main"; printf '%s\n' "$3"; } | put "$main" || exit 1 ;;
    esac
  fi
  "$sshd" -t -f "$main" 2>"$pending/why" || fail "sshd does not take it: $(tail -n 1 "$pending/why")"
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
  [ -f "$ca" ] || fail '--ca is needed: the lines of the CA' 2
  [ "$(setting pubkeyauthentication)" = yes ] || fail 'sshd takes no public keys: PubkeyAuthentication yes'
  case $(login) in
    shell) fail "nobody gets in as $user: its login shell is $shell; mend it by: usermod -s /bin/sh $user" ;;
    expired) fail "nobody gets in as $user: it expired; mend it by: usermod -e '' $user" ;;
    # A password that nobody can have, in place of a locked one.
    locked) fail "nobody gets in as $user: it is locked, and sshd has UsePAM no; mend it by: usermod -p '*' $user" ;;
  esac
  former=$trusted
  if [ "$trusted" = none ]; then
    # What an earlier life of this host left there is nobody's wish now.
    trusted=$own; keep "$trusted"; rm -f "$trusted"; add_lines "$ca" "$trusted"
    write_config gateway top "TrustedUserCAKeys $trusted"
  else
    case $trusted in /*) ;; *) fail "TrustedUserCAKeys names $trusted, which is no absolute path" ;; esac
    add_lines "$ca" "$trusted"
  fi
  if [ "$pattern" = none ]; then
    pattern=/etc/ssh/auth_principals/%u; file=$(principals_file)
    mkdir -p /etc/ssh/auth_principals; keep "$file"
    # Without a file, a certificate of a CA that is trusted already has to name the account: it goes on so.
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

# What was meant, as sshd tells it now.
said=$(tell) || fail 'sshd does not tell its configuration any more'
if [ "$mode" = add ]; then
  [ "$(setting trustedusercakeys)" = "$trusted" ] || fail "sshd trusts $(setting trustedusercakeys), not $trusted: another line of its configuration comes first"
  pattern=$(setting authorizedprincipalsfile)
  admits "$(principals_file)" || fail "sshd looks for principals in $(principals_file): another line of its configuration comes first"
  while IFS= read -r line; do
    [ -z "$(key "$line")" ] || has "$trusted" "$line" || { [ -n "$drop" ] && has "$drop" "$line"; } || fail "sshd would not find the CA in $trusted: a line before it is no key"
  done <"$ca"
  [ "$(setting forcecommand)" = none ] || printf 'enrol: sshd has a ForceCommand for %s: it overrides that of certificates\n' "$user" >&2
fi
if [ "$mode" = remove ] && [ "$pattern" != none ] && admits "$(principals_file)"; then fail "$(principals_file) still has $principal"; fi
if [ -e "$pending/reload" ]; then reload || fail 'sshd could not be reloaded'; fi
done=1; [ -n "$confirm" ] || rm -rf "$pending"
[ "$mode" = add ] && echo "$user accepts $principal, by $trusted and $(principals_file)" || echo "$user accepts $principal no more"
