"""Rows in the order of their ids: the same people, the same order and digest, whatever file they come from."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.data.files import read_table
from mpfedxgb.data.ids import SALT_BYTES, IdRule, encode_ids, sort_by_id
from mpfedxgb.errors import DataError
from mpfedxgb.schema.settings import ALIGN
from support.refusals import Expected, refused

SALT = b"agreed in a session"


def aligned(ids: Any, **columns: Any) -> tuple[pd.DataFrame, list[str], bytes]:
    """Return a sorted table, its ids and their digest."""
    frame, found = sort_by_id(pd.DataFrame({"id": ids, **columns}), "id", "bank")
    return frame, list(found.keys), found.digest(SALT)


class TestOrder:
    """Rows follow their ids."""

    def test_rows_move_with_their_ids(self) -> None:
        """Whole rows are sorted, the id column leaves, and the way back is kept."""
        given_ = pd.DataFrame({"x": [1.0, 2.0, 3.0], "id": ["c", "a", "b"], "y": ["u", "v", "w"]}, index=[7, 7, 9])
        frame, ids = sort_by_id(given_, "id", "bank")
        assert frame.to_dict("list") == {"x": [2.0, 3.0, 1.0], "y": ["v", "w", "u"]}
        assert list(frame.index) == [0, 1, 2]
        assert ids.written == ("a", "b", "c")
        assert ids.places.tolist() == [1, 2, 0]
        np.testing.assert_array_equal(ids.to_file_order(frame["x"].to_numpy()), given_["x"])
        assert list(given_.columns) == ["x", "id", "y"], "the caller's table stays as it was"

    def test_numbers_by_size(self) -> None:
        """2 comes before 10, as numbers and as their digits."""
        for ids in ([10, 2, -3], ["10", "2", "-3"], [10.0, 2.0, -3.0]):
            assert aligned(ids)[1] == ["-3", "2", "10"]

    def test_texts_by_code_point(self) -> None:
        """The same on every machine, whatever its language."""
        assert aligned(["b", "Z", "a", "ä", "10", "9"])[1] == ["10", "9", "Z", "a", "b", "ä"]

    @given(st.permutations([f"p{i}" for i in range(8)]))
    def test_any_order_gives_one_digest(self, ids: list[str]) -> None:
        """Sorting is done for the user."""
        assert aligned(ids)[2] == aligned(sorted(ids))[2]


class TestSameId:
    """What counts as the same id."""

    @pytest.mark.parametrize(
        "ids",
        [
            ["7", "8", "100"],
            ["007", "008", "100"],
            ["+7", "8.", "100.0"],
            [" 7", "8 ", "100"],
            [7.0, 8.0, 100.0],
            [Decimal(7), Decimal("8.00"), Decimal(100)],
            [7, "8", "0100"],
            pd.array([7, 8, 100], dtype="Int64"),
            pd.array([7, 8, 100], dtype="uint16"),
            pd.Categorical(["7", "8", "100"]),
        ],
    )
    def test_whole_numbers(self, ids: Any) -> None:
        """However a column of whole numbers is written, it is the numbers."""
        assert aligned(ids)[1:] == aligned([7, 8, 100])[1:]

    def test_zeros_count_among_texts(self) -> None:
        """One id that is no number makes all of them texts."""
        assert aligned(["007", "7", "x"])[1] == ["007", "7", "x"]
        assert aligned(["007", "x"])[2] != aligned(["7", "x"])[2]

    def test_fractions_are_texts_in_a_file_of_texts(self) -> None:
        """1.10 and 1.1 are two sections, not one number."""
        assert aligned(["1.10", "1.1", "1.2"])[1] == ["1.1", "1.10", "1.2"]

    def test_spaces_and_spellings(self) -> None:
        """Spaces around and Unicode's two ways to write an accent do not count; capitals do."""
        assert aligned([" Ren\u00e9e\t"])[2] == aligned(["Rene\u0301e"])[2]
        assert aligned(["Anna"])[2] != aligned(["anna"])[2]

    def test_large_numbers(self) -> None:
        """Beyond 64 bits, and beyond what Python reads as a number at once."""
        large = ["9" * 30, "1" + "0" * 30]
        assert aligned(large)[1] == large
        assert aligned(["9" * 5000, "8" * 5000])[1] == ["8" * 5000, "9" * 5000]

    def test_csv_and_parquet(self, tmp_path: Path) -> None:
        """One list of people, read from files of different organisations."""
        frame = pd.DataFrame({"id": [30, 4, 500], "x": [1.0, 2.0, 3.0]})
        frame.to_csv(tmp_path / "a.csv", index=False)
        frame.astype({"id": "str"}).to_csv(tmp_path / "b.csv.gz", index=False)
        frame.to_parquet(tmp_path / "c.parquet")
        frame.astype({"id": "str"}).to_parquet(tmp_path / "d.parquet")
        frame.astype({"id": "float64"}).to_parquet(tmp_path / "e.parquet")
        frame.set_index("id").to_parquet(tmp_path / "f.parquet")
        (tmp_path / "g.csv").write_text("x,id\n1,0030\n2,0004\n3,0500\n")
        digests = set()
        for path in sorted(tmp_path.iterdir()):
            rows, ids = sort_by_id(read_table(path, verbatim=["id"]), "id", "bank")
            assert rows["x"].tolist() == [2.0, 1.0, 3.0], path
            digests.add(ids.digest(SALT))
        assert len(digests) == 1

    def test_written_as_in_the_file(self, tmp_path: Path) -> None:
        """Predictions go out under the ids that came in."""
        (tmp_path / "a.csv").write_text("id,x\n0030,1\n0004,2\n")
        _, ids = sort_by_id(read_table(tmp_path / "a.csv", verbatim=["id"]), "id", "bank")
        assert ids.written == ("0004", "0030")
        assert ids.keys == ("4", "30")


