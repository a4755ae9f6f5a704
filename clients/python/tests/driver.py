"""Does what it is told: a line of JSON in, `{"box": 1, "op": "set", "key": "colour", "value": "<hex>"}`, and its result out.

For a test in another language that drives clients of both (`crates/millrace/tests/python/main.rs`). There is a client for each box, made when it
is first asked for.
"""

import json
import sys
from typing import Any

from millrace import Client, Item, NotDone, Refused, Swap, Topology, Unknown


def shown(result: Any) -> Any:
    """A result as JSON."""
    match result:
        case Item():
            return {**vars(result), "value": result.value.hex()}
        case Swap():
            return vars(result)
    return result


def perform(client: Client, op: str, arguments: dict[str, Any]) -> Any:
    """What comes of one operation."""
    if "value" in arguments:
        arguments["value"] = bytes.fromhex(arguments["value"])
    try:
        return shown(getattr(client, op)(**arguments))
    except Refused as refused:
        return {"error": refused.status.name}
    except (NotDone, Unknown) as failed:
        return {"error": type(failed).__name__}


def main() -> None:
    topology = Topology.find(sys.argv[1])
    clients: dict[int, Client] = {}
    for line in sys.stdin:
        arguments = json.loads(line)
        box = arguments.pop("box")
        if box not in clients:
            clients[box] = Client(topology, box)
        print(json.dumps(perform(clients[box], arguments.pop("op"), arguments)), flush=True)


main()
