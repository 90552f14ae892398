import type { SignRequest } from "@gateway/shared/wire";
import type { Approval } from "./approval.ts";

/** The right to have an approved request signed: there is one at a time. Whoever got it releases it at the end. */
export interface Claim {
  readonly approval: Approval;
  /** What was stored, with the end user's token if this process still has it. */
  readonly request: SignRequest;

  /**
   * Claims the approval in the store, so that no other control plane signs it at the same time.
   *
   * @returns false when another control plane has claimed or collected it; the claim is over then
   */
  enter(): Promise<boolean>;

  /**
   * Uses the approval up: first the audit, then the store, then memory. Call it before the result is released,
   * and release nothing when it rejects: the approval can then be collected again.
   */
  consume(audit: () => Promise<void>): Promise<void>;

  /** Gives the approval back, unless it was consumed. Without effect the second time. */
  release(): void;
}

/** What a {@linkcode HeldClaim} is made of. */
interface HeldClaimOptions {
  readonly approval: Approval;
  readonly request: SignRequest;
  /** Claims the approval among the instances that share the store; false when another instance holds it. */
  readonly enter: () => Promise<boolean>;
  readonly store: () => Promise<void>;
  /** Called once, when the claim is over. */
  readonly onEnd: () => void;
}

/** A claim on an entry of the registry. */
export class HeldClaim implements Claim {
  readonly approval: Approval;
  readonly request: SignRequest;
  readonly #options: HeldClaimOptions;
  #phase: "held" | "consuming" | "over" = "held";
  #isReleaseWanted = false;

  constructor(options: HeldClaimOptions) {
    this.approval = options.approval;
    this.request = options.request;
    this.#options = options;
  }

  async enter(): Promise<boolean> {
    let isEntered = false;
    try {
      return isEntered = await this.#options.enter();
    } finally {
      if (!isEntered) this.release();
    }
  }

  async consume(audit: () => Promise<void>): Promise<void> {
    if (this.#phase !== "held") throw new TypeError("A claim is consumed once, and not after its release");
    this.#phase = "consuming";
    try {
      await audit();
      await this.#options.store();
    } catch (error) {
      this.#phase = "held";
      if (this.#isReleaseWanted) this.release();
      throw error;
    }
    this.#end();
  }

  release(): void {
    // Given back now, it could be collected a second time while it is being consumed.
    if (this.#phase === "consuming") this.#isReleaseWanted = true;
    if (this.#phase === "held") this.#end();
  }

  #end(): void {
    this.#phase = "over";
    this.#options.onEnd();
  }
}
