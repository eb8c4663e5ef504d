"""Skill policies and linearizers as ONNX graphs, from the numbers of `ibol.skills.portable`.

Normalisation is inside of them: raw observations (B, n) and latents (B, d) or goals (B, k) go in, the mode comes out.
The goal frame needs no angles here: cosine and sine of the goal direction and of the heading follow from their vectors,
those of half of a turn from those of the turn. (Of a half, which of the two signs does not matter: a quaternion is
turned to the one whose first value is positive.)
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibol.errors import IbolError

OPSET = 17
IR_VERSION = 8
"""Old enough for every runtime since 2022."""
_TINY = 1e-30


def skill_policy_graph(made: Mapping[str, Any]) -> bytes:
    """The skill policy: `observation` and `latent` to `goal`, or without a linearizer to `action`."""
    policy, sizes = made["skill_policy"], made["latent"]["dim"]
    graph = _Graph()
    states = graph.normalized("observation", policy)
    answer = _mode(graph, policy, graph.add("Concat", states, "latent", axis=1))
    if policy["distortion"] == "squeeze_y":
        answer = _squeezed(graph, answer)
    kind, outputs = skill_policy_output(made)
    return graph.finish("skill_policy", {"observation": made["state_dim"], "latent": sizes}, answer, kind, outputs)


def skill_policy_output(made: Mapping[str, Any]) -> tuple[str, int]:
    """What the skill policy answers, and its size."""
    return ("action", made["action_dim"]) if made["linearizer"] is None else ("goal", made["linearizer"]["goal_dim"])


def linearizer_graph(made: Mapping[str, Any]) -> bytes:
    """The linearizer: `observation` and `goal` to `action`."""
    linearizer = made["linearizer"]
    graph = _Graph()
    if linearizer["frame"]["kind"] == "world":
        states = graph.normalized("observation", linearizer["frame"])
        answer = _mode(graph, linearizer, graph.add("Concat", states, "goal", axis=1))
    else:
        answer = _in_goal_frame(graph, linearizer)
    inputs = {"observation": made["state_dim"], "goal": linearizer["goal_dim"]}
    return graph.finish("linearizer", inputs, answer, "action", made["action_dim"])


def _mode(graph: "_Graph", network: Mapping[str, Any], inputs: str) -> str:
    """The mode of a tanh network with one head, or with the two of a Beta distribution."""
    x = inputs
    for layer in network["layers"]:
        x = graph.add("Gemm", x, graph.constant(layer["weight"]), graph.constant(layer["bias"]))
        if network["layer_norm"]:
            ones = graph.constant(np.ones(len(layer["bias"]), np.float32))
            x = graph.add("LayerNormalization", x, ones, axis=-1, epsilon=1e-5)
        x = graph.add("Tanh", x)
    raw = [
        graph.add("Gemm", x, graph.constant(head["weight"]), graph.constant(head["bias"])) for head in network["heads"]
    ]
    if len(raw) == 1:
        return graph.add("Tanh", raw[0])
    above, below = (graph.add("Add", graph.add("Softplus", value), graph.constant(0.05)) for value in raw)
    return graph.add("Div", graph.add("Sub", above, below), graph.add("Add", above, below))


def _squeezed(graph: "_Graph", goals: str) -> str:
    """The distortion `squeeze_y`: the length of the goal's x-y part stays, its direction nears the x axis."""
    plane, others = graph.columns(goals, 0, 2), graph.columns(goals, 2, None)
    squeezed = graph.add("Mul", plane, graph.constant([1.0, 0.2]))
    radius, length = (graph.add("ReduceL2", value, axes=[1], keepdims=1) for value in (plane, squeezed))
    scale = graph.add("Div", radius, graph.add("Max", length, graph.constant(1e-12)))
    return graph.add("Concat", graph.add("Mul", squeezed, scale), others, axis=1)


