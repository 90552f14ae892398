#!/bin/bash
# Standby of db1. It copies db1 at the first start and then follows its commits.
# To promote it: podman exec gateway_db2_1 pg_ctl promote
set -eu
PGPASSWORD=$(cat /run/secrets/db_password)
export PGPASSWORD
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  until pg_basebackup --pgdata "$PGDATA" --write-recovery-conf --wal-method stream --checkpoint fast \
    --dbname "host=db1 user=gateway application_name=standby password=$PGPASSWORD"; do
    # Remove the files of an interrupted copy.
    find "$PGDATA" -mindepth 1 -delete
    sleep 1
  done
  chmod 700 "$PGDATA"
  # Do not keep the primary's setting: after a promotion, this server would wait for a standby that does not exist.
  sed -i '/^synchronous_standby_names/d' "$PGDATA/postgresql.auto.conf"
fi
exec postgres
