import { type Clock, every } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import type { ServiceLogger } from "@gateway/shared/service";
import type { Redactor } from "@gateway/shared/redact";
import { shortenText, visibleText } from "@gateway/shared/text";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { type Card, cardDigest, contentDigest, makeCard, makeLostCard } from "./card.ts";
import { type Chat, type Click, wantedPauseMs } from "./chat.ts";
import { describeClicker, findObjection, type IdentityMap } from "./guard.ts";
import type { Plane } from "./plane.ts";
import type { BridgeStore, Posted } from "./store.ts";

interface BridgePorts {
  readonly plane: Plane;
  readonly chat: Chat;
  readonly store: BridgeStore;
  readonly clock: Clock;
  readonly logger: ServiceLogger;
  readonly redact: Redactor;
  readonly pageOf: (approval: string) => string;
  /** Read for each click. @throws {AppError} when it can't be: then nobody approves */
  readonly readIdentities: () => Promise<IdentityMap>;
  /** What no one can guess. */
  readonly makeNonce: () => string;
}

const CLICKS_KEPT_MS = 7 * 86_400_000;
/** How long before a message was begun its like is looked for: clocks differ. */
const FIND_SLACK_MS = 60_000;
/** What is said below messages is said once to each user; a chat is not to be filled by clicking. */
const MOST_SAID = 1_000;
/** Part of it can be another's words. */
const LONGEST_SAID = 1_000;

/**
 * Shows in a chat what waits for approval, and takes decisions from there. Clicks are decided one after another, each on
 * the list as it is then, and wait for no message: who has a thousand requests posted keeps nobody from denying them.
 */
export class Bridge {
  readonly #ports: BridgePorts;
  readonly #said = new Set<string>();
  #deciding: Promise<void> = Promise.resolve();
  #polling: Promise<void> = Promise.resolve();
  /** The message that is on its way to the chat. */
  #posting: Promise<void> = Promise.resolve();
  /** The poll that has not begun yet: one is enough for all who want one. */
  #nextPoll: Promise<void> | undefined;
  #notBefore = 0;
  /** What failed in this turn and in the one before: the same is logged once. */
  #failures = new Set<string>();
  #formerFailures = new Set<string>();

  constructor(ports: BridgePorts) {
    this.#ports = ports;
  }

  /** Works until the signal is aborted; what was clicked before the last end comes first. */
  async run(
    { signal, pollSeconds }: { readonly signal: AbortSignal; readonly pollSeconds: number },
  ): Promise<void> {
    const { chat, clock, store } = this.#ports;
    for (const click of await store.undone()) await this.#decideInTurn(click);
    await Promise.all([
      chat.listen((click) => this.take(click), signal),
      this.poll().then(() => every({ clock, seconds: pollSeconds, signal }, () => this.poll())),
    ]);
    await this.#deciding;
    await this.#polling;
  }

  /** Brings the chat to where the control plane is. Never rejects. */
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
    const records = new Map((await this.#ports.plane.list()).map((record) => [record.id, record]));
    const posted = new Map((await store.posted()).map((each) => [each.approval, each]));
    for (const each of posted.values()) {
      await this.#apart(() => this.#refresh(each, records.get(each.approval)));
    }
    const waiting = [...records.values()].filter(({ id, status }) => status === "pending" && !posted.has(id));
    for (const record of waiting.sort((a, b) => a.created_at < b.created_at ? -1 : 1)) {
      await this.#apart(() => this.#post(record));
    }
  }

  /** Takes a click; resolves when it can't be lost any more, before it is decided. */
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

  /** A message that the chat does not take must not keep the others back; only a chat that wants a pause does. */
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
    if (!isKnown) logger.warn("the chat does not show how things are", { error });
  }

  async #refresh(posted: Posted, record: ApprovalRecord | undefined): Promise<void> {
    const { chat, store } = this.#ports;
    const card = this.#cardOf(posted, record);
    let { message, shown } = posted;
    if (message === "") {
      // The last attempt to post it ended without an answer: it may be there.
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
        // A message that was taken away can't be changed; what still waits is posted anew.
        if (!(error instanceof AppError && error.code === "not_found")) throw error;
        await store.forget(posted.approval);
        return;
      }
      await store.show(posted.approval, message, look);
    }
    if (record === undefined) await store.forget(posted.approval);
  }

  /** Where the bridge may not look, a request is rather shown twice than not at all. */
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
    // First: who is killed between the two looks for it instead of posting it again.
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
    if (record === undefined) return makeLostCard(approval, { nonce, pageOf });
    return makeCard(record, { nonce, joined, redact, pageOf });
  }

  async #decide(click: Click): Promise<void> {
    const { store, logger } = this.#ports;
    try {
      await this.#judge(click);
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      logger.warn("not decided", { user: click.user, error });
      const isUnknown = error.code === "upstream_failure" || error.code === "timeout";
      const what = isUnknown ? "it is not known whether this was decided" : "not decided";
      await this.#say(click, `${click.user}: ${what}: ${error.message}; its page shows how it stands`);
    } finally {
      await store.done(click.key);
    }
  }

  async #judge(click: Click): Promise<void> {
    const { plane, chat, logger, readIdentities } = this.#ports;
    const refuse = (why: string) => {
      logger.warn("click refused", { user: click.user, verb: click.verb.kind, message: click.message, why });
      return this.#say(click, `${click.user}: not decided: ${why}`);
    };
    const posted = await this.#findPosted(click);
    // Not said below it: the message is none of the bridge's.
    if (posted === undefined) return logger.warn("click on an unknown message", { user: click.user });
    if (click.nonce !== undefined && click.nonce !== posted.nonce) {
      return await refuse("the button is not this message's");
    }
    const record = (await plane.list()).find(({ id }) => id === posted.approval);
    // What became of it, the message itself will say.
    if (record?.status !== "pending") return;
    if (contentDigest(record) !== posted.content) {
      return await refuse("what is asked is not what is shown here");
    }
    const isOffered = this.#cardOf(posted, record).verbs.includes(click.verb.kind);
    if (!isOffered) return await refuse("not all of it is shown here; approve it on its page");
    const identities = await readIdentities().catch((error) => {
      logger.error("nobody can approve", { error });
      throw new AppError("invalid_config", "the bridge's identity map can't be read");
    });
    const member = await chat.member(click.user);
    const objection = findObjection({ click, record, member, identities });
    if (objection !== undefined) return await refuse(objection);
    const { verb, user } = click;
    const isLearned = verb.kind === "learn";
    await plane.decide(record.id, {
      approve: verb.kind !== "deny",
      learn: isLearned,
      ttl_seconds: isLearned ? verb.ttlSeconds : 0,
      // Not what has joined since the message was posted.
      shown_ids: [record.id, ...posted.joined.filter((id) => record.joined?.includes(id) === true)],
      comment: describeClicker({ chat: chat.name, user, identities }),
    });
    logger.info("decided", { approval: record.id, verb: verb.kind, user });
  }

  /** The chat's answer, with the message's name, may still be under way when somebody clicks on it: a nonce tells then. */
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

  /** A decision that failed is said, or else it would pass for one that counts. Once: chats can be flooded. */
  async #say({ message, user }: Click, text: string): Promise<void> {
    const key = JSON.stringify([message, user, text]);
    if (this.#said.has(key)) return;
    if (this.#said.size >= MOST_SAID) this.#said.clear();
    this.#said.add(key);
    try {
      await this.#ports.chat.say(message, shortenText(visibleText(text), LONGEST_SAID));
    } catch (error) {
      this.#said.delete(key);
      this.#explain(error);
    }
  }
}
