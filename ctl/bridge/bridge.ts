import { type Clock, every } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import type { Redactor } from "@gateway/shared/redact";
import type { ServiceLogger } from "@gateway/shared/service";
import { shortenText, visibleText } from "@gateway/shared/text";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { type Card, cardDigest, contentDigest, makeCard } from "./card.ts";
import { type Chat, type Click, wantedPauseMs } from "./chat.ts";
import { describeClicker, findObjection, type IdentityMap } from "./guard.ts";
import type { ControlPlaneClient } from "./control_plane_client.ts";
import type { BridgeStore, Posted } from "./store.ts";

interface BridgePorts {
  readonly controlPlane: ControlPlaneClient;
  readonly chat: Chat;
  readonly store: BridgeStore;
  readonly clock: Clock;
  readonly logger: ServiceLogger;
  readonly redact: Redactor;
  readonly pageOf: (approval: string) => string;
  /** Read for each click. If reading fails, no one can approve. */
  readonly readIdentities: () => Promise<IdentityMap>;
  readonly makeNonce: () => string;
}

const CLICKS_KEPT_MS = 7 * 86_400_000;
/** The search for a lost message begins this much earlier, because clocks differ. */
const FIND_SLACK_MS = 60_000;
/** Each answer is posted once for each user, so that clicks cannot flood the chat. */
const MOST_REPLIES = 1_000;
const LONGEST_REPLY = 1_000;

/**
 * Shows pending approvals in a chat, and decides by clicks. Clicks are decided one after the other, each with a fresh
 * list, and do not wait for posts: a flood of requests must not delay denials.
 */
export class Bridge {
  readonly #ports: BridgePorts;
  readonly #replies = new Set<string>();
  #deciding: Promise<void> = Promise.resolve();
  #polling: Promise<void> = Promise.resolve();
  #posting: Promise<void> = Promise.resolve();
  /** The next poll, which all callers share. */
  #nextPoll: Promise<void> | undefined;
  #notBefore = 0;
  /** The failures of this poll and the previous one: a lasting failure is logged once. */
  #failures = new Set<string>();
  #formerFailures = new Set<string>();

  constructor(ports: BridgePorts) {
    this.#ports = ports;
  }

  /** Runs until the signal is aborted; clicks from before a restart come first. */
  async run({ signal, pollSeconds }: { readonly signal: AbortSignal; readonly pollSeconds: number }) {
    const { chat, clock, store } = this.#ports;
    for (const click of await store.undone()) await this.#decideInTurn(click);
    await Promise.all([
      chat.listen((click) => this.take(click), signal),
      this.poll().then(() => every({ clock, seconds: pollSeconds, signal }, () => this.poll())),
    ]);
    await this.#deciding;
    await this.#polling;
  }

