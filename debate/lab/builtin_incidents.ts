import { type Incident, parseIncident } from "./incident.ts";
import backupTimezone from "./incidents/backup_timezone.yaml" with { type: "text" };
import connectionPoolLeak from "./incidents/connection_pool_leak.yaml" with { type: "text" };
import conntrackTable from "./incidents/conntrack_table.yaml" with { type: "text" };
import cpuThrottling from "./incidents/cpu_throttling.yaml" with { type: "text" };
import deletedLogSpace from "./incidents/deleted_log_space.yaml" with { type: "text" };
import diskBurstCredits from "./incidents/disk_burst_credits.yaml" with { type: "text" };
import duplicateImport from "./incidents/duplicate_import.yaml" with { type: "text" };
import featureFlagCache from "./incidents/feature_flag_cache.yaml" with { type: "text" };
import fileDescriptorLeak from "./incidents/file_descriptor_leak.yaml" with { type: "text" };
import gatewayTimeout from "./incidents/gateway_timeout.yaml" with { type: "text" };
import goroutineLeak from "./incidents/goroutine_leak.yaml" with { type: "text" };
import loadTestAlert from "./incidents/load_test_alert.yaml" with { type: "text" };
import migrationLock from "./incidents/migration_lock.yaml" with { type: "text" };
import monthEndBatch from "./incidents/month_end_batch.yaml" with { type: "text" };
import nPlusOneRelease from "./incidents/n_plus_one_release.yaml" with { type: "text" };
import nullExchangeRate from "./incidents/null_exchange_rate.yaml" with { type: "text" };
import paymentProviderSlow from "./incidents/payment_provider_slow.yaml" with { type: "text" };
import pgbouncerSessionMode from "./incidents/pgbouncer_session_mode.yaml" with { type: "text" };
import plannedFailover from "./incidents/planned_failover.yaml" with { type: "text" };
import poisonMessage from "./incidents/poison_message.yaml" with { type: "text" };
import publicHoliday from "./incidents/public_holiday.yaml" with { type: "text" };
import registryRateLimit from "./incidents/registry_rate_limit.yaml" with { type: "text" };
import stagingCacheHost from "./incidents/staging_cache_host.yaml" with { type: "text" };
import upstreamCertificate from "./incidents/upstream_certificate.yaml" with { type: "text" };

const TEXTS: readonly string[] = [
  backupTimezone,
  connectionPoolLeak,
  conntrackTable,
  cpuThrottling,
  deletedLogSpace,
  diskBurstCredits,
  duplicateImport,
  featureFlagCache,
  fileDescriptorLeak,
  gatewayTimeout,
  goroutineLeak,
  loadTestAlert,
  migrationLock,
  monthEndBatch,
  nPlusOneRelease,
  nullExchangeRate,
  paymentProviderSlow,
  pgbouncerSessionMode,
  plannedFailover,
  poisonMessage,
  publicHoliday,
  registryRateLimit,
  stagingCacheHost,
  upstreamCertificate,
];

export function builtinIncidents(): readonly Incident[] {
  return TEXTS.map((text, index) => parseIncident(text, `built-in incident ${index + 1}`));
}
