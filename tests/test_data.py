"""The user's own tables: read in any format, every row accounted for, split by time, and looked at for drift."""

import csv
import hashlib
import json
import math
from datetime import datetime

import numpy as np
import pytest
import scipy.stats
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rampup.data import tables
from rampup.data.card import data_card
from rampup.data.drift import ALARM, drift, holm
from rampup.data.sequences import load_data
from rampup.data.series import estimated_series

ITEMS = {"time": "day", "sequence": "batch", "size": "weight", "value": "price"}
HEADER = "day,batch,weight,price"


def described(folder, text, **changes):
    """A table of items and its description; what is None is left out."""
    file = changes.pop("file", "items.csv")
    if text is not None:
        (folder / file).write_text(text, encoding="utf-8")
    document = {"problem": "okd", "file": file, "columns": ITEMS, "holdout": 0.5} | changes
    path = folder / "items.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in document.items() if value is not None}))
    return path


def items(num_batches=4, length=3, seed=0):
    chance = np.random.default_rng(seed)
    rows = [(day, day // length, *chance.integers(1, 50, 2)) for day in range(num_batches * length)]
    return [tuple(map(int, row)) for row in rows]


def as_csv(rows, header=HEADER):
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"


def refusal(path):
    with pytest.raises(ValueError) as found:  # noqa: PT011 (the sentence is what is looked at)
        load_data(path)
    sentence = str(found.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def loaded_or_refused(path):
    try:
        return load_data(path), ""
    except ValueError as error:
        return None, str(error)


def same(one, other):
    np.testing.assert_array_equal(one.rows.numbers, other.rows.numbers)
    np.testing.assert_array_equal(one.train, other.train)
    np.testing.assert_array_equal(one.holdout, other.holdout)


def test_all_formats_give_the_same(tmp_path):
    rows = items()
    known = load_data(described(tmp_path, as_csv(rows)))
    np.testing.assert_array_equal(known.rows.numbers, np.array(rows, float)[:, 2:])
    columns = dict(zip(HEADER.split(","), np.array(rows).T, strict=True))

    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), tmp_path / "items.parquet")
    same(load_data(described(tmp_path, None, file="items.parquet")), known)
    np.savez(tmp_path / "items.npz", **columns)
    same(load_data(described(tmp_path, None, file="items.npz")), known)
    kinds = [(name, int) for name in columns]
    np.save(tmp_path / "named.npy", np.array(rows, dtype=kinds))
    same(load_data(described(tmp_path, None, file="named.npy")), known)
    np.save(tmp_path / "plain.npy", np.array(rows, float))
    numbers = {"time": 0, "sequence": 1, "size": 2, "value": 3}
    same(load_data(described(tmp_path, None, file="plain.npy", columns=numbers)), known)
    semicolons = as_csv(rows).replace(",", ";")
    same(load_data(described(tmp_path, semicolons, separator=";")), known)


def test_a_mark_of_byte_order_quotes_and_blank_lines_do_not_matter(tmp_path):
    rows = items()
    known = load_data(described(tmp_path, as_csv(rows)))
    quoted = "".join(",".join(f'"{cell}"' for cell in row) + "\r\n\r\n" for row in [HEADER.split(","), *rows])
    found = load_data(described(tmp_path, "\ufeff" + quoted))
    same(found, known)
    card = data_card(found)
    assert (card["rows"], card["blank_lines"]) == (len(rows), len(rows) + 1)
    # Lines are those of the file, blank ones counted.
    assert found.rows.lines.tolist() == list(range(3, 2 * len(rows) + 2, 2))


def spoiled(row, line=6):
    """The table with one row in place of that on a line; the header is line 1."""
    lines = as_csv(items()).splitlines()
    lines[line - 1] = row
    return "\n".join(lines) + "\n"


BAD_ROWS = {
    "4,1,abc,3": "`weight` must be a number, got 'abc'.",
    "4,1,,3": "`weight` is empty.",
    "4,1,nan,3": "`weight` must be a number, not NaN.",
    "4,1,inf,3": "`weight` must be finite, and not too large for a double, got 'inf'.",
    "4,1,1e999,3": "`weight` must be finite, and not too large for a double, got '1e999'.",
    "4,1,-2,3": "`weight` must not be negative, got '-2'.",
    '4,1,"2,5",3': "`weight` must have a decimal point, not a comma, got '2,5'.",
    "4,1,1_000,3": "`weight` must be a number, got '1_000'.",
    "4,1,2,5,3": "there must be 4 fields, as in the header (a comma inside a number makes two of one), got 5.",
    "4,1,2": "there must be 4 fields, as in the header (a comma inside a number makes two of one), got 3.",
    "soon,1,2,3": "`day` must be a number or a date such as 2024-05-31, got 'soon'.",
    "2024-01-01,1,2,3": "`day` must be a number, as it is before, got '2024-01-01'.",
    ",1,2,3": "`day` is empty.",
    "4,,2,3": "`batch` is empty.",
}


@pytest.mark.parametrize("row", BAD_ROWS)
def test_a_bad_row_is_one_sentence_with_file_and_line(tmp_path, row):
    path = described(tmp_path, spoiled(row))
    assert refusal(path) == f"{tmp_path / 'items.csv'}, line 6: {BAD_ROWS[row]}"


@pytest.mark.parametrize("row", BAD_ROWS)
def test_a_bad_row_may_be_dropped_and_is_counted_by_its_reason(tmp_path, row):
    path = described(tmp_path, spoiled(row), drop_bad_rows=True, length=3)
    card = data_card(load_data(path))
    bad, short = card["dropped"]
    assert (bad["rows"], bad["lines"]) == (1, [6])
    assert BAD_ROWS[row].startswith(bad["reason"])
    assert (short["rows"], short["sequences"], short["lines"]) == (2, 1, [5, 7])
    assert_adds_up(card)


def assert_adds_up(card):
    used = card["train"]["rows"] + card["holdout"]["rows"]
    assert used + sum(one["rows"] for one in card["dropped"]) == card["rows"]
    assert used == card["length"] * (card["train"]["sequences"] + card["holdout"]["sequences"])


def test_a_quote_inside_lines_is_told_by_the_line_its_row_begins_on(tmp_path):
    text = as_csv(items()).replace(HEADER, HEADER + ",note")
    lines = text.splitlines()
    wide = [lines[0], *(f"{line},x" for line in lines[1:])]
    wide[2] += 'y "two\nlines"'
    wide[2] = wide[2].replace('xy "two\nlines"', '"two\nlines"')
    wide[5] = wide[5].replace(",x", ",x,y")
    path = described(tmp_path, "\n".join(wide) + "\n")
    assert f"{tmp_path / 'items.csv'}, line 7: there must be 5 fields" in refusal(path)
    path = described(tmp_path, as_csv(items()) + '20,9,"3,4\n')
    assert f"{tmp_path / 'items.csv'}, line 14: it is not CSV" in refusal(path)


def test_what_is_wrong_with_a_file_is_one_sentence(tmp_path):
    source = tmp_path / "items.csv"
    assert refusal(described(tmp_path, "")) == f"{source}: the file is empty."
    assert refusal(described(tmp_path, "\n\n")) == f"{source}: the file is empty."
    assert refusal(described(tmp_path, HEADER + "\n")) == f"{source}: there are no rows below the header."
    misspelt = as_csv(items(), "day,batch,wieght,price")
    assert f"{source}, line 1: unknown column 'weight': did you mean 'wieght'?" in refusal(
        described(tmp_path, misspelt)
    )
    double = as_csv([(*row, 1) for row in items()], HEADER + ",weight")
    assert f"{source}, line 1: there are 2 columns called 'weight'" in refusal(described(tmp_path, double))
    semicolons = as_csv(items()).replace(",", ";")
    assert f"{source}, line 1: the columns seem to be separated by ';'" in refusal(described(tmp_path, semicolons))
    source.write_bytes(as_csv(items()).encode().replace(b"4,1,", b"4,\xff,"))
    assert refusal(described(tmp_path, None)) == f"{source}, line 6: it is not UTF-8 text."
    source.unlink()
    assert refusal(described(tmp_path, None)).startswith(f"cannot read the data file '{source}'")
    assert "must end with .csv" in refusal(described(tmp_path, "x", file="items.xlsx"))
    all_bad = as_csv([(*row[:2], "x", "y") for row in items()])
    assert "there is no good row among 12" in refusal(described(tmp_path, all_bad, drop_bad_rows=True))


def test_what_is_wrong_with_other_files_is_one_sentence(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"day": [1, 2], "batch": ["a", "b"], "weight": [1.0, None], "price": ["3", "4"]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "items.parquet")
    path = described(tmp_path, None, file="items.parquet")
    # A text is not a number where the file itself says what is what.
    assert refusal(path) == f"{tmp_path / 'items.parquet'}, row 1: `price` must be a number, got '3'."
    columns["price"] = [3, 4]
    parquet.write_table(pyarrow.table(columns), tmp_path / "items.parquet")
    assert refusal(path) == f"{tmp_path / 'items.parquet'}, row 2: `weight` is empty."
    parquet.write_table(pyarrow.table({"day": [1]}), tmp_path / "items.parquet")
    assert "unknown column 'weight': known are day" in refusal(path)
    (tmp_path / "items.parquet").write_bytes(b"PAR1 but not really PAR1")
    assert "is not a Parquet file that can be read" in refusal(path)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert "pip install 'rampup[parquet]'" in refusal(path)

    path = described(tmp_path, None, file="items.npy", columns={"size": 0, "value": 7}, length=2)
    for content, sentence in [
        (np.ones((4, 3)), "its 3 columns are given by number, counted from 0, got 7"),
        (np.ones(4), "the array must have 2 axes"),
        (np.array([{}]), "is not a NumPy file that can be read"),
    ]:
        np.save(tmp_path / "items.npy", content, allow_pickle=True)
        assert sentence in refusal(path)
    (tmp_path / "items.npy").write_bytes(b"\x93NUMPY")
    assert "is not a NumPy file that can be read" in refusal(path)
    np.save(tmp_path / "items.npy", np.array([[1.0] * 8, [math.nan] * 8]))
    assert refusal(path) == f"{tmp_path / 'items.npy'}, row 2: `column 0` must be a number, not NaN."
    np.savez(tmp_path / "items.npz", a=np.ones(3), b=np.ones(2))
    path = described(tmp_path, None, file="items.npz", columns={"size": "a", "value": "b"}, length=2)
    assert "the columns have different lengths" in refusal(path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"colums": {}}, "unknown key `colums`: did you mean 'columns'?"),
        ({"columns": {"size": "a", "valu": "b"}}, "unknown key `columns.valu`: did you mean 'value'?"),
        ({"columns": None}, "`columns` is missing"),
        ({"problem": "bin"}, "`problem`: "),
        ({"columns": {"size": "weight"}, "length": 3}, "okd needs `columns.size` and `columns.value`"),
        ({"problem": "bcp"}, "bcp needs either `columns.value` or `columns.record`"),
        ({"columns": {"size": "weight", "value": "price"}}, "give `columns.sequence`, or the number of arrivals"),
        ({"smoothing": 1.0}, "`smoothing` is for bcp, not for okd"),
        ({"holdout": 1.0}, "`holdout`: "),
        ({"holdout": "half"}, "`holdout`: "),
        ({"length": 0}, "`length`: "),
        ({"drop_bad_rows": "yes"}, "`drop_bad_rows`: "),
        ({"problem": "adw", "columns": {"bids": ["weight", "weight"]}, "length": 3}, "'weight' is named twice"),
        ({"columns": ITEMS | {"size": 2}}, "columns of a CSV file are given by name: put 2 in quotes"),
    ],
)
def test_a_wrong_description_is_one_sentence(tmp_path, changes, sentence):
    assert sentence in refusal(described(tmp_path, as_csv(items()), **changes))


