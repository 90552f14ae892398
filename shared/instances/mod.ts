/**
 * Several instances of a service that share one PostgreSQL database.
 *
 * @module
 */

export { ALONE, type InstanceGroup, SharedGroup } from "./group.ts";
export {
  type Epochs,
  inEpoch,
  INSTANCE_TABLES,
  type InstanceLink,
  type Notice,
  PostgresLink,
  readEpochs,
  type Shared,
} from "./postgres_link.ts";
