import assert from "node:assert/strict";
import { ChangeLock } from "@gateway/shared/state";
import { FakeClock, FixedRandom, SAMPLE_NOW } from "@gateway/shared/testing";
import type { FreezeSubject } from "@gateway/shared/wire";
import { type ChangeRecords, type GrantDraft, LiveState, type WaiverDraft } from "../live/live_state.ts";
import type { StateStore } from "../live/state/store.ts";
import { failingStore } from "./failing_store.ts";

/** A grant for everyone on `web01`. */
export const GRANT: GrantDraft = {
  host: "web01",
  allow: ["^id$"],
  caller: "",
  endUser: "",
  ttlSeconds: 60,
  approver: "operator",
};

/** A waiver learned from an approved command of {@linkcode IDENTITY}. */
export const WAIVER: WaiverDraft = {
  host: "web01",
  caller: "broker-1",
  endUser: "alice",
  peer: "control-plane",
  sudo: true,
  sudoUser: "",
  fileTransfer: false,
  contentSha256: "",
  command: "systemctl restart nginx",
  gate: "approved",
  ttlSeconds: 60,
  maxTtlSeconds: 0,
  approver: "boss",
  approvalId: "a1",
};

/** The caller, its end user, and the peer that forwards the request. */
export const IDENTITY = { caller: "broker-1", endUser: "alice", peer: "control-plane" };

/** The caller of {@linkcode IDENTITY}, to be frozen. */
export const CALLER = { kind: "caller", value: "broker-1" } as const;

/** The end user of {@linkcode IDENTITY}, to be frozen. */
export const USER = { kind: "end_user", value: "alice" } as const;

export const freezeOf = (subject: FreezeSubject) => ({ ...subject, reason: "INC-1", frozenBy: "operator" });

export const recorded: ChangeRecords<unknown> = {
  made: () => Promise.resolve(),
  notStored: () => Promise.resolve(),
};

/** Dependencies of a revocation list, for tests of other parts: no records, no answers, no log. */
export const QUIET_LIST = {
  logger: { info() {}, warn() {}, error() {} },
  onStoreError() {},
  forwarders: [],
  readRecords: async function* () {},
  findAnswers: async function* () {},
  onLost: () => Promise.resolve(),
};

/** Opens the live state of a store, with the most common changes of tests. */
export async function openLiveState(store: StateStore = failingStore()) {
  const clock = new FakeClock(SAMPLE_NOW);
  const counts = { errors: 0, warnings: 0 };
  const live = await LiveState.open({
    store,
    clock,
    random: new FixedRandom(),
    logger: { info() {}, warn: () => counts.warnings++, error() {} },
    lock: new ChangeLock(),
    onStoreError: () => counts.errors++,
  });
  const ids = () => live.listGrants().map(({ id }) => id);
  const create = async (fields: Partial<GrantDraft> = {}) => {
    const outcome = await live.createGrant({ ...GRANT, ...fields }, recorded);
    assert(outcome.kind === "created");
    return outcome.grant;
  };
  const learn = (fields: Partial<WaiverDraft> = {}) => live.learnWaiver({ ...WAIVER, ...fields }, recorded);
  const freeze = (subject: FreezeSubject) => live.freeze(freezeOf(subject), recorded);
  return { live, clock, counts, ids, create, learn, freeze };
}

/** A second start over the same store. */
export const restart = (store: StateStore) => openLiveState(store);