def test_rows_are_put_in_the_order_of_time_and_it_is_said(tmp_path):
    rows = items(6)
    known = load_data(described(tmp_path, as_csv(rows)))
    mixed = [rows[at] for at in np.random.default_rng(1).permutation(len(rows))]
    found = load_data(described(tmp_path, as_csv(mixed)))
    same(found, known)
    days = [row[0] for row in mixed]
    moved = sum(day < max(days[: at + 1]) for at, day in enumerate(days))
    assert data_card(found)["order"] == {"by": "day", "rows_put_in_place": moved}
    assert data_card(known)["order"]["rows_put_in_place"] == 0


def test_dates_are_times(tmp_path):
    rows = items(6)
    stamps = [f"2024-{1 + row[0] // 10:02d}-{1 + row[0] % 10:02d}" for row in rows]
    known = load_data(described(tmp_path, as_csv(rows)))
    dated = [(stamp, *row[1:]) for stamp, row in zip(stamps, rows, strict=True)]
    found = load_data(described(tmp_path, as_csv(reversed(dated))))
    np.testing.assert_array_equal(found.rows.clock, sorted(found.rows.clock))
    np.testing.assert_array_equal(found.rows.numbers, known.rows.numbers)
    card = data_card(found)
    assert (card["train"]["from"], card["holdout"]["to"]) == (stamps[0], stamps[-1])
    # Zones count: what is later by the clock on the wall may be earlier.
    zones = ["2024-01-01T10:00+05:00", "2024-01-01T09:00+00:00"]
    path = described(tmp_path, as_csv([(zones[1], 2, 1, 1), (zones[0], 1, 2, 2)]), length=1)
    assert load_data(path).rows.numbers[:, 0].tolist() == [2.0, 1.0]
    mixed = as_csv([(zones[0], 1, 1, 1), ("2024-01-02", 2, 1, 1)])
    assert "line 3: `day` must be a date with a zone, as it is before" in refusal(described(tmp_path, mixed))
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = dict(zip(HEADER.split(","), zip(*dated, strict=True), strict=True))
    columns["day"] = [datetime.fromisoformat(stamp) for stamp in stamps]
    parquet.write_table(pyarrow.table(columns), tmp_path / "items.parquet")
    same(load_data(described(tmp_path, None, file="items.parquet")), found)
    columns["day"] = np.array(stamps, dtype="datetime64[D]")
    np.savez(tmp_path / "items.npz", **columns)
    same(load_data(described(tmp_path, None, file="items.npz")), found)


