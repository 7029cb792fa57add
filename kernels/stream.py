"""What the bandwidth operations do, for all languages: BabelStream's definitions.

write: a = s · copy: c = a · scale: b = s·c · add: c = a + b · triad: a = b + s·c ·
read: sum of a · dot: sum of a·b, with s = 0.375. The two sums leave partial sums in `out`, 1-D of
fp32 or fp64 and any length; the host adds them up. Every call overwrites all of `out`.
"""

from __future__ import annotations

SCALAR = 0.375  # Exact in every format.
# First input, second input, output.
ROLES: dict[str, tuple[str | None, str | None, str]] = {
    "write": (None, None, "a"),
    "copy": ("a", None, "c"),
    "scale": ("c", None, "b"),
    "add": ("a", "b", "c"),
    "triad": ("b", "c", "a"),
    "read": ("a", None, "out"),
    "dot": ("a", "b", "out"),
}
SUMS = ("read", "dot")


def operands(operation: str, arrays: dict) -> tuple:
    """First input, second input and output; a role the operation lacks repeats another array.

    The kernels leave those unread, but a launch wants something in their place.
    """
    first, second, target = ROLES[operation]
    first = first or target
    return arrays[first], arrays[second or first], arrays[target]
