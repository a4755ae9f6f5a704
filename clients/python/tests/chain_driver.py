"""Does what it is told with a cluster's store: a line of JSON in, its result out. Values are in hexadecimal digits.

For a test in another language (`crates/millrace/tests/python/chain.rs`): `chain_driver.py file|controller|etcd PLACE`, of chain 7.
"""

import json
import sys
from typing import Any

from millrace import Cluster, Found, MillraceError, Swap

DEADLINE = 120.0
"""Seconds: a machine that is busy with other tests makes another replica the head when it can."""


def found(how: str, place: str) -> Cluster:
    makers = {"file": Cluster.from_file, "controller": Cluster.from_controller, "etcd": Cluster.from_etcd}
    return makers[how](place, chain=7, deadline=DEADLINE)


def transfer(cluster: Cluster, source: str, target: str, by: int) -> dict[str, Any]:
    asked = cluster.transaction().read(source).read(target).expect_at_least(source, by)
    outcome = asked.add(source, -by).add(target, by).commit()
    return {"done": bool(outcome), "sums": outcome.sums, "reads": [read and read.value.hex() for read in outcome.reads]}


def perform(cluster: Cluster, op: str, arguments: dict[str, Any]) -> Any:
    """What comes of one operation."""
    store = cluster.store
    if "value" in arguments:
        arguments["value"] = bytes.fromhex(arguments["value"])
    match op:
        case "transfer":
            return transfer(cluster, arguments["from"], arguments["to"], arguments["by"])
        case "count":
            return sum(store.increment(arguments["key"]) > 0 for _ in range(arguments["times"]))
        case "last":
            return {"session": store.session.hex(), "sequence": store.sequence}
        case "status":
            status = store.status(bytes.fromhex(arguments["session"]), arguments["sequence"])
            return {"state": status.state.name, "sums": status.outcome and status.outcome.sums}
        case "replicas":
            return store.replicas
    match getattr(cluster, op)(**arguments):
        case Found() as item:
            return {"value": item.value.hex(), "version": item.version}
        case Swap() as swap:
            return vars(swap)
        case result:
            return result


def main() -> None:
    try:
        cluster = found(*sys.argv[1:3])
    except MillraceError as failed:
        print(json.dumps({"error": str(failed)}), flush=True)
        return
    for line in sys.stdin:
        arguments = json.loads(line)
        try:
            result = perform(cluster, arguments.pop("op"), arguments)
        except MillraceError as failed:
            result = {"error": f"{type(failed).__name__}: {failed}"}
        print(json.dumps(result), flush=True)
    cluster.close()


main()
