"""A comparison as text: one table a topic, kinds of number told apart, reasons as footnotes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from pymicro.analysis.compare import Comparison
from pymicro.analysis.figures import Figure, Line, Ratio
from pymicro.report.terminal import Terminal
from pymicro.units import binary_bytes, si

# An interval as wide as this is shown by its ends: a half width would say little.
_WIDE = 0.5


class Footnotes:
    """Sentences with numbers; the same sentence has the same number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def marks(self, sentences: Sequence[str]) -> str:
        numbers = [self._numbers.setdefault(s, len(self._numbers) + 1) for s in sentences]
        return "".join(f" [{n}]" for n in dict.fromkeys(numbers))

    def lines(self) -> list[str]:
        return [f"[{number}] {text}" for text, number in self._numbers.items()]


def show(found: Comparison, with_sources: bool = False, terminal: Terminal | None = None) -> None:
    """Print tables, then what is missing, then where the figures come from."""
    terminal = terminal or Terminal()
    for said in heading(found):
        terminal.say(said)
    for topic in topics(found):
        terminal.say(f"\n{topic}")
        _show_topic(found, topic, terminal)
    for said in endings(found, with_sources):
        terminal.say(said)


def _show_topic(found: Comparison, topic: str, terminal: Terminal) -> None:
    notes = Footnotes()
    titles, rows = table(found, topic, notes)
    numbers = set(range(2, len(titles)))
    if _width(titles, rows, numbers) <= terminal.width:
        terminal.table(titles, rows, numbers)
    else:
        for kind, what, *cells in rows:
            terminal.say(f"{kind}: {what}")
            for text in _tall([s.name for s in found.subjects], cells, rows):
                terminal.say(text)
    for line in (*definitions(found, topic), *notes.lines()):
        terminal.say(line)


def _tall(names: list[str], cells: list[str], rows: list[list[str]]) -> list[str]:
    """A line a subject, for narrow screens; widths are those of all rows, so that they align."""
    pairs = [(cells[0], ""), *zip(cells[1::2], cells[2::2], strict=True)]
    widest = max(len(c) for row in rows for c in (row[2], *row[3::2]))
    longest = max(map(len, names))
    return [
        f"  {name:{longest}}  {figure:>{widest}}  {ratio}".rstrip()
        for name, (figure, ratio) in zip(names, pairs, strict=True)
    ]


def definitions(found: Comparison, topic: str) -> list[str]:
    """What the published quantities of a topic count."""
    said = {
        line.what.split(";")[0].split(", sums")[0]: line.definition
        for line in found.lines
        if line.topic == topic and line.definition
    }
    return [f"{name}: {text}." for name, text in said.items()]


def render(found: Comparison, format_: str, with_sources: bool = False) -> str:
    """The comparison in one of the machine's or document's formats."""
    from pymicro.report import comparison_data

    if format_ == "table":
        out = io.StringIO()
        show(found, with_sources, Terminal(out, width=200))
        return out.getvalue()
    if format_ == "markdown":
        return _markdown(found, with_sources)
    return comparison_data.as_json(found) if format_ == "json" else comparison_data.as_csv(found)


def heading(found: Comparison) -> Iterator[str]:
    first, *others = (s.name for s in found.subjects)
    yield f"{first} against {' and '.join(others)}. Ratios: {first} over the other."
    yield from (s.note for s in found.subjects if s.note)
    yield from (f"warning: {said}" for said in found.findings)


def topics(found: Comparison) -> list[str]:
    return list(dict.fromkeys(line.topic for line in found.lines))


def table(found: Comparison, topic: str, notes: Footnotes) -> tuple[list[str], list[list[str]]]:
    """Titles and cells of one topic."""
    first, *others = found.subjects
    titles = ["kind", "quantity", first.name]
    for other in others:
        titles += [other.name, "ratio" if len(others) == 1 else f"{first.name} / {other.name}"]
    rows = [_row(line, notes) for line in found.lines if line.topic == topic]
    return titles, rows


# A column of words is still read well at this width.
_NARROWEST_WORDS = 30


def _width(titles: Sequence[str], rows: Sequence[Sequence[str]], numbers: set[int]) -> int:
    """Characters that a table needs: numbers in full, words folded."""
    columns = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    needed = (w if i in numbers else min(w, _NARROWEST_WORDS) for i, w in enumerate(columns))
    return sum(needed) + len(columns)


