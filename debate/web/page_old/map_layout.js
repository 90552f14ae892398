/** @import { Hypothesis } from "../../engine/graph/state.ts" */

/** The size of the map in SVG units. */
export const SIZE = 480;
const CENTRE = SIZE / 2;
const INNER = 78;
const OUTER = 142;
const LEAVES = 210;
/** The maximum number of drawn evidence lines and objections of one hypothesis. The cards show all. */
const MAX_LEAVES = 6;

/**
 * A mark is the incident, a hypothesis, a tool call, or an objection with its index among the reviews. Without
 * `rounds`, it belongs to all rounds.
 * @typedef {{ key: string, rounds: readonly number[] }} Mark
 * @typedef {Mark & { kind: "topic" }} TopicMark
 * @typedef {Mark & { kind: "hypothesis", hypothesis: Hypothesis }} HypothesisMark
 * @typedef {Mark & { kind: "evidence", hypothesis: Hypothesis, callId: string, counts: boolean }} EvidenceMark
 * @typedef {Mark & { kind: "objection", hypothesis: Hypothesis, review: number }} ObjectionMark
 * @typedef {(TopicMark | HypothesisMark | EvidenceMark | ObjectionMark) & { x: number, y: number }} MapNode
 */

/**
 * Computes the positions. The incident is in the center, hypotheses surround it, later ones further out.
 * Evidence and objections are outside.
 * @param {readonly Hypothesis[]} hypotheses
 * @returns {{ nodes: MapNode[], edges: { from: string, to: string, kind: string, rounds: readonly number[] }[] }}
 */
export function mapOf(hypotheses) {
  /** @type {MapNode[]} */
  const nodes = [{ key: "topic", kind: "topic", x: CENTRE, y: CENTRE, rounds: [] }];
  /** @type {{ from: string, to: string, kind: string, rounds: readonly number[] }[]} */
  const edges = [];
  const rings = [...new Set(hypotheses.map(({ round }) => round))].sort((a, b) => a - b);
  const wedge = (2 * Math.PI) / Math.max(1, hypotheses.length);
  for (const [index, hypothesis] of hypotheses.entries()) {
    const angle = index * wedge - Math.PI / 2;
    const ring = rings.indexOf(hypothesis.round);
    const radius = rings.length < 2
      ? (INNER + OUTER) / 2
      : INNER + ((OUTER - INNER) * ring) / (rings.length - 1);
    const key = `h:${hypothesis.id}`;
    const rounds = roundsOf(hypothesis);
    nodes.push({ key, kind: "hypothesis", ...at(angle, radius), rounds, hypothesis });
    edges.push({ from: "topic", to: key, kind: hypothesis.state, rounds });
    const leaves = leavesOf(hypothesis).slice(0, MAX_LEAVES);
    const span = Math.min(wedge * .85, leaves.length * .2);
    for (const [place, leaf] of leaves.entries()) {
      const own = leaves.length === 1 ? angle : angle - span / 2 + (span * place) / (leaves.length - 1);
      // A result that supports several hypotheses has one mark.
      if (!nodes.some((each) => each.key === leaf.key)) {
        nodes.push({ ...leaf, ...at(own, LEAVES) });
      }
      edges.push({
        from: key,
        to: leaf.key,
        kind: leaf.kind === "objection" ? "against" : leaf.counts ? "for" : "void",
        rounds: leaf.rounds,
      });
    }
  }
  return { nodes, edges };
}

/** @param {number} angle @param {number} radius */
function at(angle, radius) {
  return { x: CENTRE + radius * Math.cos(angle), y: CENTRE + radius * Math.sin(angle) };
}

/** @param {Hypothesis} hypothesis */
function roundsOf({ round, transitions = [], reviews = [] }) {
  return [
    ...new Set([round, ...transitions.map((each) => each.round), ...reviews.map((each) => each.round)]),
  ];
}

/**
 * @param {Hypothesis} hypothesis
 * @returns {(EvidenceMark | ObjectionMark)[]}
 */
function leavesOf(hypothesis) {
  const { id, evidence = [], reviews = [] } = hypothesis;
  /** @type {Map<string, EvidenceMark>} */
  const calls = new Map();
  for (const { call_ids, status, round } of evidence) {
    for (const callId of call_ids) {
      const counts = status === "grounded" || calls.get(callId)?.counts === true;
      calls.set(callId, {
        key: `e:${callId}`,
        kind: "evidence",
        rounds: [round],
        hypothesis,
        callId,
        counts,
      });
    }
  }
  const objections = reviews.flatMap((review, index) =>
    review.verdict === "accepted" ? [] : [{
      key: `o:${id}:${index}`,
      kind: /** @type {const} */ ("objection"),
      rounds: [review.round],
      hypothesis,
      review: index,
    }]
  );
  return [...calls.values(), ...objections];
}