class TestRefused:
    """Messages say how many, never which."""

    @pytest.mark.parametrize(
        ("ids", "expected"),
        [
            (["secret-1", "secret-1", "secret-1", "x"], ("duplicate", "id", 2)),
            (["77007", "077007"], ("duplicate", "id", 1)),
            ([77007.0, 77007.0], ("duplicate", "id", 1)),
            (["secret-1", None, "", "  ", np.nan], ("missing", "id", 4)),
            ([77007.0, np.nan], ("missing", "id", 1)),
            (pd.array([77007, None], dtype="Int64"), ("missing", "id", 1)),
            ([77007.5, 1.0], ("range", "id", None)),
            ([2.0**60, 1.0], ("range", "id", None)),
            ([float("inf"), 1.0], ("range", "id", None)),
            ([True, False], ("type", "id", "bool")),
            (pd.to_datetime(["2024-01-01", "2024-01-02"]), ("type", "id", "Timestamp")),
            ([b"secret-1"], ("type", "id", "bytes")),
            ([["secret-1"]], ("type", "id", "list")),
        ],
    )
    def test_ids_that_are_none(self, ids: Any, expected: Expected) -> None:
        """Missing, repeated or inexact ids, with the remedy and without the id."""
        with refused(DataError, *expected) as caught:
            aligned(ids)
        assert "secret" not in str(caught.value)
        assert "77007" not in str(caught.value)

    def test_no_such_column(self) -> None:
        """The columns that are there are listed."""
        with refused(DataError, "unknown", "customer"):
            sort_by_id(pd.DataFrame({"id": [1], "x": [1]}), "customer", "bank")


class TestDigest:
    """A digest is of exactly one list, under exactly one salt."""

    @given(st.lists(st.text(max_size=4), max_size=4), st.lists(st.text(max_size=4), max_size=4))
    def test_no_two_lists_share_an_encoding(self, first: list[str], second: list[str]) -> None:
        """Wherever one id ends and the next begins."""
        assert (encode_ids(first) == encode_ids(second)) == (first == second)

    def test_moved_borders(self) -> None:
        """The classic collisions of joined texts are none."""
        lists = (["ab", "c"], ["a", "bc"], ["abc"], ["a", "b", "c"], ["ab,c"], ["ab", "c", ""], ["", "ab", "c"])
        assert len({encode_ids(ids) for ids in lists}) == len(lists)

    def test_depends_on_ids_and_salt(self) -> None:
        """Another id, another order among numbers and texts, another salt: another digest."""
        _, ids = sort_by_id(pd.DataFrame({"id": [1, 2]}), "id", "bank")
        _, others = sort_by_id(pd.DataFrame({"id": [1, 3]}), "id", "bank")
        assert len(ids.digest(SALT)) == 32
        assert ids.digest(SALT) == ids.digest(SALT)
        assert len({ids.digest(SALT), others.digest(SALT), ids.digest(SALT + b"!")}) == 3

    def test_a_salt_is_needed(self) -> None:
        """Without one anybody could try out lists of people."""
        _, ids = sort_by_id(pd.DataFrame({"id": [1]}), "id", "bank")
        with pytest.raises(ValueError, match="at least 16 bytes"):
            ids.digest(b"x" * (SALT_BYTES - 1))

    def test_ids_are_not_shown(self) -> None:
        """Neither does a log."""
        _, ids = sort_by_id(pd.DataFrame({"id": ["secret-1"]}), "id", "bank")
        assert repr(ids) == str(ids) == "Ids(rows=1)"
        assert len(ids) == 1


