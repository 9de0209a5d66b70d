"""What a value looks like: the forms that notebooks know, and the names that code expects of them."""

import base64
import importlib
import importlib.machinery
import math
import os
import sys
import traceback
import types

METHODS = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "application/pdf": "_repr_pdf_",
    "text/latex": "_repr_latex_",
    "application/json": "_repr_json_",
    "application/javascript": "_repr_javascript_",
}


FIGURES = set()  # Those that were shown in this piece.


def publish(bundle, main):
    """Set by the context."""


def forms(value):
    """Every form that a value has, by its MIME type."""
    bundle = {"text/plain": plain(value)}
    if isinstance(value, type):
        return bundle
    offered = called(value, "_repr_mimebundle_", include=None, exclude=None)
    if isinstance(offered, dict):
        bundle.update(offered)
    for kind, method in METHODS.items():
        if kind not in bundle and (form := called(value, method)) is not None:
            bundle[kind] = form
    figures, frames = sys.modules.get("matplotlib.figure"), sys.modules.get("pandas")
    if figures is not None and isinstance(value, getattr(figures, "Figure", ())):
        bundle.update(figure_module().forms(value))
        FIGURES.add(id(value))
    if frames is not None and isinstance(value, getattr(frames, "DataFrame", ())):
        bundle["e2b/data"] = columns(value)
    return {kind: encoded(it) for kind, it in bundle.items()}


def called(value, name, **arguments):
    """What a method of a value gives, if it has one that works; without metadata."""
    try:
        method = getattr(value, name, None)
        if method is None or not callable(method):
            return None
        form = method(**arguments)
    except NotImplementedError:
        return None
    except Exception:
        traceback.print_exc()
        return None
    return form[0] if isinstance(form, tuple) and len(form) == 2 else form


def plain(value):
    if isinstance(value, (dict, list, tuple, set, frozenset)):
        text = repr(value)
        if len(text) > 79 and len(text) < 1 << 20:
            try:
                import pprint

                return pprint.pformat(value, sort_dicts=False)
            except Exception:
                pass
        return text
    return repr(value)


def encoded(form):
    return base64.b64encode(form).decode() if isinstance(form, (bytes, bytearray)) else form


def columns(frame):
    """The data of a table, column by column."""
    return {str(name): list(it) for name, it in frame.to_dict(orient="list").items()}


def clean(value, depth=0):
    """The same as what JSON has."""
    if value is None or isinstance(value, (bool, str)):
        return value if not isinstance(value, str) else text(value)
    if depth > 60:
        return text(str(value))
    if isinstance(value, dict):
        return {text(str(key)): clean(it, depth + 1) for key, it in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [clean(it, depth + 1) for it in value]
    if getattr(getattr(value, "dtype", None), "kind", "") == "M":
        value = value.astype("datetime64[us]")
    if hasattr(value, "tolist") and not isinstance(value, (int, float)):
        return clean(value.tolist(), depth + 1)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "isoformat"):
        # A moment that is none has the method, too, but nothing to say.
        return None if value != value else value.isoformat()
    return text(str(value)) if value == value else None


def text(value):
    """Half a character cannot be sent."""
    return value.encode("utf-8", "replace").decode()


def display(*values, raw=False, include=None, exclude=None, metadata=None, **_):
    for value in values:
        bundle = value if raw else forms(value)
        publish({kind: encoded(it) for kind, it in bundle.items()}, False)


def figure_module():
    return importlib.import_module("_bulkhead_figures")


def flush_figures():
    """Figures that are still open at the end are shown."""
    if "matplotlib.pyplot" in sys.modules:
        figure_module().flush(FIGURES)
        FIGURES.clear()


class Shown:
    """Something in one form that is known."""

    kind = "text/plain"

    def __init__(self, data=None, url=None, filename=None, metadata=None, **_):
        if filename is None and isinstance(data, (str, os.PathLike)) and self.is_name(data):
            filename, data = data, None
        self.url, self.filename = url, filename
        if data is None and filename is not None:
            with open(filename, "rb") as file:
                data = file.read()
        if isinstance(data, bytes) and not self.kind.startswith("image/"):
            data = data.decode("utf-8", "replace")
        self.data = data

    def is_name(self, data):
        return isinstance(data, os.PathLike)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {self.kind: self.data}

    def __repr__(self):
        return f"<IPython.core.display.{type(self).__name__} object>"


def kind_of(name, kind):
    return type(name, (Shown,), {"kind": kind})


HTML = kind_of("HTML", "text/html")
Markdown = kind_of("Markdown", "text/markdown")
Latex = kind_of("Latex", "text/latex")
Javascript = kind_of("Javascript", "application/javascript")
JSON = kind_of("JSON", "application/json")
Pretty = kind_of("Pretty", "text/plain")
SVG = kind_of("SVG", "image/svg+xml")


