#!/bin/bash
# Runs once, when the database is created. It lets the standby copy the database. After the next start, the primary
# acknowledges a commit only when the standby has the commit.
set -eu
echo "host replication gateway samenet scram-sha-256" >> "$PGDATA/pg_hba.conf"
psql --username gateway --dbname gateway --command "ALTER SYSTEM SET synchronous_standby_names = 'standby'"
