"""Loads the files of a lab as modules, from their text: the one way student code comes in.

Worker, debugger, chat and notebooks all use :class:`StudentModules`, so that
``from attention import Qwen3Attention`` means the same everywhere, and no file that lies
beside a hand-in (a ``torch.py``, say) can ever be imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import linecache
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from errno import ENOENT
from functools import lru_cache
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

COURSE = "AUTOGRADER_COURSE"


def course() -> Path:
    """The folder of the course: what holds ``labs``.

    The one that ``AUTOGRADER_COURSE`` names; else the folder that one is in, or the nearest one
    above it, with a lab or with both ``labs`` and ``solutions``; else that of this grader; else
    wherever Python finds ``labs``.

    Raises:
        FileNotFoundError: there is none.
    """
    if given := os.environ.get(COURSE):
        if not Path(given).is_dir():
            text = f"no such folder, though --course or {COURSE} names it"
            raise FileNotFoundError(ENOENT, text, given)
        os.environ[COURSE] = str(Path(given).resolve())  # for processes elsewhere
        return Path(given).resolve()
    with suppress(OSError):  # the folder may be gone
        present = Path.cwd()
        for folder in (present, *present.parents):
            begun = (folder / "labs").is_dir() and (folder / "solutions").is_dir()
            if begun or any(folder.glob("labs/*/lab.toml")):
                return folder
    here = Path(__file__).resolve().parents[2]
    if (here / "labs").is_dir():
        return here
    found = importlib.util.find_spec("labs")
    if found is None or found.origin is None:
        what = "no labs here: run this in the folder of the course (after make setup)"
        raise FileNotFoundError(ENOENT, what)
    return Path(found.origin).resolve().parents[1]


_ROOT = course()


@lru_cache(maxsize=16)  # where one process runs several hand-ins, they have files in common
def _compiled(text: str, path: str) -> CodeType:
    return compile(text, path, "exec", dont_inherit=True)


def lines_of(text: str) -> list[str]:
    """Lines with their ends, as Python counts them: a form feed or U+2028 ends none."""
    return io.StringIO(text, newline=None).readlines()


class _Loader(InspectLoader):
    """Runs one compiled source; ``compile`` happens once, ``exec`` once per namespace.

    ``forget`` is told the name of a module that could not be run to its end.
    """

    def __init__(self, path: str, text: str, forget: Callable[[str], None]) -> None:
        self.path = path
        self._text, self._forget = text, forget
        self.ran = self.failed_again = False  # to its end, and not so when it ran once more

    def get_source(self, fullname: str) -> str:
        return self._text

    def get_code(self, fullname: str) -> CodeType:
        return _compiled(self._text, self.path)

    def is_package(self, fullname: str) -> bool:
        return False

    def exec_module(self, module: ModuleType) -> None:
        try:
            exec(self.get_code(module.__name__), module.__dict__)
        except BaseException:
            self.failed_again |= self.ran
            self._forget(module.__name__)
            raise
        self.ran = True


class _Spec(ModuleSpec):
    """The spec of a file of a hand-in: relative imports in it begin at the lab's folder."""

    folder = ""

    @property
    def parent(self) -> str:
        return self.folder


class _Alias(Loader):
    """Gives a module of the hand-in a second name: ``labs.<lab>.attention`` is ``attention``."""

    def __init__(self, module: Callable[[], ModuleType]) -> None:
        self._module = module

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = self._module()


