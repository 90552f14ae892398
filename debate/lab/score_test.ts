import assert from "node:assert/strict";
import { FAULT_KINDS } from "../engine/graph/claim.ts";
import { builtinIncidents, formatClaim } from "./incidents.ts";
import { scoreAnswer } from "./score.ts";

const INCIDENTS = builtinIncidents();
const POOL = INCIDENTS.find(({ id }) => id === "connection_pool_leak") ?? assert.fail();
const HOLIDAY = INCIDENTS.find(({ id }) => id === "public_holiday") ?? assert.fail();
const PATH = "paygate-declines-rise > connections-not-returned > pool-exhausted > requests-time-out";

Deno.test.each([
  { name: "the truth", answer: `{component: orders-api/pool; fault: resource_leak; path: ${PATH}}` },
  {
    name: "a path without a state in between",
    answer:
      "{component: orders-api/pool; fault: leak; path: paygate-declines-rise > pool-exhausted > requests-time-out}",
  },
  {
    name: "other names of the same things",
    answer:
      "{component: the connection pool of orders-api; fault: connection leak; path: more declined payments > connections are not closed after an error > pool is exhausted > requests answered 503} Connections stay out.",
  },
  {
    name: "the truth in Spanish",
    answer:
      "{componente: pool de conexiones de orders-api; fallo: fuga de recursos; camino: suben los pagos rechazados > conexiones sin devolver > pool agotado > peticiones con 503} No se devuelven.",
  },
])("scoreAnswer() accepts $name", ({ answer }) => {
  assert.deepEqual(scoreAnswer(answer, POOL), {
    component: true,
    fault: true,
    path: true,
    right: true,
    problem: null,
  });
});

const ALL = Object.keys(POOL.components);
const STATES = Object.keys(POOL.states);
const RIGHT = `{component: orders-api/pool; fault: resource_leak; path: ${PATH}}`;

Deno.test.each([
  {
    name: "the right words as prose",
    answer: "orders-api/pool resource_leak connections-not-returned pool-exhausted",
  },
  { name: "a denial before the truth", answer: `The cause is not ${RIGHT}` },
  { name: "a denial behind the truth", answer: `${RIGHT} is not the cause` },
  { name: "a denial in Spanish", answer: `${RIGHT} no es la causa` },
  { name: "a denied component", answer: `{component: not orders-api/pool; fault: leak; path: ${PATH}}` },
  {
    name: "cause and effect swapped",
    answer:
      "{component: orders-api/pool; fault: leak; path: requests-time-out > pool-exhausted > connections-not-returned > paygate-declines-rise}",
  },
  {
    name: "two states swapped",
    answer:
      "{component: orders-api/pool; fault: leak; path: paygate-declines-rise > pool-exhausted > connections-not-returned > requests-time-out}",
  },
  { name: "every component", answer: `{component: ${ALL.join(", ")}; fault: leak; path: ${PATH}}` },
  {
    name: "every fault",
    answer: `{component: orders-api/pool; fault: ${FAULT_KINDS.join(" ")}; path: ${PATH}}`,
  },
  { name: "every state", answer: `{component: orders-api/pool; fault: leak; path: ${STATES.join(" > ")}}` },
  {
    name: "a claim for each component",
    answer: ALL.map((each) => RIGHT.replace("orders-api/pool", each)).join(" "),
  },
  { name: "the truth and a wrong claim", answer: `${RIGHT} {component: paygate; fault: dependency}` },
  { name: "no path", answer: "{component: orders-api/pool; fault: leak}" },
  { name: "only the end", answer: "{component: orders-api/pool; fault: leak; path: requests-time-out}" },
  {
    name: "only the beginning",
    answer: "{component: orders-api/pool; fault: leak; path: paygate-declines-rise}",
  },
  { name: "the symptom's component", answer: RIGHT.replace("orders-api/pool", "load-balancer") },
  { name: "part of a name", answer: RIGHT.replace("orders-api/pool", "pool") },
  { name: "another kind of fault", answer: RIGHT.replace("resource_leak", "capacity") },
  { name: "that nothing is broken", answer: "{component: none; fault: none}" },
  { name: "a placeholder", answer: "{component: <name>; fault: <kind>; path: <state> > <state>}" },
  { name: "nothing", answer: "" },
])("scoreAnswer() refuses $name", ({ answer }) => {
  assert.equal(scoreAnswer(answer, POOL).right, false);
});

Deno.test.each([
  {
    name: "accepts that nothing is broken",
    answer: "{component: none; fault: none} A holiday.",
    right: true,
  },
  { name: "accepts it in Spanish", answer: "{componente: ninguno; fallo: ninguno} Festivo.", right: true },
  { name: "refuses a component beside it", answer: "{component: login; fault: none}", right: false },
  {
    name: "refuses a path beside it",
    answer: "{component: none; fault: none; path: login-broken}",
    right: false,
  },
  {
    name: "refuses a fault",
    answer: "{component: login; fault: dependency; path: login-broken > orders-fall}",
    right: false,
  },
  { name: "refuses prose", answer: "Nothing is broken", right: false },
])("scoreAnswer() of an incident without a fault $name", ({ answer, right }) => {
  assert.equal(scoreAnswer(answer, HOLIDAY).right, right);
});

/** Answers of a reader who has seen the names and none of the evidence. */
Deno.test("nothing that is said of every incident alike is right for more than the four without a fault", () => {
  const blind = [
    () => "{component: none; fault: none}",
    ...FAULT_KINDS.map((fault) => ({ components, states }: (typeof INCIDENTS)[number]) =>
      formatClaim({ component: Object.keys(components)[0] ?? "", fault, path: Object.keys(states) })
    ),
    ({ components, states }: (typeof INCIDENTS)[number]) =>
      formatClaim({
        component: Object.keys(components).sort()[0] ?? "",
        fault: "configuration" as const,
        path: Object.keys(states).sort(),
      }),
  ];
  for (const say of blind) {
    const right = INCIDENTS.filter((incident) => scoreAnswer(say(incident), incident).right).length;
    assert.ok(right <= 4, `${right}`);
  }
});