def _in_goal_frame(graph: "_Graph", linearizer: Mapping[str, Any]) -> str:
    """The world is turned until the goal points along x, and the legs renamed so that the robot heads that way."""
    frame, k = linearizer["frame"], linearizer["goal_dim"]
    asked = graph.add("Div", "goal", graph.constant(frame["goal_std"][:k]))
    direction = graph.unit(graph.column(asked, 0), graph.column(asked, 1))
    heading = _heading(graph, frame["heading"])
    # A renaming turns the goal direction and leaves the heading; the one that leaves the least angle is chosen.
    apart = graph.turned(heading, direction, -1)
    cos, sin = (graph.constant(function(frame["angles"])) for function in (np.cos, np.sin))  # (G,)
    near = graph.add("Add", graph.add("Mul", apart[0], cos), graph.add("Mul", apart[1], sin))  # (B, G)
    which = graph.add("ArgMax", near, axis=1, keepdims=0)  # (B,)
    renaming = (
        graph.add("Gather", graph.constant(np.cos(frame["angles"])[:, None]), which, axis=0),  # (B, 1)
        graph.add("Gather", graph.constant(np.sin(frame["angles"])[:, None]), which, axis=0),
    )
    back = graph.turned(direction, renaming, 1)
    turn = back[0], graph.add("Neg", back[1])
    half = _half(graph, turn, "observation" if frame["heading"] is None else None)
    view = _View(graph, frame, which, turn, half)
    states = graph.normalized(view.show("observation", len(frame["mean"])), frame)
    if (
        place := frame["heading"]
    ) is not None:  # of the heading networks see cosine and sine, in the place of the location
        seen = graph.turned(heading, turn, 1)
        zero = graph.add("Mul", seen[0], graph.constant(0.0))
        states = graph.add(
            "Concat", *seen, *([graph.columns(states, 2, place)] if place > 2 else []), zero,
            graph.columns(states, place + 1, None), axis=1,
        )  # fmt: skip
    goals = graph.add("Mul", view.show(asked, k), graph.constant(frame["std"][:k]))
    answer = _mode(graph, linearizer, graph.add("Concat", states, goals, axis=1))
    order = graph.add("Gather", graph.whole(frame["action_from"]), which, axis=0)
    sign = graph.add("Gather", graph.constant(frame["action_sign"]), which, axis=0)
    return graph.add("Mul", graph.add("GatherElements", answer, order, axis=1), sign)


def _heading(graph: "_Graph", place: int | None) -> tuple[str, str]:
    """Cosine and sine of the robot's heading, each (B, 1)."""
    if place is not None:
        angle = graph.column("observation", place)
        return graph.add("Cos", angle), graph.add("Sin", angle)
    half = graph.unit(graph.column("observation", 3), graph.column("observation", 6))
    return graph.turned(half, half, 1)


def _half(graph: "_Graph", turn: tuple[str, str], states: str | None) -> tuple[str, str]:
    """Cosine and sine of half of a turn, with the sign that makes the first value of a turned quaternion positive.

    Without quaternions (no `states`) the sign does not matter.
    """
    cos, sin = turn
    one, half, zero = (graph.constant(value) for value in (1.0, 0.5, 0.0))
    # The larger of both from a root, the other one from the sine, so that nothing is lost near half a turn.
    is_small = graph.add("GreaterOrEqual", cos, zero)
    larger = graph.add("Sqrt", graph.add("Mul", half, graph.add("Add", one, graph.add("Abs", cos))))
    other = graph.add("Div", graph.add("Mul", half, sin), larger)
    half_cos = graph.add("Where", is_small, larger, other)
    half_sin = graph.add("Where", is_small, other, larger)
    if states is None:
        return half_cos, half_sin
    w, z = graph.column(states, 3), graph.column(states, 6)
    is_negative = graph.add("Less", graph.add("Mul", half_cos, w), graph.add("Mul", half_sin, z))
    sign = graph.add("Where", is_negative, graph.constant(-1.0), one)
    return graph.add("Mul", sign, half_cos), graph.add("Mul", sign, half_sin)


class _View:
    """How raw values are renamed and turned."""

    def __init__(
        self, graph: "_Graph", frame: Mapping[str, Any], which: str, turn: tuple[str, str], half: tuple[str, str]
    ) -> None:
        self.graph, self.frame, self.which = graph, frame, which
        self.turns = (turn, half)

    def show(self, values: str, width: int) -> str:
        """Raw values (B, width), the first of a state, renamed and turned."""
        graph = self.graph
        source = np.asarray(self.frame["renamings"])[:, :width]  # (G, width)
        index = graph.add("Gather", graph.whole(np.abs(source) - 1), self.which, axis=0)
        sign = graph.add("Gather", graph.constant(np.sign(source)), self.which, axis=0)
        moved = graph.add("Mul", graph.add("GatherElements", values, index, axis=1), sign)
        pairs = [(a, b, half) for a, b, half in self.frame["pairs"] if b < width]
        partner, kept = np.arange(width), np.ones(width)
        along, across = np.zeros((2, width)), np.zeros((2, width))  # by the turn, and by half of it
        for a, b, half in pairs:
            partner[[a, b]], kept[[a, b]] = [b, a], 0
            along[half, [a, b]], across[half, [a, b]] = 1, [-1, 1]
        straight = graph.combined(graph.constant(kept[None]), [cos for cos, _ in self.turns], along)
        sideways = graph.combined(None, [sin for _, sin in self.turns], across)
        other = graph.add("Gather", moved, graph.whole(partner), axis=1)
        return graph.add("Add", graph.add("Mul", moved, straight), graph.add("Mul", other, sideways))


