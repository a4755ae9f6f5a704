// What requests pass, part by part, from the metrics of this server and the figures of its cluster's members.
//
// A path: { service, title, hops }. A hop: { name, rate, p50, p99, share, failed, facts }: how often, how long, what part of it was answered here.
import { bytes, count, percent, rate, time } from "/live/metrics.js";

/// Stages that a histogram tells, as facts of a hop.
const stage = (pages, name, wanted, word) => {
  const p99 = pages.quantile(name, 0.99, wanted);
  return p99 === undefined ? [] : [[`${word} p99`, time(p99)]];
};

const fact = (word, value, shown = count) => (value === undefined ? [] : [[word, shown(value)]]);
const seldom = (word, value, shown = rate) => (value ? [[word, shown(value)]] : []);
const share = (part, all) => (all > 0 ? part / all : undefined);

function memcached(pages, labels) {
  const of = (name, more) => pages.value(`millrace_kv_${name}`, { ...labels, ...more });
  const per = (name, more) => pages.rate(`millrace_kv_${name}`, { ...labels, ...more });
  const quantiles = (stage) => ({
    p50: pages.quantile("millrace_kv_stage_seconds", 0.5, { ...labels, stage }),
    p99: pages.quantile("millrace_kv_stage_seconds", 0.99, { ...labels, stage }),
  });
  const more = (stage_, word) => stage(pages, "millrace_kv_stage_seconds", { ...labels, stage: stage_ }, word);
  const outcome = (outcome) => per("command_outcomes_total", { command: "get", outcome }) ?? 0;
  const hops = [
    {
      name: "clients", rate: per("requests_total"), facts: [
        ...fact("connections", of("connections")), ...fact("in", per("received_bytes_total"), (n) => `${bytes(n)}/s`),
        ...fact("out", per("sent_bytes_total"), (n) => `${bytes(n)}/s`), ...seldom("rejected", per("connections_rejected_total")),
      ],
    },
    { name: "edge", rate: per("requests_total"), ...quantiles("receive"), facts: [...more("send", "send"), ...seldom("yields", per("connection_yields_total"))] },
    { name: "engine", rate: per("requests_executed_total"), ...quantiles("execute"), facts: [...more("queue", "queue"), ...seldom("expired", per("requests_expired_total"))] },
  ];
  const home = per("home_events_total", { event: "received" });
  if (of("home_events_total") !== undefined) {
    hops.push({ name: "home of boxes", rate: home, facts: [
      ...fact("granted", per("home_events_total", { event: "granted" }), rate),
      ...fact("applied", per("home_events_total", { event: "applied" }), rate), ...fact("waiting", of("home_waiting")),
    ] });
  }
  const chains = pages.labels("millrace_kv_chain_under_way", "chain", labels);
  if (chains.length === 0) {
    const [hit, miss] = [outcome("hit"), outcome("miss")];
    hops.push({ name: "store", rate: per("commands_total"), share: share(hit, hit + miss), shareWord: "hits", facts: [
      ...fact("items", of("items")), ...fact("memory", of("memory_bytes"), bytes), ...seldom("evicted", per("items_removed_total", { reason: "evicted" })),
    ] });
  }
  if ((of("logged_effects_total") ?? 0) > 0) {
    const syncs = per("log_syncs_total");
    hops.push({ name: "redo log", rate: per("logged_effects_total"), facts: [
      ...fact("syncs", syncs, rate), ...(syncs > 0 ? [["a sync", time(per("log_sync_seconds_total") / syncs)]] : []), ...fact("not durable", of("log_pending_effects")),
    ] });
  }
  for (const chain of chains) {
    const name = "millrace_kv_chain_transaction_seconds";
    const wanted = { ...labels, chain };
    hops.push({ name: `chain ${chain}`, rate: pages.rate(`${name}_count`, wanted), p50: pages.quantile(name, 0.5, wanted), p99: pages.quantile(name, 0.99, wanted),
      failed: of("chain_silent", { chain }) > 0 && "its last transaction had no answer", facts: fact("under way", of("chain_under_way", { chain })) });
  }
  return { title: "memcached", hops };
}

function proxied(pages, labels) {
  const per = (name, more) => pages.rate(`millrace_proxy_${name}`, { ...labels, ...more });
  const of = (name, more) => pages.value(`millrace_proxy_${name}`, { ...labels, ...more });
  const [hit, miss] = ["hit", "miss"].map((outcome) => per("command_outcomes_total", { command: "get", outcome }) ?? 0);
  return { title: "memcached, by way of boxes", hops: [
    { name: "clients", rate: per("requests_total"), facts: fact("connections", of("connections")) },
    { name: "proxy", rate: per("requests_total"), share: share(hit, hit + miss), shareWord: "hits", facts: [...fact("under way", of("operations_in_flight")), ...seldom("failed", per("commands_failed_total"))] },
  ] };
}

