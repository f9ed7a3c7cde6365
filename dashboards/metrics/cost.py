"""How many series a family has: a formula of whole numbers and names, such as `lanes * (routes + 1)`."""

import ast
import operator
from collections.abc import Mapping

_OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def names(formula: str) -> set[str]:
    """What the formula depends on."""
    return {node.id for node in ast.walk(ast.parse(formula)) if isinstance(node, ast.Name)}


def series(formula: str, figures: Mapping[str, int]) -> int:
    """The number that the formula comes to."""
    return _value(ast.parse(formula, mode="eval").body, figures)


def _value(node: ast.expr, figures: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name) if name in figures:
            return figures[name]
        case ast.BinOp(left, operation, right) if type(operation) in _OPERATIONS:
            sides = _value(left, figures), _value(right, figures)
            return _OPERATIONS[type(operation)](*sides)
    raise ValueError(f"no formula of known names, numbers, +, - and *: {ast.unparse(node)}")