@given(
    lengths=st.lists(st.integers(1, 5), min_size=4, max_size=12),
    length=st.integers(1, 4),
    holdout=st.floats(0.05, 0.9),
    seed=st.integers(0, 1000),
)
def test_every_row_is_used_once_or_dropped_and_no_held_out_row_is_before_a_training_row(
    tmp_path_factory, lengths, length, holdout, seed
):
    chance = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(lengths)), lengths)
    # Sequences overlap: each has a time at which it begins, and steps of its own.
    begins = chance.integers(0, 30, len(lengths))
    rows = [(int(begins[label] + chance.integers(0, 6)), int(label), 1 + at, 2) for at, label in enumerate(labels)]
    path = described(tmp_path_factory.mktemp("data"), as_csv(rows), length=length, holdout=holdout)
    dataset, sentence = loaded_or_refused(path)
    if dataset is None:
        assert "whole sequences" in sentence or "no sequence is over" in sentence
        return
    assert_adds_up(data_card(dataset))
    used = np.concatenate([dataset.train.ravel(), dataset.holdout.ravel()])
    assert len(set(used)) == len(used)
    clock = dataset.rows.clock
    assert clock[dataset.train].max() <= clock[dataset.holdout].min()
    dropped = sum(one.rows for one in dataset.dropped)
    assert dropped + len(used) == len(rows)
    for run in [*dataset.train, *dataset.holdout]:
        assert len({dataset.rows.labels[place] for place in run}) == 1
        assert (np.diff(clock[run]) >= 0).all()