function calls(pages, labels) {
  const server = { ...labels, side: "server" };
  const per = (name, more) => pages.rate(`millrace_rpc_${name}`, { ...server, ...more });
  const timed = (stage_) => stage(pages, "millrace_rpc_stage_seconds", { ...server, stage: stage_ }, stage_);
  const hops = [{ name: "clients", rate: per("frames_total", { direction: "received" }), facts: [
    ...fact("connections", pages.value("millrace_rpc_connections", server)), ...fact("in", per("frame_bytes_total", { direction: "received" }), (n) => `${bytes(n)}/s`),
  ] }];
  if (pages.value("millrace_gateway_connections", labels) !== undefined) {
    const gate = (name) => pages.rate(`millrace_gateway_${name}`, labels);
    hops[0].name = "fabric clients";
    hops.push({ name: "gRPC gateway", rate: gate("cache_lookups_total"), share: share(gate("cache_hits_total"), gate("cache_lookups_total")), shareWord: "by boxes",
      failed: pages.value("millrace_gateway_cache_silent", labels) > 0 && "the cache does not answer", facts: fact("connections", pages.value("millrace_gateway_connections", labels)) });
  }
  hops.push({ name: "server", rate: per("calls_ended_total"), p50: pages.quantile("millrace_rpc_call_seconds", 0.5, server), p99: pages.quantile("millrace_rpc_call_seconds", 0.99, server),
    facts: [...fact("in flight", pages.value("millrace_rpc_calls_in_flight", server)), ...timed("queue")] });
  const messages = pages.value("millrace_rpc_accelerator_messages_total", labels);
  if (messages > 0) {
    hops.push({ name: "accelerator", rate: pages.rate("millrace_rpc_accelerator_messages_total", labels), facts: [
      ...fact("crossed", pages.rate("millrace_rpc_accelerator_crossing_bytes_total", labels), (n) => `${bytes(n)}/s`), ...fact("lanes busy", pages.value("millrace_rpc_accelerator_lanes_busy", labels)),
      ...fact("units", pages.value("millrace_rpc_accelerator_units", labels)),
    ] });
  }
  for (const method of pages.labels("millrace_rpc_calls_started_total", "method", server)) {
    const wanted = { ...server, method };
    const ended = pages.rate("millrace_rpc_calls_ended_total", wanted);
    const good = pages.rate("millrace_rpc_calls_ended_total", { ...wanted, code: "OK" }) ?? 0;
    hops.push({ name: method.split("/").pop(), about: method, rate: ended, p50: pages.quantile("millrace_rpc_call_seconds", 0.5, wanted), p99: pages.quantile("millrace_rpc_call_seconds", 0.99, wanted),
      isMethod: true, facts: seldom("not OK", ended === undefined ? 0 : ended - good) });
  }
  return { title: "RPC", hops };
}

function inference(pages, labels) {
  const per = (name, more) => pages.rate(`millrace_rec_${name}`, { ...labels, ...more });
  const each = (seconds, of) => (of > 0 ? [["a request", time(seconds / of)]] : []);
  const done = per("requests_total", { outcome: "answered" });
  return { title: "recommendation", hops: [
    { name: "clients", rate: per("requests_taken_total"), facts: seldom("refused", per("requests_total", { outcome: "refused" })) },
    { name: "preprocess", rate: per("requests_taken_total"), facts: each(per("busy_seconds_total", { thread: "preprocess" }), done) },
    { name: "engine", rate: done, facts: [...each(per("busy_seconds_total", { thread: "engine" }), done), ...(per("batches_total") > 0 ? [["a batch", count(done / per("batches_total"))]] : [])] },
    { name: "rows of tables", rate: per("rows_total"), facts: each(per("stage_seconds_total", { stage: "reduce" }), done) },
  ] };
}

function node(pages, labels) {
  const hops = pages.labels("millrace_inc_events_total", "node", labels).map((node) => {
    const per = (event, tier) => pages.rate("millrace_inc_events_total", { ...labels, node, event, ...(tier && { tier }) });
    const [hits, misses] = [per("hits") ?? 0, per("misses") ?? 0];
    const name = "millrace_inc_datagram_seconds";
    return { name: node.replace(":", " "), rate: per("received", "socket"), share: share(hits, hits + misses), shareWord: "answered here",
      p50: pages.quantile(name, 0.5, { ...labels, node }), p99: pages.quantile(name, 0.99, { ...labels, node }),
      facts: [...seldom("invalidations", per("invalidations")), ...seldom("lost", per("unsent"))] };
  });
  return { title: "in-network cache", hops };
}

