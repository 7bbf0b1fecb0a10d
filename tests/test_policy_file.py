"""Policy files: bit for bit what was written, or a sentence that says why not."""

import errno
import hashlib
import json
import os
import pickle
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import rampup
from rampup import policy as policies
from rampup.runs.files import write_whole
from rampup.runs.policy_file import read_policy, write_policy

PROBLEM = rampup.make("bcp", n=6)
# Numbers that a careless spelling would not bring back.
THETA = np.asarray([0.1 + 0.2, -1 / 3, 5e-324, -1.2345678901234567e30])
CONTENTS = {
    "problem": "bcp",
    "parameters": {"n": 6, "series": "random:2"},
    "features": "monomial:2",
    "theta": THETA,
    "provenance": {"scheme": "curl", "seed": 0, "warmup": {"n": 3}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("policies")


@pytest.fixture(scope="module")
def content(folder):
    write_policy(folder / "whole.json", **CONTENTS)
    return (folder / "whole.json").read_bytes()


def refusal(path, problem=PROBLEM):
    """The sentence with which a file is refused; anything but a ValueError is a bug of ours."""
    with pytest.raises(ValueError, match=r".") as caught:
        read_policy(path, problem)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def refusal_of(folder, given):
    (folder / "given.json").write_bytes(given if isinstance(given, bytes) else json.dumps(given).encode())
    return refusal(folder / "given.json")


def signed(document):
    """A document with the checksum it would have been written with, as a careful forger makes it."""
    rest = {key: entry for key, entry in document.items() if key != "sha256"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return rest | {"sha256": hashlib.sha256(canonical.encode()).hexdigest()}


@given(arrays(float, 4, elements=st.floats(allow_nan=False, allow_infinity=False)))
@settings(max_examples=100)
def test_theta_comes_back_bit_for_bit(folder, theta):
    write_policy(folder / "theta.json", **(CONTENTS | {"theta": theta}))
    found = np.asarray(read_policy(folder / "theta.json", PROBLEM).theta)
    assert np.array_equal(found.view(np.uint64), theta.view(np.uint64))


@pytest.mark.parametrize(
    ("problem", "parameters", "features"),
    [
        ("bcp", {"n": 6}, "one_hot"),
        ("bcp", {"n": 6}, "legendre:3"),
        ("okd", {"n": 4, "B": 1, "V": 1}, "monomial:2"),
        ("adw", {"n": 2, "m": 3, "V": 1}, "legendre:2"),
    ],
)
def test_a_policy_chooses_as_before(problem, parameters, features, tmp_path):
    made = rampup.make(problem, **parameters)
    basis = rampup.as_features(features, made)
    generator = np.random.default_rng(0)
    theta = generator.normal(size=basis.size)
    path = tmp_path / "policy.json"
    write_policy(path, problem=problem, parameters=parameters, features=features, theta=theta)
    found = read_policy(path, made)
    low, high = map(np.asarray, made.bounds())
    observations = jnp.asarray(generator.uniform(low, high, size=(50, len(low))))
    before = policies.LogLinear(made, basis, jnp.asarray(theta))
    assert np.array_equal(jax.vmap(found)(observations), jax.vmap(before)(observations))


def test_a_policy_serves_any_size_of_its_problem(folder, content):
    large = rampup.make("bcp", n=50)
    policy = read_policy(folder / "whole.json", large)
    assert policy.problem is large
    assert np.array_equal(policy.theta, THETA)


def test_a_person_can_read_the_file(content):
    document = json.loads(content)
    assert list(document) == ["format", "version", "problem", "parameters", "features", "theta", "provenance", "sha256"]
    assert document["format"] == "rampup-policy"
    assert document["theta"] == THETA.tolist()
    assert document["parameters"] == CONTENTS["parameters"]
    assert document["provenance"] == CONTENTS["provenance"]
    assert signed(document) == document
    assert content.isascii()
    assert max(map(len, content.splitlines())) < 100


def test_a_file_cut_short_is_refused_at_every_length(folder, content):
    # Without its last line feed a file is still whole.
    for length in np.linspace(0, len(content) - 2, 20).astype(int):
        assert "is not a policy file, or was cut short" in refusal_of(folder, content[:length])


NUMBER = re.compile(rb"(?<=[ \n])-?\d[\d.e+-]*(?=[,\n])")


def test_every_single_number_is_guarded(folder, content):
    places = list(NUMBER.finditer(content))
    # The version, n, the four of theta, the seed and the warm-up's n.
    assert len(places) == 8
    for place in places:
        for text in (repr(json.loads(place[0]) + 1 or 2), "1" + place[0].decode().lstrip("-"), "0.5", "NaN", "null"):
            if json.loads(text) == json.loads(place[0]):
                continue
            edited = content[: place.start()] + text.encode() + content[place.end() :]
            sentence = refusal_of(folder, edited)
            is_version = content[: place.start()].endswith(b'"version": ')
            assert ("upgrade Rampup" if is_version else "was changed after it was written") in sentence


def test_a_newer_version_asks_for_a_newer_rampup(folder, content):
    newer = signed(json.loads(content) | {"version": 2, "shape": "spiral"})
    assert "has version 2, this Rampup reads up to 1: upgrade Rampup." in refusal_of(folder, newer)
    for version in (None, "1", 1.5, [1]):
        assert f"has version {version!r}" in refusal_of(folder, signed(json.loads(content) | {"version": version}))


def test_a_missing_key_is_refused(folder, content):
    document = json.loads(content)
    for key in document:
        rest = {name: entry for name, entry in document.items() if name != key}
        expected = {"format": "is not a policy file of Rampup", "version": "has version None"}
        assert expected.get(key, "its checksum does not fit") in refusal_of(folder, rest)


@pytest.mark.parametrize("key", ["problem", "features", "theta"])
def test_a_missing_key_is_refused_even_where_the_checksum_fits(key, folder, content):
    document = json.loads(content)
    assert key in refusal_of(folder, signed({name: entry for name, entry in document.items() if name != key}))


FORGED = [
    ({"theta": "many"}, "`theta` must be an array of numbers"),
    ({"theta": [[0.0, 1.0], [2.0, 3.0]]}, "`theta` must be a non-empty array with 1 axis"),
    ({"theta": [0.0, 1.0, [2.0], 3.0]}, "`theta` must be an array of numbers"),
    ({"theta": []}, "`theta` must be a non-empty array"),
    ({"theta": [0.0, 1.0, 2.0, float("nan")]}, "`theta` must hold finite numbers only"),
    ({"theta": [0.0, 1.0, 2.0]}, "holds 3 parameters, but 'monomial:2' needs 4 here"),
    ({"features": "fourier:2"}, "unknown features 'fourier'"),
    ({"features": None}, "unknown features 'None'"),
    ({"features": "monomial:999"}, "holds 4 parameters, but 'monomial:999' needs 1998 here"),
    ({"problem": "tsp"}, "is for tsp, not for bcp"),
    ({"problem": {}}, "is for {}, not for bcp"),
]


@pytest.mark.parametrize(("changes", "sentence"), FORGED, ids=[entry[1][:40] for entry in FORGED])
def test_nonsense_is_refused_even_where_the_checksum_fits(changes, sentence, folder, content):
    assert sentence in refusal_of(folder, signed(json.loads(content) | changes))


STRANGERS = [
    b"",
    b"\n",
    b"hello",
    b"\xff\xfe\x00",
    b"\x89PNG\r\n\x1a\n",
    b"[1, 2",
    b"[" * 100_000,
    b"9" * 5000,
    b"{'a': 1}",
]
OTHER_JSON = [b"null", b"[]", b"3", b'"rampup-policy"', b"{}", b'{"format": "numpy"}', b'[{"format": "rampup-policy"}]']


@pytest.mark.parametrize("text", STRANGERS, ids=lambda text: repr(text[:12]))
def test_what_is_not_json_is_not_a_policy_file(text, folder):
    assert "is not a policy file, or was cut short: it holds no whole JSON." in refusal_of(folder, text)


@pytest.mark.parametrize("text", OTHER_JSON, ids=lambda text: text.decode())
def test_other_json_is_not_a_policy_file(text, folder):
    assert refusal_of(folder, text) == f"{str(folder / 'given.json')!r} is not a policy file of Rampup."


def test_a_file_that_cannot_be_read_is_refused(folder):
    assert refusal(folder) == f"cannot read the policy file {str(folder)!r}: Is a directory."
    assert refusal(folder / "absent.json").endswith("absent.json': No such file or directory.")
    assert "File name too long" in refusal(folder / ("x" * 300 + ".json"))


def test_a_policy_of_another_problem_is_refused(folder, content):
    knapsack = rampup.make("okd", n=6, B=1, V=1)
    assert refusal(folder / "whole.json", knapsack).endswith("whole.json' is for bcp, not for okd.")


def test_a_table_for_another_size_is_refused(folder):
    write_policy(folder / "table.json", **(CONTENTS | {"features": "one_hot", "theta": np.arange(12.0)}))
    assert read_policy(folder / "table.json", PROBLEM).features.size == 12
    sentence = refusal(folder / "table.json", rampup.make("bcp", n=8))
    assert sentence.endswith("holds 12 parameters, but 'one_hot' needs 16 here: it was trained on another size.")


def assert_harmless_or_refused(folder, damaged, content):
    """A damaged file is refused, unless the damage says the same in other words: a tab for a space, E for e."""
    (folder / "damaged.json").write_bytes(damaged)
    try:
        policy = read_policy(folder / "damaged.json", PROBLEM)
    except ValueError:
        return
    assert json.loads(damaged) == json.loads(content)
    assert np.array_equal(np.asarray(policy.theta), THETA)


@given(st.data())
@settings(max_examples=300)
def test_a_flipped_byte_is_found(folder, content, data):
    place = data.draw(st.integers(0, len(content) - 1))
    flip = data.draw(st.integers(1, 255))
    damaged = bytearray(content)
    damaged[place] ^= flip
    assert_harmless_or_refused(folder, bytes(damaged), content)


@given(st.data())
@settings(max_examples=100)
def test_a_piece_lost_doubled_or_overwritten_is_found(folder, content, data):
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(content))] * 2)))
    piece = data.draw(st.sampled_from([b"", content[start:end] * 2, b"\0" * (end - start)]) | st.binary(max_size=20))
    assert_harmless_or_refused(folder, content[:start] + piece + content[end:], content)


