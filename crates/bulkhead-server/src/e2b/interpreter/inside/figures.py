"""Figures of Matplotlib: a backend that shows them, and the data that is drawn in them."""

import io
import re
import sys

from matplotlib import category, collections, dates, lines, patches
from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase, _Backend
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.ticker import FixedFormatter

import _bulkhead_display as shown


class Manager(FigureManagerBase):
    def show(self):
        shown.display(self.canvas.figure)
        Gcf.destroy(self.num)


class Canvas(FigureCanvasAgg):
    manager_class = Manager


def show(*_, **__):
    """Shows every figure that is open, and closes it."""
    flush(set())


def flush(already):
    """The same, but for figures that were shown in another way."""
    try:
        for manager in Gcf.get_all_fig_managers():
            figure = manager.canvas.figure
            if id(figure) not in already and figure.get_children()[1:]:
                shown.display(figure)
    finally:
        Gcf.destroy_all()


@_Backend.export
class Shown(_Backend):
    FigureCanvas = Canvas
    FigureManager = Manager
    show = staticmethod(show)


# The name that was just exported is the same function with another first argument.
sys.modules[__name__].show = show


def forms(figure):
    """The picture, and what is drawn in it."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", bbox_inches="tight")
    bundle = {"image/png": picture.getvalue()}
    try:
        chart = drawn(figure)
    except Exception:
        # A figure may be anything; its picture is there all the same.
        chart = None
    if chart is not None:
        bundle["e2b/chart"] = chart
    return bundle


def drawn(figure):
    axes = [it for it in figure.axes if artists(it)]
    if len(axes) == 1:
        return chart(axes[0])
    if not axes:
        return None
    title = figure._suptitle.get_text() if getattr(figure, "_suptitle", None) else None
    return {"type": "superchart", "title": title, "elements": [chart(it) for it in axes]}


def artists(axes):
    """What stands for data: neither texts nor lines across the whole of the axes."""
    found = []
    for it in [*axes.patches, *axes.collections, *axes.lines, *axes.images, *axes.artists]:
        across = isinstance(it, lines.Line2D) and it.get_transform() != axes.transData
        if not across and it not in found:
            found.append(it)
    return found


def chart(axes):
    found = artists(axes)

    def all_are(kind):
        return all(isinstance(it, kind) for it in found)

    if boxes := box_plot(found):
        return flat(axes, "box_and_whisker", boxes, axes)
    if all_are(lines.Line2D):
        return points(axes, "line", [line(it, n) for n, it in enumerate(found)])
    if all_are(collections.PathCollection):
        return points(axes, "scatter", [cloud(it, n) for n, it in enumerate(found)])
    if all_are(patches.Wedge):
        return {"type": "pie", "title": title(axes), "elements": [slice_of(it) for it in found]}
    if all_are(patches.Rectangle) and axes.containers:
        return bars(axes)
    return {"type": "unknown", "title": title(axes), "elements": []}


def title(axes):
    return axes.get_title() or axes.get_title("left") or axes.get_title("right") or None


def unit(label):
    found = re.search(r"\s\((.*?)\)|\[(.*?)\]", label or "")
    return (found[1] or found[2]) if found else None


def flat(axes, kind, elements, labelled=None, swapped=False):
    x, y = axes.get_xlabel() or None, axes.get_ylabel() or None
    if swapped:
        x, y = y, x
    labels = {"x_label": x, "y_label": y, "x_unit": unit(x), "y_unit": unit(y)}
    if labelled is not None:
        elements, swapped = elements
        names = [it.get_text() for it in (axes.get_yticklabels() if swapped else axes.get_xticklabels())]
        elements = [{"label": name, **it} for name, it in zip(names + [""] * len(elements), elements)]
        return flat(axes, kind, elements, None, swapped)
    return {"type": kind, "title": title(axes), **labels, "elements": elements}


def points(axes, kind, elements):
    described = flat(axes, kind, elements)
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        ticks = axis.get_ticklocs()
        texts = [it.get_text() for it in axis.get_ticklabels()]
        scale = scale_of(axis, ticks, texts)
        if scale == "datetime":
            ticks = [dates.num2date(it).isoformat() for it in ticks]
        else:
            ticks = [float(it) for it in ticks]
        described.update({f"{name}_ticks": ticks, f"{name}_tick_labels": texts, f"{name}_scale": scale})
    return described


def scale_of(axis, ticks, texts):
    locator = axis.get_major_locator()
    if isinstance(locator, dates.DateLocator):
        return "datetime"
    if isinstance(locator, category.StrCategoryLocator):
        return "categorical"
    if axis.get_scale() != "linear":
        return axis.get_scale()
    named = len(ticks) > 0 and all(
        tick == number and text != str(number) and not text.replace(".", "").isdigit()
        for number, (tick, text) in enumerate(zip(ticks, texts))
    )
    return "categorical" if named else "linear"


def named(artist, word, number):
    label = str(artist.get_label())
    return f"{word} {number}" if label.startswith("_") else label


def line(it, number):
    pairs = zip(values(it.get_xdata(orig=True)), values(it.get_ydata(orig=True)))
    return {"label": named(it, "Line", number), "points": [list(pair) for pair in pairs]}


def cloud(it, number):
    pairs = [[float(x), float(y)] for x, y in it.get_offsets()]
    return {"label": named(it, "Series", number), "points": pairs}


def values(data):
    return shown.clean(list(data) if not hasattr(data, "tolist") else data)


def slice_of(wedge):
    angle = round(abs(float(wedge.theta2) - float(wedge.theta1)), 3)
    return {"label": str(wedge.get_label()), "angle": angle, "radius": float(wedge.r)}


def bars(axes):
    elements, swapped = [], False
    for number, container in enumerate(axes.containers):
        label = str(container.get_label())
        group = f"Group {number}" if label.startswith("_") else label
        bars = [it for it in container if isinstance(it, patches.Rectangle)]
        orientation = getattr(container, "orientation", None)
        heights = {it.get_height() for it in bars}
        lying = orientation == "horizontal" or (orientation is None and len(heights) == 1)
        swapped = swapped or lying
        axis = axes.yaxis if lying else axes.xaxis
        # Numbers along the axis are no names of bars.
        words = isinstance(axis.get_major_formatter(), (category.StrCategoryFormatter, FixedFormatter))
        ticks = list(zip(axis.get_ticklocs(), (it.get_text() for it in axis.get_ticklabels())))
        for bar in bars:
            size = bar.get_height() if lying else bar.get_width()
            middle = (bar.get_y() if lying else bar.get_x()) + size / 2
            value = bar.get_width() if lying else bar.get_height()
            near = min(ticks, key=lambda it: abs(it[0] - middle), default=None)
            at_tick = words and near is not None and abs(near[0] - middle) <= abs(size)
            name = near[1] if at_tick else f"{middle:g}"
            elements.append({"label": name, "group": group, "value": float(value)})
    return flat(axes, "bar", elements, swapped=swapped)


def box_plot(found):
    """Boxes with their whiskers, and whether they lie; nothing if that is not what is drawn."""
    frames, rest = [], []
    for it in found:
        if isinstance(it, patches.PathPatch):
            frames.append(it.get_path().vertices)
        elif isinstance(it, lines.Line2D) and closed(it):
            frames.append(it.get_xydata())
        elif isinstance(it, lines.Line2D):
            rest.append(it)
        else:
            return None
    if not frames:
        return None
    for lying in (False, True):
        boxes = [box(it, rest, lying) for it in frames]
        if all(boxes):
            return boxes, lying
    return None


def closed(it):
    data = it.get_xydata()
    return len(data) == 5 and (data[0] == data[4]).all()


def box(frame, rest, lying):
    along, across = (0, 1) if lying else (1, 0)
    low, high = rounded(frame[:, along].min()), rounded(frame[:, along].max())
    left, right = frame[:, across].min(), frame[:, across].max()
    found = {"min": low, "max": high, "outliers": []}
    for it in rest:
        data = it.get_xydata()
        if not len(data) or not all(left - 1e-9 <= at <= right + 1e-9 for at in data[:, across]):
            continue
        ends = [rounded(at) for at in data[:, along]]
        if it.get_linestyle() in ("None", " ", "") or len(ends) == 1:
            found["outliers"] += ends
        elif len(ends) == 2 and ends[0] == ends[1]:
            if low <= ends[0] <= high and data[0, across] != data[1, across]:
                found.setdefault("median", ends[0])
        elif len(ends) == 2 and max(ends) == low:
            found["min"] = min(ends)
        elif len(ends) == 2 and min(ends) == high:
            found["max"] = max(ends)
    if "median" not in found:
        return None
    return {**found, "first_quartile": low, "third_quartile": high}


def rounded(value):
    return float(f"{float(value):.10g}")