  /** Updates the chat from the control plane. Never rejects. */
  poll(): Promise<void> {
    this.#nextPoll ??= this.#polling = this.#polling.then(() => {
      this.#nextPoll = undefined;
      return this.#bringUp();
    }).catch((error) => this.#explain(error));
    return this.#nextPoll;
  }

  async #bringUp(): Promise<void> {
    const { clock, store } = this.#ports;
    if (clock.now() < this.#notBefore) return;
    this.#formerFailures = this.#failures;
    this.#failures = new Set();
    await store.forgetClicks(clock.now() - CLICKS_KEPT_MS);
    const records = new Map((await this.#ports.controlPlane.list()).map((record) => [record.id, record]));
    const posted = new Map((await store.posted()).map((each) => [each.approval, each]));
    for (const each of posted.values()) {
      await this.#apart(() => this.#refresh(each, records.get(each.approval)));
    }
    const waiting = [...records.values()].filter(({ id, status }) => status === "pending" && !posted.has(id));
    for (const record of waiting.sort((a, b) => a.created_at < b.created_at ? -1 : 1)) {
      await this.#apart(() => this.#post(record));
    }
  }

  /** Records a click. Resolves when the click is durable, before the decision. */
  async take(click: Click): Promise<void> {
    const { clock, store } = this.#ports;
    if (!await store.take(click, clock.now())) return;
    void this.#decideInTurn(click);
  }

  #decideInTurn(click: Click): Promise<void> {
    this.#deciding = this.#deciding.then(() => this.#decide(click)).catch((error) => this.#explain(error))
      .then(() => void this.poll());
    return this.#deciding;
  }

  /**
   * Runs an action. If the chat rejects a message, the other messages are still sent, unless the chat
   * requests a pause.
   */
  async #apart(action: () => Promise<void>): Promise<void> {
    try {
      await action();
    } catch (error) {
      if (!(error instanceof AppError) || error.code === "rate_limited") throw error;
      this.#explain(error);
    }
  }

  #explain(error: unknown): void {
    const { clock, logger } = this.#ports;
    const pauseMs = wantedPauseMs(error);
    if (pauseMs > 0) this.#notBefore = clock.now() + pauseMs;
    const failure = errorText(error);
    const isKnown = this.#failures.has(failure) || this.#formerFailures.has(failure);
    this.#failures.add(failure);
    if (!isKnown) logger.warn("chat update failed", { error });
  }

  async #refresh(posted: Posted, record: ApprovalRecord | undefined): Promise<void> {
    const { chat, store } = this.#ports;
    const card = this.#cardOf(posted, record);
    let { message, shown } = posted;
    if (message === "") {
      // The last post got no answer: the message may exist.
      message = await this.#find(card, posted.begunAt) ?? "";
      shown = "";
      if (message === "") {
        await store.forget(posted.approval);
        if (record?.status === "pending") await this.#post(record);
        return;
      }
      await store.show(posted.approval, message, shown);
    }
    const look = cardDigest(card);
    if (look !== shown) {
      try {
        await chat.update(message, card);
      } catch (error) {
        // A deleted message cannot be changed; a pending request is posted again.
        if (!(error instanceof AppError && error.code === "not_found")) throw error;
        await store.forget(posted.approval);
        return;
      }
      await store.show(posted.approval, message, look);
    }
    if (record === undefined) await store.forget(posted.approval);
  }

  /** Without permission to read the channel, a request may be shown twice, but is never lost. */
  async #find(card: Card, begunAt: number): Promise<string | undefined> {
    try {
      return await this.#ports.chat.find(card, begunAt - FIND_SLACK_MS);
    } catch (error) {
      if (!(error instanceof AppError && error.code === "invalid_request")) throw error;
      this.#explain(error);
      return undefined;
    }
  }

  async #post(record: ApprovalRecord): Promise<void> {
    const { chat, clock, store, makeNonce, logger } = this.#ports;
    const approval = record.id;
    const [nonce, joined] = [makeNonce(), record.joined ?? []];
    const card = this.#cardOf({ approval, nonce, joined }, record);
    // Record the post first. If the bridge is killed afterwards, it searches for the message instead of
    // posting it again.
    await store.begin({ approval, nonce, joined, content: contentDigest(record), begunAt: clock.now() });
    const posting = chat.post(card).then((message) => store.show(approval, message, cardDigest(card)));
    this.#posting = posting.catch(() => {});
    try {
      await posting;
    } catch (error) {
      const isNotThere = error instanceof AppError &&
        (error.code === "rate_limited" || error.code === "invalid_request");
      if (isNotThere) await store.forget(approval);
      throw error;
    }
    logger.info("posted", { approval });
  }

  #cardOf(
    { approval, nonce, joined }: Pick<Posted, "approval" | "nonce" | "joined">,
    record: ApprovalRecord | undefined,
  ): Card {
    const { redact, pageOf } = this.#ports;
    return makeCard(approval, record, { nonce, joined, redact, pageOf });
  }

  async #decide(click: Click): Promise<void> {
    const { store, logger } = this.#ports;
    try {
      await this.#judge(click);
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      logger.warn("decision failed", { user: click.user, error });
      const isUnknown = error.code === "upstream_failure" || error.code === "timeout";
      const what = isUnknown ? "the result of your decision is unknown" : "your decision failed";
      await this.#say(
        click,
        `${click.user}: ${what}: ${error.message}; see the request's page for its status`,
      );
    } finally {
      await store.done(click.key);
    }
  }

  async #judge(click: Click): Promise<void> {
    const { controlPlane, chat, logger, readIdentities } = this.#ports;
    const refuse = (why: string) => {
      logger.warn("click rejected", { user: click.user, verb: click.verb.kind, message: click.message, why });
      return this.#say(click, `${click.user}: your decision was rejected: ${why}`);
    };
    const posted = await this.#findPosted(click);
    // No reply: the message is not the bridge's.
    if (posted === undefined) return logger.warn("click on an unknown message", { user: click.user });
    if (click.nonce !== undefined && click.nonce !== posted.nonce) {
      return await refuse("the button belongs to another message");
    }
    const record = (await controlPlane.list()).find(({ id }) => id === posted.approval);
    // The message already shows the result, so send no reply.
    if (record?.status !== "pending") return;
    if (contentDigest(record) !== posted.content) {
      return await refuse("the request has changed since this message was posted");
    }
    const isOffered = this.#cardOf(posted, record).verbs.includes(click.verb.kind);
    if (!isOffered) {
      return await refuse("this message does not show the complete request; approve it on its page");
    }
    const identities = await readIdentities().catch((error) => {
      logger.error("identity map unreadable, approvals are blocked", { error });
      throw new AppError("invalid_config", "the bridge's identity map cannot be read");
    });
    const member = await chat.member(click.user);
    const objection = findObjection({ click, record, member, identities });
    if (objection !== undefined) return await refuse(objection);
    const { verb, user } = click;
    const isLearned = verb.kind === "learn";
    await controlPlane.decide(record.id, {
      approve: verb.kind !== "deny",
      learn: isLearned,
      ttl_seconds: isLearned ? verb.ttlSeconds : 0,
      // Exclude the requests that joined after the post, because the message does not show them.
      shown_ids: [record.id, ...posted.joined.filter((id) => record.joined?.includes(id) === true)],
      comment: describeClicker({ chat: chat.name, user, identities }),
    });
    logger.info("decided", { approval: record.id, verb: verb.kind, user });
  }

  /** A click can arrive before the chat's answer to the post. The nonce then identifies the message. */
  async #findPosted({ message: clicked, nonce: carried }: Click): Promise<Posted | undefined> {
    const look = async () =>
      (await this.#ports.store.posted()).find(({ message, nonce }) =>
        message === "" ? nonce === carried : message === clicked
      );
    const found = await look();
    if (found !== undefined || carried !== undefined) return found;
    await this.#posting;
    return await look();
  }

  /** Reports a failed decision, because users would assume that it succeeded. */
  async #say({ message, user }: Click, text: string): Promise<void> {
    const key = JSON.stringify([message, user, text]);
    if (this.#replies.has(key)) return;
    if (this.#replies.size >= MOST_REPLIES) this.#replies.clear();
    this.#replies.add(key);
    try {
      await this.#ports.chat.say(message, shortenText(visibleText(text), LONGEST_REPLY));
    } catch (error) {
      this.#replies.delete(key);
      this.#explain(error);
    }
  }
}
