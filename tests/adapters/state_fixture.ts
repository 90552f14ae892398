/** Fixture of the tests of the state store: a directory with a database, and sample grants and freezes. */
import { DatabaseSync } from "node:sqlite";
import { errorText } from "@gateway/shared/errors";
import type { Freeze } from "../../signer/live/freezes.ts";
import type { Lease } from "../../signer/live/state/schema.ts";
import type { IssuedBatch } from "../../signer/live/krl/certificates.ts";
import { SAMPLE_NOW as NOW } from "../../shared/testing/sample_grant.ts";
import { systemClock } from "@gateway/shared/clock";
import type { StateSettings } from "@gateway/shared/state";
import { openPostgresStore } from "../../signer/live/state/postgres.ts";
import { openSqliteStore, type StateStore } from "../../signer/live/state/store.ts";

export { SAMPLE_NOW as NOW, sampleGrant as grantOf } from "../../shared/testing/sample_grant.ts";

export function freezeOf(fields: Partial<Freeze> = {}): Freeze {
  return {
    kind: "caller",
    value: "broker-1",
    reason: "INC-42",
    frozenBy: "operator",
    frozenAt: NOW,
    ...fields,
  };
}

export function leaseOf(fields: Partial<Lease> = {}): Lease {
  return {
    cluster: "prod",
    namespace: "gateway",
    name: "gateway-lease-0123456789abcdef0123456789abcdef",
    uid: "5a4c8d9e-0000-4000-8000-000000000000",
    caller: "broker-1",
    endUser: "alice@example.com",
    peers: ["control-plane"],
    expiresAt: NOW + 600_000,
    ...fields,
  };
}

export function batchOf(fields: Partial<IssuedBatch> = {}): IssuedBatch {
  return {
    holder: {
      peer: "control-plane",
      caller: "broker-1",
      endUser: "alice@example.com",
      host: "web01",
      role: "target",
      elevationPrefix: "sudo -n -u db",
      pty: true,
    },
    issuedAt: NOW / 1000,
    validBefore: NOW / 1000 + 300,
    serials: [1n, 2n ** 64n - 1n],
    ...fields,
  };
}

export function openShared(
  settings: Partial<StateSettings> & Pick<StateSettings, "state_db">,
  warnings: string[] = [],
  instance = "signer-1",
) {
  return openPostgresStore({
    settings: { state_db_password_file: "", state_db_ca: "", ...settings },
    clock: systemClock,
    warn: (message, { id, error }) => void warnings.push(`${message}: ${String(id)}: ${errorText(error)}`),
  }, instance);
}

export class StateFolder implements Disposable {
  readonly folder: string = Deno.makeTempDirSync({ prefix: "state-" });
  readonly path: string = `${this.folder}/state.db`;
  readonly warnings: string[] = [];

  open(lockWaitMs = 100): StateStore {
    const warn = (message: string, { id, error }: Readonly<Record<string, unknown>>) =>
      this.warnings.push(`${message}: ${id}: ${errorText(error)}`);
    return openSqliteStore({ path: this.path, warn, lockWaitMs });
  }

  /** Runs statements on the file as another program would. */
  exec(sql: string): void {
    using database = new DatabaseSync(this.path);
    database.exec(sql);
  }

  query(sql: string): readonly Record<string, unknown>[] {
    using database = new DatabaseSync(this.path);
    return database.prepare(sql).all().map((row) => ({ ...row }));
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.folder, { recursive: true });
  }
}
