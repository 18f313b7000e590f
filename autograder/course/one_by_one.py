"""A class that is never in memory whole."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import overload

from autograder.course.records import HandIn


class OneByOne(Sequence[HandIn]):
    """Hand-ins that are read or made whenever one is looked at."""

    @abstractmethod
    def _at(self, place: int) -> HandIn:
        """The one at ``place``, from 0."""

    @overload
    def __getitem__(self, index: int) -> HandIn: ...
    @overload
    def __getitem__(self, index: slice) -> list[HandIn]: ...
    def __getitem__(self, index: int | slice) -> HandIn | list[HandIn]:
        places = range(len(self))
        if isinstance(index, slice):
            return [self._at(place) for place in places[index]]
        return self._at(places[index])
