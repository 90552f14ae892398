#!/bin/bash
# Once, when the database is made: the standby may copy it, and no commit is acknowledged without it from the next start on.
set -eu
echo "host replication gateway samenet scram-sha-256" >> "$PGDATA/pg_hba.conf"
psql --username gateway --dbname gateway --command "ALTER SYSTEM SET synchronous_standby_names = 'standby'"
