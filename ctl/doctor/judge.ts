import { quoteText } from "@gateway/shared/text";
import type { ServiceStatus } from "./service_status.ts";

/** Certificates that end so soon are told of: a week leaves time to do something. */
const SOON_MS = 7 * 86_400_000;
const MOST_OFFSET_SECONDS = 2;

/** What is wrong with a deployment, and what an operator may want to know beside that. */
interface Verdict {
  readonly problems: readonly string[];
  readonly notes: readonly string[];
}

/** Judges services by what they say of themselves, and of each other. */
export function judge(services: readonly ServiceStatus[], now: number): Verdict {
  const groups = Map.groupBy(
    services.filter(({ service }) => service !== undefined),
    ({ service }) => service,
  );
  const perGroup = [...groups].map(([service = "", members]) => judgeGroup(service, members));
  return {
    problems: [
      ...services.flatMap((each) => judgeOne(each, now)),
      ...perGroup.flatMap(({ problems }) => problems),
    ],
    notes: perGroup.flatMap(({ notes }) => notes),
  };
}

/** What a service is called in messages. */
function nameOf({ service, instance, address }: ServiceStatus): string {
  return service === undefined ? address : instance === undefined ? `${service} at ${address}` : instance;
}

function judgeOne(status: ServiceStatus, now: number): readonly string[] {
  const name = nameOf(status);
  const { certificate, clockOffsetSeconds = 0 } = status;
  const left = (certificate?.endsAt ?? Infinity) - now;
  return [
    ...(status.problem === "" ? [] : [`${name}: ${status.problem}`]),
    ...(left > SOON_MS ? [] : [
      `${name}: ${certificate?.name} ${
        left > 0 ? `ends in ${Math.ceil(left / 86_400_000)} days` : "has ended"
      }`,
    ]),
    ...(Math.abs(clockOffsetSeconds) <= MOST_OFFSET_SECONDS
      ? []
      : [`${name}: its clock is ${clockOffsetSeconds.toFixed(1)} s off; run a time service`]),
  ];
}

/** All of one service that share a database, or one. */
function judgeGroup(service: string, members: readonly ServiceStatus[]): Verdict {
  const named = new Set(members.flatMap(({ instance }) => instance === undefined ? [] : [instance]));
  const seen = new Set(members.flatMap((each) => each.members));
  const problems = members.flatMap((status) =>
    // Who does not see a database knows nothing of others.
    status.isReady
      ? [...named.difference(new Set(status.members))].map((other) => missing(status, other))
      : []
  );
  const versions = new Set(members.map(({ version = "unknown" }) => version));
  const unasked = [...seen.difference(named)];
  const lists = new Set(members.flatMap(({ krlVersion }) => krlVersion === undefined ? [] : [krlVersion]));
  return {
    problems,
    notes: [
      ...(unasked.length === 0
        ? []
        : [`${service}: ${unasked.map(quoteText).join(", ")} lives too, and was not asked`]),
      ...(versions.size < 2 ? [] : [`${service}: versions ${[...versions].toSorted().join(" and ")} run`]),
      ...(lists.size < 2 ? [] : [`${service}: the revocation lists are not the same; ask again`]),
    ],
  };
}

function missing(status: ServiceStatus, other: string): string {
  return `${nameOf(status)}: does not see ${
    quoteText(other)
  }; they use different databases, or it has just come or gone`;
}