def _row(line: Line, notes: Footnotes) -> list[str]:
    what = line.what + (" (less is better)" if line.better == "less" else "")
    first, *others = line.figures
    cells = [line.kind, what, _figure(line, first, notes)]
    reasons = notes.marks([*line.why_not, *line.notes])
    for place, other in enumerate(others):
        last = reasons if place == len(others) - 1 else ""
        cells += [_figure(line, other, notes), ratio_text(line.ratios[place]) + last]
    return cells


def _figure(line: Line, figure: Figure | None, notes: Footnotes) -> str:
    text = figure_text(line, figure)
    return text if figure is None else text + notes.marks(figure.notes)


def figure_text(line: Line, figure: Figure | None) -> str:
    """`3.352 TB/s`; `921.3 to 929.8 GB/s (2)`; `655.2 TFLOP/s ±0.4 %`."""
    if figure is None:
        return "-"
    if line.unit == "B":
        return binary_bytes(int(figure.value))
    if line.kind == "measured":
        half = (figure.high - figure.low) / 2 / figure.value
        if half < _WIDE:
            return f"{_si(figure.value, line.unit)} ±{100 * half:.1f} %"
    elif figure.low == figure.high:
        return _si(figure.value, line.unit) + (f" ({figure.count})" if figure.count > 1 else "")
    low, high = _si(figure.low, line.unit), _si(figure.high, line.unit)
    if low.split()[-1] == high.split()[-1]:
        low = low.split()[0]
    return f"{low} to {high} ({figure.count})"


def _si(value: float, unit: str) -> str:
    if unit in ("W", ""):
        return f"{value:g} {unit}".strip()
    if unit in ("B/s", "FLOP/s", "OP/s", "FLOP/J", "s"):
        return si(value, unit)
    return f"{value:.4g} {unit}"


def ratio_text(ratio: Ratio | None) -> str:
    if ratio is None:
        return "-"
    text = f"{ratio.value:.2f}"
    if f"{ratio.low:.2f}" != f"{ratio.high:.2f}":
        text += f" ({ratio.low:.2f}-{ratio.high:.2f})"
    return text + (" unlike" if ratio.forced else "")


def endings(found: Comparison, with_sources: bool) -> Iterator[str]:
    """What is missing, what had no counterpart, and the sources."""
    yield ""
    yield from found.absent
    yield from found.unmatched
    if any(line.kind == "data sheet" for line in found.lines):
        yield "Data sheet: dense rates at the vendor's clock, decimal GB; sizes in MiB and GiB."
    published = {s for line in found.lines for s in _ids(line)}
    if published:
        yield "Published, range and count of figures; one direction's bytes counted once."
    if with_sources:
        yield from sources(found)
    elif published:
        yield f"From {', '.join(sorted(published))}; --sources tells each figure's."


def _ids(line: Line) -> Iterator[str]:
    if line.kind == "published":
        yield from (s for f in line.figures if f for s in f.sources)


def sources(found: Comparison) -> Iterator[str]:
    """Where every number on the screen comes from."""
    from pymicro.devices.published import sources as known

    for line in found.lines:
        for subject, figure in zip(found.subjects, line.figures, strict=True):
            for origin in (
                figure.origin[:1]
                if figure and line.kind == "data sheet"
                else (figure.origin if figure else ())
            ):
                yield f"{line.topic}, {line.kind}, {line.what}, {subject.name}: {origin}"
    for subject in found.subjects:
        if subject.spec is not None:
            links = (*getattr(subject.spec, "vendor_documents", ()), *subject.spec.sources)
            yield f"data sheet of {subject.name}: {', '.join(links) or 'no source is kept'}"
    for name in sorted({s for line in found.lines for s in _ids(line)}):
        s = known()[name]
        read = "" if s.primary else "; read in a quotation"
        told = ". ".join(filter(None, (s.hardware, s.software, s.caveats)))
        yield f"{name}: {s.title} ({s.year}), {s.url}{read}. {told}"


def _markdown(found: Comparison, with_sources: bool) -> str:
    lines = list(heading(found))
    for topic in topics(found):
        notes = Footnotes()
        titles, rows = table(found, topic, notes)
        lines += ["", f"## {topic}", "", "| " + " | ".join(titles) + " |"]
        lines.append("|" + "|".join("---:" if i > 1 else "---" for i in range(len(titles))) + "|")
        lines += ["| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in rows]
        lines += ["", *(f"- {x}" for x in (*definitions(found, topic), *notes.lines()))]
    lines += ["", *(f"- {said}" for said in endings(found, with_sources) if said)]
    return "\n".join(lines) + "\n"