def test_sequences_are_cut_to_one_length_and_the_card_says_so(tmp_path):
    lengths = [3, 5, 2, 3, 4, 3]
    labels = np.repeat(np.arange(6), lengths)
    rows = [(at, int(label), 1, 1) for at, label in enumerate(labels)]
    path = described(tmp_path, as_csv(rows))
    assert "the sequences have from 2 to 5 rows: say as `length` how many count" in refusal(path)
    card = data_card(load_data(described(tmp_path, as_csv(rows), length=3, holdout=0.4)))
    short, long = card["dropped"]
    assert (short["reason"], short["rows"], short["sequences"]) == ("in a sequence of fewer than 3 rows", 2, 1)
    assert (long["reason"], long["rows"], long["sequences"]) == ("beyond the first 3 rows of a sequence", 3, 2)
    assert long["lines"] == [8, 9, 18]
    assert (card["train"]["sequences"], card["holdout"]["sequences"]) == (3, 2)
    assert_adds_up(card)
    assert "at least 2 whole sequences of 6 rows" in refusal(described(tmp_path, as_csv(rows), length=6))


def test_a_stream_is_cut_into_runs_as_they_came(tmp_path):
    rows = items(3, 4)[:11]
    columns = {"size": "weight", "value": "price"}
    dataset = load_data(described(tmp_path, as_csv(rows), columns=columns, length=4))
    np.testing.assert_array_equal(dataset.train, [[0, 1, 2, 3]])
    np.testing.assert_array_equal(dataset.holdout, [[4, 5, 6, 7]])
    card = data_card(dataset)
    assert card["dropped"][0]["lines"] == [10, 11, 12]
    assert (card["train"]["from"], card["holdout"]["to"]) == ("line 2", "line 9")
    assert_adds_up(card)
    whole = data_card(load_data(described(tmp_path, as_csv(rows), columns=columns, length=4, holdout=0.0)))
    assert (whole["holdout"]["sequences"], whole["drift"]) == (0, None)