@pytest.mark.parametrize("rule", [None, IdRule(case="ignore", unicode="NFKC")])
def test_halves_of_characters(rule: IdRule | None) -> None:
    """An id that cannot be encoded is refused here, with a count, and not in the middle of a session."""
    with refused(DataError, "value", "id", 1):
        sort_by_id(pd.DataFrame({"id": ["a", "b\ud800"]}, dtype=object), "id", "bank", rule)


class TestRule:
    """What counts as the same id among those who agree on it, because their lists differ."""

    @staticmethod
    def keys(written: Any, **rule: str) -> list[str]:
        """Return the ids in the common spelling."""
        return list(sort_by_id(pd.DataFrame({"id": written}), "id", "bank", IdRule(**rule))[1].keys)

    def test_the_type_does_not_depend_on_the_list(self) -> None:
        """Whole numbers are texts where texts were agreed, and numbers where numbers were."""
        assert self.keys(["007", "10", "9"]) == ["007", "10", "9"]
        assert self.keys([9, 10, 7]) == ["10", "7", "9"]
        assert self.keys(["007", "10", "9.0", " +11"], ids="integer") == ["7", "9", "10", "11"]

    def test_numbers_that_are_none(self) -> None:
        """They are counted, not shown."""
        with refused(DataError, "type", "id", 2) as c:
            self.keys(["7", "x-secret", "7.5"], ids="integer")
        assert "secret" not in str(c.value)

    @pytest.mark.parametrize(
        ("rule", "same", "others"),
        [
            ({}, [" A 1 ", "A 1"], ["a 1", "A1"]),
            ({"case": "ignore"}, ["STRASSE", "stra\u00dfe"], ["strase"]),
            ({"spaces": "remove"}, ["A\u00a0 1\t2", "A12"], ["a12"]),
            ({}, ["e\u0301", "\u00e9"], ["e"]),
            ({"unicode": "NFKC"}, ["\uff21\uff11", "A1"], ["A2"]),
            ({"unicode": "NFKC", "ids": "integer"}, ["\uff10\uff17", "7"], ["8"]),
            ({"case": "ignore"}, ["\u0130x", "i\u0307X"], ["ix"]),
        ],
    )
    def test_one_spelling(self, rule: dict[str, str], same: list[str], others: list[str]) -> None:
        """What a rule takes for one id has one spelling, and nothing else has it; spelling again changes nothing."""
        keys = [self.keys([one], **rule)[0] for one in (*same, *others)]
        assert keys[0] == keys[1]
        assert keys[0] not in keys[2:]
        assert self.keys(keys[:1], **rule) == keys[:1]

    def test_two_that_become_one(self) -> None:
        """They are counted as repeated, and it is said why."""
        with refused(DataError, "duplicate", "id", 1):
            self.keys(["a", "A"], case="ignore")
        with refused(DataError, "duplicate", "id", 1):
            self.keys(["a", "a"], case="ignore")

    def test_defaults_come_first(self) -> None:
        """As messages and templates say."""
        assert IdRule() == IdRule(**{key: ALIGN[key].default for key in ("ids", "case", "spaces", "unicode")})

    def test_some_of_the_ids(self) -> None:
        """They keep their order, and where they were in the file."""
        ids = sort_by_id(pd.DataFrame({"id": ["c", "a", "b"]}), "id", "bank")[1].take(np.array([True, False, True]))
        assert (ids.keys, ids.written, ids.places.tolist()) == (("a", "c"), ("a", "c"), [1, 0])