class Math(Latex):
    def __init__(self, data=None, **more):
        super().__init__(f"$\\displaystyle {data.strip('$')}$", **more)


class Code(Shown):
    def __init__(self, data=None, language=None, **more):
        super().__init__(data, **more)
        self.language = language

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/markdown": f"```{self.language or ''}\n{self.data}\n```"}


class IFrame:
    def __init__(self, src, width="100%", height=400, **_):
        self.src, self.width, self.height = src, width, height

    def _repr_html_(self):
        return f'<iframe width="{self.width}" height="{self.height}" src="{self.src}"></iframe>'


class Image(Shown):
    kind = "image/png"

    def __init__(self, data=None, url=None, filename=None, format=None, **more):
        more = {key: it for key, it in more.items() if key in ("metadata",)}
        super().__init__(data, url, filename, **more)
        if isinstance(self.data, bytes) and self.data[:2] == b"\xff\xd8" or format in ("jpeg", "jpg"):
            self.kind = "image/jpeg"
        elif isinstance(self.data, bytes) and self.data[:3] == b"GIF":
            self.kind = "image/gif"

    def is_name(self, data):
        return isinstance(data, os.PathLike) or not data.startswith(("http:", "https:"))

    def _repr_mimebundle_(self, include=None, exclude=None):
        if self.data is None:
            return {"text/html": f'<img src="{self.url}"/>'}
        return {self.kind: self.data}


def clear_output(wait=False):
    """There is nothing to be cleared: what was sent was sent."""


def stand_in():
    """What code expects of a notebook, where there is none."""
    top = types.ModuleType("IPython")
    top.__path__ = []
    top.__version__ = "0.0.0"
    top.get_ipython = lambda: part("magic").SHELL
    face = types.ModuleType("IPython.display")
    names = "HTML Markdown Latex Javascript JSON Pretty SVG Math Code IFrame Image clear_output display"
    for name in names.split():
        setattr(face, name, globals()[name])
    face.publish_display_data = lambda data, *_, **__: publish(
        {kind: encoded(it) for kind, it in data.items()}, False
    )
    core = types.ModuleType("IPython.core")
    core.__path__ = []
    shell = types.ModuleType("IPython.core.getipython")
    shell.get_ipython = top.get_ipython
    core.getipython, core.display = shell, face
    top.display, top.core = face, core
    return {
        "IPython": top,
        "IPython.display": face,
        "IPython.core": core,
        "IPython.core.display": face,
        "IPython.core.getipython": shell,
    }


class Stand:
    """Finds the names of IPython where nobody else does."""

    made = None

    def find_spec(self, name, path=None, target=None):
        if name == "_bulkhead_figures":
            return importlib.machinery.ModuleSpec(name, Figures())
        if name != "IPython" and not name.startswith("IPython."):
            return None
        if self.made is None:
            self.made = stand_in()
        if name not in self.made:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=name in ("IPython", "IPython.core"))

    def create_module(self, spec):
        return self.made[spec.name]

    def exec_module(self, module):
        pass


class Figures:
    """Loads the part of ours that needs Matplotlib."""

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(compile(SCRIPTS["figures"], "<bulkhead figures>", "exec"), module.__dict__)


class AfterImport:
    """Does something to a module that has just been loaded."""

    def __init__(self):
        self.then = {
            "matplotlib": after_matplotlib,
            "PIL.Image": after_pillow,
            "IPython.core.display_functions": after_ipython,
        }

    def find_spec(self, name, path=None, target=None):
        then = self.then.pop(name, None)
        if then is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            self.then[name] = then
            return spec
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            try:
                then(module)
            except Exception:
                traceback.print_exc()

        spec.loader.exec_module = exec_module
        return spec


def after_matplotlib(matplotlib):
    if "MPLBACKEND" not in os.environ:
        matplotlib.use("module://_bulkhead_figures")


def after_pillow(module):
    save = module.Image.save

    def show(image, *_, **__):
        display(image)

    def save_and_show(image, fp, *rest, **more):
        caller = sys._getframe(1).f_globals.get("__name__", "")
        save(image, fp, *rest, **more)
        # Who saves a picture by name wants it to be seen; a library that does has its own ways.
        if isinstance(fp, (str, os.PathLike)) and caller == "__main__":
            display(image)

    module.Image.show, module.Image.save = show, save_and_show


def after_ipython(module):
    module.display = display
    module.publish_display_data = lambda data, *_, **__: publish(
        {kind: encoded(it) for kind, it in data.items()}, False
    )