class _Graph:
    """An ONNX graph that grows by one operation at a time; values are named by strings."""

    def __init__(self) -> None:
        self._onnx = _onnx()
        self._nodes: list[Any] = []
        self._constants: dict[tuple[Any, ...], Any] = {}

    def add(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """The name of what an operation gives."""
        name = f"{operation.lower()}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operation, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, values: ArrayLike) -> str:
        """Numbers."""
        return self._keep(np.asarray(values, np.float32))

    def whole(self, values: ArrayLike) -> str:
        """Whole numbers, for indices."""
        return self._keep(np.asarray(values, np.int64))

    def _keep(self, values: NDArray[Any]) -> str:
        key = (values.dtype.str, values.shape, values.tobytes())
        if key not in self._constants:
            tensor = self._onnx.numpy_helper.from_array(np.ascontiguousarray(values).reshape(values.shape))
            tensor.name = f"constant_{len(self._constants)}"
            self._constants[key] = tensor
        return str(self._constants[key].name)

    def column(self, values: str, number: int) -> str:
        """One column (B, 1) of (B, n)."""
        return self.columns(values, number, number + 1)

    def columns(self, values: str, start: int, end: int | None) -> str:
        """Some columns of (B, n)."""
        stop = np.iinfo(np.int64).max if end is None else end
        return self.add("Slice", values, *(self.whole([number]) for number in (start, stop, 1)))

    def normalized(self, states: str, by: Mapping[str, Any]) -> str:
        """((states - mean) / std) * keep."""
        centred = self.add("Sub", states, self.constant(by["mean"]))
        return self.add("Mul", self.add("Div", centred, self.constant(by["std"])), self.constant(by["keep"]))

    def unit(self, x: str, y: str) -> tuple[str, str]:
        """Cosine and sine of the direction of vectors, 1 and 0 where there is none."""
        length = self.add("Sqrt", self.add("Add", self.add("Mul", x, x), self.add("Mul", y, y)))
        exists = self.add("Greater", length, self.constant(_TINY))
        divisor = self.add("Max", length, self.constant(_TINY))
        cos = self.add("Where", exists, self.add("Div", x, divisor), self.constant(1.0))
        return cos, self.add("Where", exists, self.add("Div", y, divisor), self.constant(0.0))

    def turned(self, angle: tuple[str, str], by: tuple[str, str], sign: int) -> tuple[str, str]:
        """Cosine and sine of the sum (sign 1) or the difference (-1) of two angles that are given by theirs."""
        products = [self.add("Mul", a, b) for a in angle for b in by]
        first, second = ("Sub", "Add") if sign > 0 else ("Add", "Sub")
        return self.add(first, products[0], products[3]), self.add(second, products[2], products[1])

    def combined(self, start: str | None, factors: Sequence[str], rows: NDArray[np.floating]) -> str:
        """The sum (B, n) of `start` (1, n) and of factors (B, 1) times rows (n,)."""
        total = start
        for factor, row in zip(factors, rows, strict=True):
            if row.any():
                product = self.add("Mul", factor, self.constant(row[None]))
                total = product if total is None else self.add("Add", total, product)
        assert total is not None
        return total

    def finish(self, name: str, inputs: Mapping[str, int], answer: str, output: str, width: int) -> bytes:
        """The checked model as bytes; all inputs and the output are float32 with a batch of any size."""
        helper = self._onnx.helper
        self._nodes.append(helper.make_node("Identity", [answer], [output], name=output))
        kind = self._onnx.TensorProto.FLOAT

        def value(named: str, size: int) -> Any:
            return helper.make_tensor_value_info(named, kind, ["batch", size])

        graph = helper.make_graph(
            self._nodes, name, [value(*one) for one in inputs.items()], [value(output, width)],
            initializer=list(self._constants.values()),
        )  # fmt: skip
        model = helper.make_model(
            graph, producer_name="ibol", opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
        )
        self._onnx.checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString(deterministic=True))


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError:
        raise IbolError(
            "ONNX graphs are written with the package onnx: pip install 'ibol[onnx]', or choose --format npz"
        ) from None
    return onnx
