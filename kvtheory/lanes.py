"""Lanes on devices: which devices take them, how many fit at a time, and running them.

A lane is one seed at one capacity. The lanes of one call lie side by side on the devices, each of
which maps or vectorises over its own: `jax.shard_map` leaves the loops inside of the devices, so
they never wait for each other. Lanes share nothing, so their number, their order and the devices
change no result.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from kvtheory.errors import InputError, bad
from kvtheory.memory import device_memory, host_memory, told
from kvtheory.programs import program

# What XLA needs besides, in states of a lane: it copies some of a state on its way into a loop,
# and vmap keeps old versions of what it selects from. The tests hold these against what XLA says.
MAP_STATES = 2
VMAP_STATES = 4


class Footprint(NamedTuple):
    """Bytes of a run.

    Attributes
    ----------
    shared
        Arrays that all lanes read: on each device.
    state
        Of one lane while it runs.
    output
        That one lane hands back.
    kept
        What is kept of the output of one lane until all are done, on the host.
    """

    shared: int
    state: int
    output: int
    kept: int

    def on_device(self, lanes: int, batching: str) -> int:
        """Bytes that so many lanes at a time take on one device."""
        states = MAP_STATES if batching == "map" else VMAP_STATES * lanes
        # the output once more: on a CPU the host copies its part while the device holds it
        return self.shared + 2 * lanes * self.output + states * self.state


class Plan(NamedTuple):
    """Calls of ``each`` lanes on each of the ``devices``."""

    lanes: int
    each: int
    devices: tuple[jax.Device, ...]

    @property
    def at_a_time(self) -> int:
        """Lanes of one call."""
        return self.each * len(self.devices)


class Call(NamedTuple):
    """Lanes ``first`` to ``stop − 1``: their output, and seconds of compiling for it."""

    first: int
    stop: int
    output: Any
    compile_seconds: float


def lane_devices(devices: Sequence[jax.Device] | None) -> tuple[jax.Device, ...]:
    """The devices to use: those given, else all of this process.

    Inside of ``jax.default_device(…)`` it is that one.

    Raises
    ------
    InputError
        If there are none, one twice, or one of another process.
    """
    if devices is None:
        if jax.config.jax_default_device is not None:
            return (_default_device(),)
        return tuple(jax.local_devices())
    devices = tuple(devices)
    rule = "must be different devices of this process, such as jax.local_devices()"
    if not devices or len(set(devices)) < len(devices):
        raise bad("devices", list(devices), rule)
    for device in devices:
        if not isinstance(device, jax.Device) or device.process_index != jax.process_index():
            raise bad("devices", device, rule)
    if len({device.platform for device in devices}) > 1:
        raise bad("devices", list(devices), "must be of one platform")
    return devices


def plan_lanes(
    lanes: int,
    footprint: Footprint,
    batching: str,
    devices: tuple[jax.Device, ...],
    *,
    most: int,
) -> Plan:
    """How many lanes to run at a time, so that they fit into memory.

    Parameters
    ----------
    lanes
        All lanes of the run.
    footprint
        What they need.
    batching
        ``"map"`` or ``"vmap"``.
    devices
        Where they may run; fewer are used if the lanes or the memory are few.
    most
        Lanes on one device at a time at most, so that progress can be shown.

    Raises
    ------
    InputError
        If what is kept of all lanes does not fit, or not even a single lane does. It says how much
        is needed and what to change.
    """
    host = host_memory()
    free = sys.maxsize if host is None else host
    if lanes * footprint.kept > free:
        raise InputError(
            f"what is kept of {lanes:,} lanes needs {told(lanes * footprint.kept)} of memory, but "
            f"only {told(free)} may be used: keep totals only (keep='totals'), or run fewer seeds "
            "at a time (first_seed= goes on with the next)"
        )
    free -= lanes * footprint.kept
    own = [device_memory(device) for device in devices]

    def room(count: int) -> int:
        # devices with memory of their own have that; the others share what the host has left
        return min(free // count if size is None else size for size in own[:count])

    for count in range(min(lanes, len(devices)), 0, -1):
        fit = _fitting(footprint, batching, room(count), min(most, lanes))
        if fit:
            return _even(lanes, fit, devices[:count])
    other = " or batching='map'," if batching == "vmap" and footprint.state else ""
    raise InputError(
        f"one lane needs {told(footprint.on_device(1, batching))} of memory, but only "
        f"{told(room(1))} of {devices[0]} may be used: take fewer queries, a larger block_size,"
        f"{other} or free some memory"
    )


def run_lanes(
    function: Any, static: Any, shared: tuple[Any, ...], each: tuple[Any, ...], plan: Plan
) -> Iterator[Call]:
    """Run all lanes of a plan, call by call.

    Parameters
    ----------
    function
        Jitted, of the static argument, the shared arguments and then those by lanes; its outputs
        are arrays with the lanes along the first axis.
    static
        Hashable.
    shared
        Pytrees of arrays that all lanes read.
    each
        Arrays with the lanes along the first axis.
    plan
        From `plan_lanes`.
    """
    lanes, size = plan.lanes, plan.at_a_time
    mesh = None
    if plan.devices != (_default_device(),):
        mesh = Mesh(np.asarray(plan.devices), ("lanes",))
        static, function = _Spread(function, static, mesh), _spread
        shared = jax.device_put(shared, NamedSharding(mesh, PartitionSpec()))
    for first in range(0, lanes, size):
        stop = min(first + size, lanes)
        # the last call is filled up with lanes run again, so that all have one shape
        pick = np.minimum(np.arange(first, first + size), lanes - 1)
        some = each if size == lanes else tuple(x[pick] for x in each)
        if mesh is None:
            arguments = (*shared, *some)
        else:
            arguments = (shared, jax.device_put(some, NamedSharding(mesh, PartitionSpec("lanes"))))
        run, seconds = program(function, static, *arguments)
        output = jax.tree.map(np.asarray, run(*arguments))
        yield Call(first, stop, jax.tree.map(lambda x, n=stop - first: x[:n], output), seconds)


class _Spread(NamedTuple):
    """A function of lanes, and the devices over which to spread them."""

    function: Callable[..., Any]
    static: Any
    mesh: Mesh


def _over_devices(how: _Spread, shared: tuple[Any, ...], each: tuple[Any, ...]) -> Any:
    lanes = PartitionSpec("lanes")
    return jax.shard_map(
        lambda shared, each: how.function(how.static, *shared, *each),
        mesh=how.mesh,
        in_specs=(PartitionSpec(), lanes),
        out_specs=lanes,
        check_vma=False,  # a lane's constants, such as empty caches, differ on no device
    )(shared, each)


_spread = jax.jit(_over_devices, static_argnums=0)


def _default_device() -> jax.Device:
    if jax.config.jax_default_device is None:
        return jax.local_devices()[0]
    return next(iter(jnp.zeros(()).devices()))


def _fitting(footprint: Footprint, batching: str, room: int, most: int) -> int:
    """The largest number of lanes up to ``most`` that fit, 0 if none does."""
    first = footprint.on_device(1, batching)
    if first > room:
        return 0
    step = footprint.on_device(2, batching) - first
    return max(1, min(most, 1 + (room - first) // step if step else most))


def _even(lanes: int, fit: int, devices: tuple[jax.Device, ...]) -> Plan:
    """As few calls as possible, as even as possible, on no more devices than these need."""
    calls = -(-lanes // (fit * len(devices)))
    each = -(-lanes // (calls * len(devices)))
    return Plan(lanes, each, devices[: -(-lanes // (calls * each))])