function replica(pages, labels) {
  const of = (name) => pages.value(`millrace_chain_${name}`, labels);
  const per = (name) => pages.rate(`millrace_chain_${name}`, labels);
  const role = of("is_head") ? "head" : of("is_tail") ? "tail" : "middle";
  const syncs = per("log_syncs_total");
  return { title: `chain ${labels.chain}`, hops: [
    { name: "clients", rate: per("calls_answered_total"), facts: [...fact("waiting", of("calls_waiting")), ...seldom("busy", per("requests_busy_total"))] },
    { name: `replica ${labels.replica}, ${role}`, rate: per("committed_lsn"), failed: of("serves_reads") === 0 && "it serves no reads", facts: [...fact("under way", of("transactions_under_way")), ...fact("items", of("image_items"))] },
    { name: "log", rate: syncs, facts: [...(syncs > 0 ? [["a sync", time(per("log_sync_seconds_total") / syncs)]] : []), ...fact("full", of("log_used_ratio"), percent), ...fact("written", per("log_written_bytes_total"), (n) => `${bytes(n)}/s`)] },
    { name: "members", rate: per("messages_sent_total"), failed: of("connected") === 0 && "a neighbour is not connected", facts: [...fact("links", of("links_up")), ...seldom("dropped", per("messages_dropped_total"))] },
  ] };
}

/// Each service that the metrics speak of, in an order that does not change.
export function paths(pages) {
  const services = new Set();
  for (const name of pages.names("millrace_")) pages.labels(name, "service").forEach((service) => services.add(service));
  const found = [];
  for (const service of [...services].sort((a, b) => (a ?? "").localeCompare(b ?? ""))) {
    const labels = { service };
    const add = (name, path) => pages.value(name, labels) !== undefined && found.push({ service, ...path() });
    add("millrace_kv_requests_executed_total", () => memcached(pages, labels));
    add("millrace_proxy_requests_total", () => proxied(pages, labels));
    add("millrace_rpc_calls_started_total", () => calls(pages, labels));
    add("millrace_rec_requests_taken_total", () => inference(pages, labels));
    add("millrace_inc_events_total", () => node(pages, labels));
    for (const { labels: of } of pages.of("millrace_chain_is_head", labels)) found.push({ service, ...replica(pages, of) });
  }
  return found;
}

/// What members of the cluster do of the path, between this server's own parts: boxes before it, replicas behind it.
export function withMembers(hops, all) {
  const silent = (of) => of.filter((one) => one.isFailed).map((one) => `${one.name} is silent`).join(", ") || undefined;
  const sum = (of) => of.reduce((all, one) => (one.rate === undefined ? all : (all ?? 0) + one.rate), undefined);
  const boxes = all.filter((one) => one.name.startsWith("box:"));
  const answered = boxes.reduce((sum, box) => sum + (box.rate ?? 0) * (box.share ?? 0), 0);
  const before = boxes.length === 0 ? [] : [{ name: "boxes", rate: sum(boxes), share: share(answered, sum(boxes)), shareWord: "answered there", failed: silent(boxes),
    facts: boxes.flatMap((box) => fact(box.name.replace(":", " "), box.rate, rate)) }];
  const order = (role) => ["head", "middle", "tail"].indexOf(role);
  const behind = hops.flatMap((hop) => {
    const number = /^chain (\d+)$/.exec(hop.name)?.[1];
    const replicas = all.filter((one) => number && one.name.startsWith(`chain:${number}/replica:`)).sort((a, b) => order(a.role) - order(b.role));
    return [hop, ...replicas.map((one) => ({ name: `${one.role || "replica"} (${one.name.split(":").pop()})`, rate: one.rate, failed: silent([one]), facts: [] }))];
  });
  return [behind[0], ...before, ...behind.slice(1)];
}

const SILENT_SECONDS = 0.5;

/// Members of the cluster: from what all of them said (`/cluster`), else from what this controller has heard.
export function members(pages, cluster, before) {
  if (cluster) {
    const elapsed = before && (cluster.time - before.time) / 1000;
    return cluster.members.map((member) => {
      const earlier = before?.members.find((other) => other.member === member.member);
      const per = (figure) => {
        const [then, now] = [earlier?.figures[figure], member.figures[figure]];
        return elapsed && then !== undefined && now !== undefined ? Math.max(0, now - then) / elapsed : undefined;
      };
      const [hits, misses] = [per("hits"), per("misses")];
      return { name: member.member, role: member.role, address: member.address, isFailed: member.state === "silent", state: member.state.replace("_", " "), why: member.why,
        epoch: member.epoch, lease: member.lease, rate: hits === undefined ? per("applied") : hits + misses, share: share(hits, hits + misses),
        figures: Object.entries(member.figures).map(([name, value]) => `${name.replaceAll("_", " ")} ${count(value)}`).join(", ") };
    });
  }
  const heard = [...pages.of("millrace_inc_silent_seconds").map(({ labels, value }) => [labels.of, value]),
    ...pages.of("millrace_chain_controller_silent_seconds").map(({ labels, value }) => [`chain:${labels.chain}/replica:${labels.replica}`, value])];
  return heard.map(([name, silent]) => ({ name, role: "", isFailed: silent > SILENT_SECONDS, state: silent > SILENT_SECONDS ? `silent for ${time(silent)}` : "heard" }));
}