class StudentModules(MetaPathFinder):
    """The modules of one hand-in: importable by plain name, from beside, and as ``labs.<lab>.x``.

    Args:
        sources: text of each file by name (``{"attention.py": "…"}``).
        paths: the path shown in tracebacks, by file name; the name itself by default.
        lab: the name of the lab's folder; that of the folder in ``paths`` by default.
    """

    def __init__(
        self, sources: Mapping[str, str], paths: Mapping[str, str] | None = None, lab: str = ""
    ) -> None:
        lab = lab or next((Path(path).parent.name for path in (paths or {}).values()), "")
        # Files import each other from beside also where nobody knows the lab.
        self._folder = f"labs.{lab if lab.isidentifier() and lab != 'given' else 'hand_in'}"
        self._loaders: dict[str, _Loader] = {}
        self.files: dict[str, str] = {}  # shown path -> file name
        for name, text in sources.items():
            path = (paths or {}).get(name, name)
            # Tracebacks and inspect.getsource find the text here, not on disk.
            linecache.cache[path] = (len(text), None, lines_of(text), path)
            self._loaders[name.removesuffix(".py")] = _Loader(path, text, self._forget)
            self.files[path] = name

    def install(self) -> StudentModules:
        """Put the modules in front of everything else that can be imported."""
        sys.meta_path.insert(0, self)
        return self

    def remove(self) -> None:
        """Undo :meth:`install`."""
        self.fresh()
        sys.meta_path.remove(self)

    def fresh(self) -> None:
        """Forget the modules: the next import runs their code again, in new namespaces."""
        for name in self._loaders:
            self._forget(name)

    @property
    def failed_again(self) -> bool:
        """Return whether a file raised that had run to its end in this process before.

        Some code runs once in a process: what sets a number of threads, or registers an operator.
        """
        return any(loader.failed_again for loader in self._loaders.values())

    def _forget(self, name: str) -> None:
        sys.modules.pop(name, None)
        sys.modules.pop(f"{self._folder}.{name}", None)
        # `from . import mlp` asks the package first.
        getattr(sys.modules.get(self._folder), "__dict__", {}).pop(name, None)

    def module(self, file: str) -> ModuleType:
        """Import the module of ``file`` (or take it, if it is imported already)."""
        name = file.removesuffix(".py")
        module = sys.modules.get(name)
        if module is None:
            # What importlib does, at a fifth of the price: this runs for every check.
            loader = self._loaders.get(name)
            if loader is None:
                return importlib.import_module(name)  # raises what Python raises
            module = ModuleType(name)
            module.__file__, module.__loader__ = loader.path, loader
            module.__spec__, module.__package__ = self.find_spec(name, None), self._folder
            sys.modules[name] = module
            loader.exec_module(module)
        return module

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: Any = None
    ) -> ModuleSpec | None:
        """Answer Python's question for a module, if it is one of ours."""
        if fullname == self._folder:  # it holds our files, and on a disk that is read its checks
            found = PathFinder.find_spec(fullname, path)
            return found or ModuleSpec(fullname, None, is_package=True)
        name = fullname.removeprefix(f"{self._folder}.")
        own = self._loaders.get(name)
        if own is None:
            return None
        loader = own if name == fullname else _Alias(lambda: self.module(name))
        spec = _Spec(fullname, loader, origin=own.path)
        spec.folder, spec.has_location = self._folder, True
        return spec


def read_sources(folder: Path, files: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Text and shown path of a lab's files in a folder; absent files are left out."""
    present = [name for name in files if (folder / name).is_file()]
    return (
        {name: (folder / name).read_text(encoding="utf-8-sig") for name in present},
        {name: str(folder / name) for name in present},
    )


# Folders that a lab lets student code read: copied to where a worker without rights can.
#
# A clone may lie in a home that nobody else may enter, and a worker runs as nobody. So the few
# small folders that ``lab.toml`` lists are copied before workers start, and only the copy is on
# their list. In process (debugging, building) the folders are read where they are.

_base = [_ROOT]


def copied(folders: Sequence[str]) -> tempfile.TemporaryDirectory[str] | None:
    """A copy of these folders (paths inside the project) that everybody may read, nobody write.

    Returns:
        The temporary directory, to be removed by its owner; None for no folders.
    """
    if not folders:
        return None
    # The system's own, not TMPDIR: that one may be private.
    base = Path("/tmp") if Path("/tmp").is_dir() else None
    made = tempfile.TemporaryDirectory(prefix="qwen3-labs-", dir=base)
    for folder in folders:
        shutil.copytree(_ROOT / folder, Path(made.name) / folder, copy_function=shutil.copyfile)
    for path in (Path(made.name), *Path(made.name).rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o444)
    return made


def hold(base: Path) -> None:
    """From now on folders lie under ``base``: what :func:`copied` made."""
    _base[0] = base


def without_base(text: str) -> str:
    """A text in which listed folders go by their path inside the project, wherever they lie."""
    return text.replace(f"{_base[0]}/", "")


def path_of(folder: str) -> str:
    """The path under which a listed folder can be read in this process."""
    return str(_base[0] / folder)
