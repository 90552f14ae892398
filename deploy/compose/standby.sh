#!/bin/bash
# A standby of db1: a copy at the first start, then what db1 commits. Promote it: podman exec gateway_db2_1 pg_ctl promote
set -eu
PGPASSWORD=$(cat /run/secrets/db_password)
export PGPASSWORD
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  until pg_basebackup --pgdata "$PGDATA" --write-recovery-conf --wal-method stream --checkpoint fast \
    --dbname "host=db1 user=gateway application_name=standby password=$PGPASSWORD"; do
    # What a copy that broke off has left.
    find "$PGDATA" -mindepth 1 -delete
    sleep 1
  done
  chmod 700 "$PGDATA"
  # Copied with the rest: promoted, it would wait for a standby that there is not.
  sed -i '/^synchronous_standby_names/d' "$PGDATA/postgresql.auto.conf"
fi
exec postgres
