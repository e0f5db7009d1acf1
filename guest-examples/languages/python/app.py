"""The exports of wit/series.wit. A `result` is what is returned, or an `Err` that is raised."""

import encodings.idna  # `socket` would look for it in the run, where no module can be loaded any more.
import math
import socket
import statistics

import wit_world
from componentize_py_types import Err


class WitWorld(wit_world.WitWorld):
    def summarize(self, values: list[float]) -> wit_world.Summary:
        if not values:
            raise Err("the series is empty")
        if not all(map(math.isfinite, values)):
            raise Err("the series has what is no number")
        return wit_world.Summary(
            count=len(values),
            mean=statistics.fmean(values),
            median=statistics.median(values),
            deviation=statistics.stdev(values) if len(values) > 1 else None,
            range=(min(values), max(values)),
        )

    def reachable(self, host: str, port: int) -> bool:
        try:
            socket.create_connection((host, port), timeout=2).close()
            return True
        except ConnectionRefusedError:
            return False
        except OSError as error:
            raise Err(f"{host} cannot be asked: {error}") from error
