/**
 * A change of thousands of hosts takes a second to compile, and nobody may decide by the version before it once it is
 * acknowledged. So all signers compile it before it is a version: then it takes effect at once.
 *
 * @module
 */
import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import type { ServiceLogger } from "@gateway/shared/service";
import type { PolicySource } from "./policy_source.ts";
import type { SignerState } from "./signer_state.ts";
import type { PolicyVersions, StoredDocument } from "./state/postgres.ts";

/** A signer that needs longer refuses to decide until it is ready: the change does not wait for it. One that is gone is off the list sooner. */
const PREPARE_MS = 5_000;

const LOOK_MS = 20;

/** What a {@linkcode PolicyPreparation} works with. */
interface PreparationOptions {
  readonly policySource: PolicySource;
  readonly state: Pick<SignerState, "current">;
  readonly versions: PolicyVersions;
  readonly logger: ServiceLogger;
}

/** Compiles what others propose, and tells them. */
export class PolicyPreparation {
  readonly #options: PreparationOptions;
  #running: Promise<void> = Promise.resolve();

  constructor(options: PreparationOptions) {
    this.#options = options;
  }

  /** Takes note of what is proposed now, and prepares for it in the background. */
  learn(stored: StoredDocument | undefined): void {
    const { policySource } = this.#options;
    const proposal = policySource.learnProposal(stored);
    if (proposal === undefined || policySource.hasPrepared(proposal.document)) return;
    this.#running = this.#running.then(() => this.#prepare(proposal));
  }

  /** Resolves when nothing is under way. */
  ended(): Promise<void> {
    return this.#running;
  }

  async #prepare({ sha256, document }: Required<StoredDocument>): Promise<void> {
    const { policySource, state, versions, logger } = this.#options;
    // Another one came meanwhile, or it is in force.
    if (!policySource.isProposed(sha256)) return;
    try {
      if (policySource.from === "database") await policySource.prepare(document, state.current);
    } catch (error) {
      logger.warn("a change of the policy that is about to be made can't be used here", { error });
    }
    try {
      // Also where it can't be used: whoever waited longer would gain nothing.
      await versions.announcePrepared(sha256);
    } catch (error) {
      logger.warn("the other signers can't be told that a change of the policy is prepared", { error });
    }
  }
}

/**
 * Waits until the other signers can put a document in force at once, or for as long as is sensible.
 *
 * @throws {AppError} `conflict` when somebody else's change came between
 */
export async function prepareElsewhere(
  versions: PolicyVersions,
  { document, sha256, clock }: { readonly document: string; readonly sha256: string; readonly clock: Clock },
): Promise<void> {
  await versions.propose(document);
  for (let waited = 0; waited < PREPARE_MS; waited += LOOK_MS) {
    const prepared = await versions.findPrepared(sha256);
    if (prepared === "all") return;
    if (prepared === "replaced") throw changedMeanwhile();
    await clock.sleep(LOOK_MS);
  }
}

/** What to throw where another change came first. */
export function changedMeanwhile(): AppError {
  return new AppError(
    "conflict",
    "the policy was changed meanwhile, by somebody else: nothing is changed; look at the newest version and try again",
  );
}
