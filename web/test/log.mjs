// Makes decision logs to draw: the same seed makes the same lines.

// random is a small generator of numbers between 0 and 1 (mulberry32).
function random(seed) {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const start = Date.UTC(2026, 2, 2, 8, 0, 0);
const queues = ["research", "research-vision", "research-language", "serving", "batch-nightly"];
const priorities = [10, 100, 1000, 5000];

// lines are so many decisions, spread over some hours.
export function lines(decisions, workloads = Math.max(Math.round(decisions / 4), 12), seed = 1, waits = false) {
  const next = random(seed);
  const pick = (list) => list[Math.floor(next() * list.length)];
  const works = Array.from({ length: workloads }, (_, i) => {
    const queue = pick(queues);
    return { namespace: `team-${queue.split("-")[0]}`, name: `${pick(["train", "finetune", "eval", "sweep", "serve"])}-${i}`, uid: `uid-${i}`, group: next() < 0.6, priority: pick(priorities), queue, pods: 1 + Math.floor(next() * 8), tries: 0 };
  });
  const out = [];
  let at = start;
  for (let i = 1; i <= decisions; i++) {
    at += Math.floor(next() * ((2 * 6 * 3600e3) / decisions));
    const p = pick(works);
    const members = p.group ? p.pods : 1;
    const record = {
      schema: "reprieve.dev/decision/v1", time: new Date(at).toISOString(), process: "reprieve-scheduler-0_a1", sequence: i, profile: "reprieve-scheduler",
      asks: [{ pods: members, request: { cpu: 8000, memory: 68719476736, "nvidia.com/gpu": 4, pods: 1 } }],
      decision: {
        outcome: "Infeasible", preemptor: { namespace: p.namespace, name: p.name, uid: p.uid, gang: p.group, priority: p.priority, queue: p.queue, now: 0, minCount: members },
        reprieved: 0, message: `needs 4 nvidia.com/gpu on ${members} nodes; 1 node has them after preemption (of 40 nodes: 39 short of nvidia.com/gpu); 12 units are protected (NotLowerPriority)`,
        protected: [{ rule: "NotLowerPriority", units: 12 }], nodesOut: [{ reason: "short of nvidia.com/gpu", nodes: 39 }], elapsedNanoseconds: 1200000,
      },
      result: { state: "Waiting" },
    };
    if (next() < 0.45) {
      const victims = [...new Set(Array.from({ length: 1 + Math.floor(next() * 3) }, () => pick(works)))].filter((v) => v !== p && v.priority <= p.priority);
      if (victims.length) {
        const d = record.decision;
        d.outcome = "Preempts";
        delete d.protected;
        delete d.nodesOut;
        d.placements = Array.from({ length: members }, (_, n) => ({ member: `${p.name}-${n}`, uid: `${p.uid}-${n}-${next() < 0.9 ? ++p.tries : p.tries}`, node: `node-${Math.floor(next() * 40)}` }));
        d.victims = victims.map((v) => ({
          namespace: v.namespace, name: v.name, uid: v.uid, group: v.group, priority: v.priority, queue: v.queue, rule: v.queue === p.queue ? "LowerPriority" : "Reclaim",
          pods: Array.from({ length: v.group ? v.pods : 1 }, (_, n) => ({ namespace: v.namespace, name: `${v.name}-${n}`, uid: `${v.uid}-${n}`, node: `node-${n}` })),
        }));
        d.message = `${p.group ? `gang of ${members}` : "pod"} fits on ${members} nodes once ${victims.length} units are gone`;
        record.lost = victims.map((v) => {
          const seconds = Math.floor(next() * 7200);
          return { uid: v.uid, since: new Date(at - seconds * 1000).toISOString(), spent: { cpu: 8000 * seconds * v.pods, "nvidia.com/gpu": 4 * seconds * v.pods } };
        });
        record.result = next() < 0.97 ? { state: "CarriedOut", time: new Date(at + 300).toISOString() } : { state: "Failed", time: new Date(at + 300).toISOString(), error: "delete pod: the server is busy", begun: 1 };
      }
    }
    out.push(JSON.stringify(record));
    // How the wait ended of those that have one more decision about them is left out: they went on
    // waiting.
    if (waits) {
      const end = next() < 0.7 ? "Bound" : next() < 0.5 ? "Gone" : "";
      if (end) out.push(JSON.stringify({ schema: "reprieve.dev/wait-end/v1", time: new Date(at + 60_000).toISOString(), process: record.process, sequence: i, namespace: p.namespace, name: p.name, uid: p.uid, gang: p.group, end }));
    }
  }
  return out.join("\n") + "\n";
}

// usage are lines with how much the queues use, over the same hours: with a quota of 64 GPUs, two of which have 32 each below it.
export function usage(moments = 200, seed = 2) {
  const next = random(seed);
  const used = { "research-vision": 20, "research-language": 20, serving: 48, "batch-nightly": 10 };
  const parents = { "research-vision": "research", "research-language": "research" };
  const out = [];
  for (let n = 1; n <= moments; n++) {
    for (const name of Object.keys(used)) used[name] = Math.min(Math.max(used[name] + Math.round((next() - 0.48) * 12), 0), 90);
    const all = { ...used, research: used["research-vision"] + used["research-language"] };
    const objects = Object.entries(all).map(([name, v]) => ({
      apiVersion: "reprieve.dev/v1alpha1", kind: "Queue", metadata: { name, uid: name },
      spec: { parent: parents[name], quota: { "nvidia.com/gpu": parents[name] ? "32" : "64", cpu: "512" } },
      status: { allocated: { "nvidia.com/gpu": String(v), cpu: `${v * 8}` }, fairShare: { "nvidia.com/gpu": parents[name] ? "40" : "72" } },
    }));
    out.push(JSON.stringify({
      schema: "reprieve.dev/inputs/v1", time: new Date(start + (n * 6 * 3600e3) / moments).toISOString(), process: "reprieve-scheduler-0_a1", number: n,
      ...(n === 1 ? { whole: {} } : { from: n - 1 }), objects: { "queues.reprieve.dev": objects },
    }));
  }
  return out.join("\n") + "\n";
}