def test_sequences_that_reach_into_the_holdout_are_dropped(tmp_path):
    # The second of four sequences is not over when the third begins.
    rows = [(0, "a", 1, 1), (1, "a", 1, 1), (2, "b", 1, 1), (9, "b", 1, 1)]
    rows += [(5, "c", 1, 1), (6, "c", 1, 1), (7, "d", 1, 1), (8, "d", 1, 1)]
    card = data_card(load_data(described(tmp_path, as_csv(rows))))
    assert (card["train"]["sequences"], card["holdout"]["sequences"]) == (1, 2)
    assert card["dropped"] == [
        {"reason": "in a sequence that is not over when the holdout begins", "rows": 2, "lines": [4, 5], "sequences": 1}
    ]
    parallel = [(at, at % 2, 1, 1) for at in range(6)]
    assert "no sequence is over when the first" in refusal(described(tmp_path, as_csv(parallel)))


def test_the_card_is_what_numpy_and_sha256_say(tmp_path):
    rows = items(8)
    text = as_csv(rows)
    card = data_card(load_data(described(tmp_path, text)))
    assert card["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    for name, place in (("size", 2), ("value", 3)):
        numbers = [row[place] for row in rows]
        found = card["columns"][name]
        assert (found["min"], found["median"], found["max"]) == (min(numbers), np.median(numbers), max(numbers))
    assert json.loads(json.dumps(card)) == card


def test_huge_and_tiny_numbers_are_kept(tmp_path):
    rows = [(0, 0, "1.7e308", "5e-324"), (1, 1, "1e-300", "0")]
    dataset = load_data(described(tmp_path, as_csv(rows)))
    np.testing.assert_array_equal(dataset.rows.numbers, [[1.7e308, 5e-324], [1e-300, 0.0]])


RECORDS = {"problem": "bcp", "columns": {"sequence": "batch", "value": "score"}}


def sequences_csv(values):
    rows = [(label, value) for label, row in enumerate(values) for value in row]
    return as_csv(rows, "batch,score")


def test_records_are_better_than_all_before_and_ties_are_none(tmp_path):
    values = [[-3, -3, -1, 5, 5], [2, 1, 0, -7, 2.5]]
    dataset = load_data(described(tmp_path, sequences_csv(values), **RECORDS))
    expected = [[1, 0, 1, 1, 0], [1, 0, 0, 0, 1]]
    both = np.concatenate([dataset.records(dataset.train), dataset.records(dataset.holdout)])
    np.testing.assert_array_equal(both, np.array(expected, bool))
    # The same, said by flags in all their spellings.
    flags = [["TRUE", "false", "1", "true", "0"], ["1", "0", "False", "0", "True"]]
    columns = {"sequence": "batch", "record": "score"}
    found = load_data(described(tmp_path, sequences_csv(flags), problem="bcp", columns=columns))
    np.testing.assert_array_equal(found.records(found.train), both[:1])
    wrong = described(tmp_path, sequences_csv([["0", "1"], ["1", "0"]]), problem="bcp", columns=columns)
    assert refusal(wrong).endswith("items.csv, line 2: the first arrival of a sequence is always a record.")
    odd = described(tmp_path, sequences_csv([["1", "maybe"]]), problem="bcp", columns=columns)
    assert "line 3: `score` must be true, false, 1 or 0, got 'maybe'" in refusal(odd)
    flags = [["0", "1"], ["1", "0"], ["1", "1"]]
    three = described(tmp_path, sequences_csv(flags), problem="bcp", columns=columns, drop_bad_rows=True)
    card = data_card(load_data(three))
    assert card["dropped"][0]["reason"] == "in a sequence whose first arrival is not a record"
    assert_adds_up(card)


@pytest.mark.parametrize("smoothing", [None, 0.0, 2.5])
def test_the_series_is_the_formula(tmp_path, smoothing):
    values = np.random.default_rng(3).normal(size=(10, 6))
    path = described(tmp_path, sequences_csv(values), **RECORDS, holdout=0.3, smoothing=smoothing)
    series = estimated_series(load_data(path))
    weight = 1.0 if smoothing is None else smoothing
    for i in range(1, 7):
        count = sum(row[i - 1] > max(row[: i - 1], default=-math.inf) for row in values[:7])
        assert series[i - 1] == pytest.approx((count + weight / i) / (7 + weight), rel=1e-14)
    assert series[0] == 1.0


def test_the_series_converges_to_the_truth_within_binomial_error(tmp_path):
    length, count = 8, 4000
    truth = np.concatenate([[1.0], np.random.default_rng(5).uniform(0.1, 0.9, length - 1)])
    flags = (np.random.default_rng(6).random((count, length)) < truth).astype(int)
    columns = {"sequence": "batch", "record": "score"}
    path = described(tmp_path, sequences_csv(flags), problem="bcp", columns=columns, holdout=0.0)
    errors = estimated_series(load_data(path)) - truth
    # Smoothing moves an estimate by at most one part in count + 1; seven of them within 4.5 standard errors.
    assert (np.abs(errors) <= 4.5 * np.sqrt(truth * (1 - truth) / count) + 1 / (count + 1)).all()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holms_correction_is_that_of_its_definition(p_values):
    corrected = holm(p_values)
    # Hypothesis k is rejected at level alpha just where its corrected p-value is at most alpha.
    for alpha in (0.01, 0.05, 0.3):
        rejected, order = set(), sorted(range(len(p_values)), key=lambda at: p_values[at])
        for rank, at in enumerate(order):
            if (len(p_values) - rank) * p_values[at] > alpha:
                break
            rejected.add(at)
        assert {at for at, one in enumerate(corrected) if one <= alpha} == rejected


def arrays(path, sequences, problem="okd"):
    """Sequences of numbers as a NumPy file, which is read quickly."""
    count, length, width = sequences.shape
    labels = np.repeat(np.arange(count), length)
    np.save(path / "items.npy", np.column_stack([labels, sequences.reshape(-1, width)]))
    numbers = {"size": 1, "value": 2} if problem == "okd" else {"value": 1}
    columns = {"sequence": 0} | numbers
    return load_data(described(path, None, file="items.npy", problem=problem, columns=columns, holdout=0.4))


@pytest.mark.parametrize("problem", ["okd", "bcp"])
def test_drift_is_rarely_seen_where_there_is_none(tmp_path, problem):
    chance, repetitions, alarms, p_values = np.random.default_rng(11), 300, 0, []
    for _ in range(repetitions):
        shape = (20, 5, 2) if problem == "okd" else (60, 10, 1)
        found = drift(arrays(tmp_path, chance.random(shape), problem))
        alarms += found["is_alarm"]
        p_values += [one["p_value"] for one in found["tests"]]
    # As often as it may, and four standard errors of so many repetitions.
    most = lambda rate, count: rate + 4 * math.sqrt(rate * (1 - rate) / count)
    assert alarms / repetitions <= most(ALARM, repetitions)
    for level in (0.05, 0.2):
        # Numbers of records are whole: ties make the test more careful, never less.
        assert np.mean(np.array(p_values) <= level) <= most(level, len(p_values))
    if problem == "okd":
        assert scipy.stats.kstest(p_values[::2], "uniform").pvalue > 1e-4


def test_drift_is_seen_where_it_is(tmp_path):
    chance = np.random.default_rng(12)
    numbers = chance.random((40, 20, 2))
    assert not drift(arrays(tmp_path, numbers))["is_alarm"]
    numbers[24:, :, 1] += 0.3
    found = drift(arrays(tmp_path, numbers))
    assert found["is_alarm"]
    assert "differs from the training rows in `column 2` (" in found["verdict"]
    # Sequences that get better as they go have more records.
    values = chance.random((100, 15, 1))
    values[60:] += 0.05 * np.arange(15)[None, :, None]
    assert drift(arrays(tmp_path, values, "bcp"))["is_alarm"]


@given(st.text(max_size=200), st.sampled_from([",", ";"]))
def test_any_text_is_read_or_refused_in_a_sentence(tmp_path_factory, text, separator):
    folder = tmp_path_factory.mktemp("data")
    (folder / "items.csv").write_bytes((HEADER + "\n" + text).encode("utf-8", "surrogatepass"))
    path = described(folder, None, separator=separator)
    dataset, sentence = loaded_or_refused(path)
    assert dataset is not None or sentence.endswith(".")


def test_a_large_table_is_read_as_csv_reads_it(tmp_path):
    rows = items(200, 5)
    path = tmp_path / "items.csv"
    path.write_text(as_csv(rows))
    found = tables.read_table(path, ["price", "weight"])
    with open(path, newline="") as file:
        known = list(csv.DictReader(file))
    assert found.columns["price"] == [row["price"] for row in known]
    assert found.lines == list(range(2, len(rows) + 2))