def test_other_white_space_does_no_harm(folder, content):
    (folder / "tight.json").write_text(json.dumps(json.loads(content), indent=7).replace("\n", "\r\n"))
    assert np.array_equal(read_policy(folder / "tight.json", PROBLEM).theta, THETA)


class Bomb:
    """Unpickled, it leaves a mark."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return open, (self.mark, "w")


def test_loading_executes_nothing(folder, content, tmp_path):
    mark = tmp_path / "mark"
    pickle.loads(pickle.dumps(Bomb(str(mark)))).close()
    assert mark.exists()
    mark.unlink()
    call = f"__import__('pathlib').Path({str(mark)!r}).touch()"
    document = json.loads(content)
    for payload in (
        pickle.dumps(Bomb(str(mark))),
        call.encode(),
        {"__reduce__": ["builtins.open", [str(mark), "w"]]},
        document | {"theta": {"__reduce__": ["builtins.open", [str(mark), "w"]]}},
        signed(document | {"theta": {"py/reduce": [{"py/function": "builtins.open"}, [str(mark), "w"]]}}),
        signed(document | {"features": call}),
        signed(document | {"theta": [call] * 4}),
    ):
        refusal_of(folder, payload)
    # What nobody asks for is carried along as text.
    (folder / "given.json").write_text(json.dumps(signed(document | {"provenance": {"__reduce__": call}})))
    read_policy(folder / "given.json", PROBLEM)
    assert not mark.exists()


UNFIT = [
    ({"problem": "tsp"}, "unknown problem 'tsp': known are bcp, okd, adw"),
    ({"theta": np.asarray([0.0, np.nan])}, "`theta` must hold finite numbers only, got nan."),
    ({"theta": np.zeros((2, 2))}, "`theta` must be a non-empty array with 1 axis, got shape (2, 2)."),
    ({"provenance": {"value": float("inf")}}, "`parameters` and `provenance` must be fit for JSON"),
]


@pytest.mark.parametrize(("changes", "sentence"), UNFIT, ids=[entry[1][:40] for entry in UNFIT])
def test_what_no_file_can_hold_is_refused_and_the_old_file_stays(changes, sentence, tmp_path):
    path = tmp_path / "policy.json"
    write_policy(path, **CONTENTS)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=re.escape(sentence)):
        write_policy(path, **(CONTENTS | changes))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_provenance_with_numbers_for_keys_can_be_read_again(tmp_path):
    write_policy(tmp_path / "policy.json", **(CONTENTS | {"provenance": {9: "nine", 10: "ten"}}))
    read_policy(tmp_path / "policy.json", PROBLEM)


def test_a_written_file_is_whole_and_alone(tmp_path):
    path = tmp_path / "new" / "folder" / "file.bin"
    for content in (b"first", b"", bytes(range(256)) * 1000):
        write_whole(path, content)
        assert path.read_bytes() == content
        assert list(path.parent.iterdir()) == [path]


def refused_writing(path, content=b"new"):
    with pytest.raises(ValueError, match=r".") as caught:
        write_whole(path, content)
    sentence = str(caught.value)
    assert sentence.startswith(f"cannot write {str(path)!r}: ")
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def test_a_folder_in_the_place_of_the_file_stays(tmp_path):
    (tmp_path / "policy.json").mkdir()
    (tmp_path / "policy.json" / "inside").write_text("old")
    assert "Is a directory" in refused_writing(tmp_path / "policy.json")
    assert [path.name for path in tmp_path.iterdir()] == ["policy.json"]
    assert (tmp_path / "policy.json" / "inside").read_text() == "old"


def test_a_folder_that_takes_no_files_is_named_in_one_sentence(tmp_path):
    (tmp_path / "file").write_text("old")
    refused_writing(tmp_path / "file" / "policy.json")
    assert "Not a directory" in refused_writing(tmp_path / "file" / "deeper" / "policy.json")
    assert "File name too long" in refused_writing(tmp_path / ("x" * 300))
    assert (tmp_path / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_named_in_one_sentence(tmp_path):
    tmp_path.chmod(0o500)
    assert "Permission denied" in refused_writing(tmp_path / "policy.json")
    tmp_path.chmod(0o700)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_the_old_file_stays_when_the_disk_is_full(step, tmp_path, monkeypatch):
    path = tmp_path / "policy.json"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, fail)
    assert "No space left on device" in refused_writing(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_the_old_file_stays_when_somebody_interrupts(step, tmp_path, monkeypatch):
    path = tmp_path / "policy.json"
    path.write_bytes(b"old")

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
