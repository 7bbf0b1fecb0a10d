"""The report page: one file that needs nothing else, says the numbers of its run folders, and works in a browser."""

import json
import math
import re
import time
from html.parser import HTMLParser

import pytest
import yaml

from rampup.report.page import page_of, write_report
from rampup.runs.folder import RunFolder

HOSTILE = (
    "</script><script>window.broken=1</script>\"'><img src=x onerror=window.broken=1> ../../Größe \u2028 {{ 7*7 }}"
)


def record(scheme, seed, stage, iteration, samples, value, ln_kappa):
    return {
        "scheme": scheme,
        "seed": seed,
        "stage": stage,
        "iteration": iteration,
        "samples": samples,
        "value": value,
        "value_low": value - 0.01,
        "value_high": value + 0.01,
        "reference_value": 0.4,
        "ln_kappa": ln_kappa,
        "ln_kappa_low": None if ln_kappa is None else ln_kappa - 0.1,
        "ln_kappa_high": None if ln_kappa is None else ln_kappa + 0.1,
        "avg_err": 1 / (1 + iteration),
        "kappa_is_infinite": ln_kappa is None,
        "seconds": 1.5,
    }


def records_of(points):
    """Two schemes and two seeds; the first kappa of direct is infinite, and curl has a warm-up of 1,000 samples."""
    for seed in (0, 1):
        for i in range(points):
            kappa = None if i == 0 else 50.0 + seed
            yield record("direct", seed, 0, i, 100 * i, 0.02 + 0.01 * seed * i / points, kappa)
        yield record("curl", seed, 0, 0, 0, 0.1, 5.0)
        for i in range(points):
            yield record("curl", seed, 1, i, 1000 + 100 * i, 0.3 + (0.08 + 0.01 * seed) * i / points, 3.0 + seed)


def portrait_of(problem):
    grid = [[(x * y) / 16 for y in range(5)] for x in range(5)]
    axis = [0.0, 0.25, 0.5, 0.75, 1.0]
    if problem == "bcp":
        chances = {"with_record": [0.0, 0.5, 1.0], "without_record": [0.0, 0.0, 0.1]}
        return {"kind": "over_time", "arrival": [1, 2, 3], "optimal_threshold": 1} | chances
    if problem == "choice":
        marks = {"arrival": [1, 2, 3, 4, 5], "measure": "rank so far", "marks": [5, 4, 3, 2, 1]}
        slices = [{"name": name, "accept": grid} for name in "abcd"]
        return {"kind": "over_arrivals", "slices": slices} | marks
    if problem == "okd":
        slices = [{"at": 1 / 3, "name": name, "used": 0.3, "collected": 0.3, "accept": grid} for name in "abcdef"]
        return {"kind": "over_items", "size": axis, "value": axis, "slices": slices}
    return {"kind": "over_bids", "bid": axis, "budget": axis, "slices": [{"at": 2 / 3, "wins": grid}]}


def make_run(path, name="tiny", about="A tiny run.", problem="bcp", points=21, optimum=0.4, is_finished=True):
    """A run folder written by hand; nothing is trained."""
    config = {"name": name, "about": about, "reference": "optimal", "schemes": ["direct", "curl"], "seeds": [0, 1]}
    made = {
        "started": "2026-01-01",
        "versions": {"python": "3.11", "jax": None},
        "git_commit": "abc",
        "command": [name],
    }
    folder = RunFolder.create(path, yaml.safe_dump(config, allow_unicode=True), made)
    with folder.recording(0) as recording:
        for one in records_of(points):
            recording.append(one)
    if is_finished:
        folder.write_portraits({scheme: portrait_of(problem) for scheme in ("direct", "curl")})
        folder.write_summary(summary_of(name, problem, points, optimum))
    return folder


def summary_of(name, problem, points, optimum):
    values = {"direct": 0.0251234567, "curl": 0.3812345678}
    return {
        "experiment": name,
        "problem": problem,
        "reference": "optimal",
        "reference_value": 0.4,
        "optimal_value": optimum,
        "schemes": [
            {
                "scheme": scheme,
                "value": value,
                "interval": [value - 0.005, value + 0.005],
                "ln_kappa": {"direct": None, "curl": 3.5}[scheme],
                "samples": {"direct": 100, "curl": 110}[scheme] * (points - 1),
                "seeds": 2,
            }
            for scheme, value in values.items()
        ],
        "seconds": 1.5,
    }


class Page(HTMLParser):
    """What a page holds: its tags with their attributes, and the text of each table row."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.rows, self.is_in_row = [], [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
            self.is_in_row = True
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append((dict(attrs), ""))

    def handle_endtag(self, tag):
        self.is_in_row = self.is_in_row and tag != "tr"

    def handle_data(self, data):
        self.words.append(data)
        if self.is_in_row and self.rows[-1]:
            attributes, text = self.rows[-1][-1]
            self.rows[-1][-1] = attributes, (text + data).strip()

    def cells(self, first):
        """The cells of the first row that begins with this word."""
        return next(row for row in self.rows if row and row[0][1] == first)


def data_in(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


@pytest.fixture
def folder(tmp_path):
    return make_run(tmp_path / "run")


def test_the_page_needs_nothing_but_itself(folder, tmp_path):
    write_report([folder], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Page(text)
    for tag, attributes in page.tags:
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
        assert tag not in ("link", "iframe", "object", "embed", "base", "img")
    # The one address is the name of SVG, which nobody fetches.
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    assert "default-src 'none'" in text


def test_the_table_says_the_numbers_of_the_summary(folder):
    page = Page(page_of([folder]))
    for entry in folder.summary["schemes"]:
        row = page.cells(entry["scheme"])
        assert float(row[1][0]["data-value"]) == entry["value"]
        assert row[1][1] == f"{entry['value']:.4f}"
        assert row[2][1] == "{:.4f} to {:.4f}".format(*entry["interval"])
        assert row[3][1] == f"{entry['value'] / 0.4:.1%}"
        assert row[4][1] == ("infinite" if entry["ln_kappa"] is None else f"{entry['ln_kappa']:.2f}")
        assert int(row[5][0]["data-samples"]) == entry["samples"]
        assert row[6][1] == "2"
    assert float(page.cells("optimum")[1][0]["data-value"]) == 0.4
    assert float(page.cells("reference: optimal")[1][0]["data-value"]) == 0.4


def test_hindsight_of_a_problem_of_ones_own_is_shown_as_a_value(tmp_path):
    folder = make_run(tmp_path / "own", problem="mine.py:Mine", optimum=None)
    seen = {"value": 0.45, "interval": [0.44, 0.46], "instances": 400}
    folder.write_summary(folder.summary | {"hindsight": seen})
    text = page_of([folder])
    page, (data,) = Page(text), data_in(text)
    assert [cell[1] for cell in page.cells("hindsight")][:3] == ["hindsight", "0.4500", "0.4400 to 0.4600"]
    assert "value" in [cell[1] for cell in page.cells("scheme")]
    assert "success rate" not in text
    assert [level["kind"] for level in data["charts"][0]["levels"]] == ["reference", "hindsight"]
    assert (data["charts"][0]["label"], data["charts"][0]["floor"]) == ("value", None)
    assert "here on 400 instances" in text


def test_a_run_of_before_hindsight_has_its_page(folder):
    assert "hindsight" not in folder.summary
    text = page_of([folder])
    assert 'data-level="hindsight"' not in text
    assert data_in(text)[0]["charts"][0]["floor"] == 0


def test_the_verdict_comes_first_and_in_words(folder):
    text = page_of([folder])
    said = "curl reaches 95.3% of the optimum with 2,200 samples; direct reaches 6.3% with 2,000."
    assert said in text
    assert text.index(said) < text.index("<table")


def test_the_verdict_names_the_reference_where_no_optimum_is_known(tmp_path):
    text = page_of([make_run(tmp_path / "run", problem="okd", optimum=None)])
    assert "curl reaches 95.3% of the reference optimal" in text
    assert "part of reference" in text


def rewritten(folder, values, half_width=0.005):
    """The same run with other values; schemes of other names where there are more."""
    summary = folder.summary
    summary["schemes"] = [
        summary["schemes"][1] | {"scheme": name, "value": value, "interval": [value - half_width, value + half_width]}
        for name, value in values.items()
    ]
    folder.write_summary(summary)
    return page_of([folder])


def test_the_verdict_says_when_two_schemes_cannot_be_told_apart(folder):
    assert "their order may be chance" not in rewritten(folder, {"direct": 0.02, "curl": 0.38})
    text = rewritten(folder, {"direct": 0.38, "curl": 0.381})
    assert "The 95% intervals of curl and direct overlap: their order may be chance." in text


def test_the_verdict_of_many_schemes_names_the_best_and_the_last(folder):
    text = rewritten(folder, {"direct": 0.02, "naive_samp": 0.1, "curl": 0.38, "fix_samp_curl": 0.3})
    assert "Of 4 schemes the best, curl reaches 95.0% of the optimum with 2,200 samples; the last, direct" in text


def test_the_verdict_admits_that_nothing_succeeds(folder):
    text = rewritten(folder, {"direct": 0.0, "curl": 0.0})
    assert "No scheme succeeded when last evaluated: direct after 2,200 samples and curl" in text
    assert "the optimum succeeds 40.0% of the time" in text


def test_theory_tells_kappa_where_the_final_phase_begins_and_ends(folder):
    text = page_of([folder])
    told = {row[0][1]: [text for _, text in row[1:]] for row in Page(text).rows if len(row) == 5}
    assert told["direct"] == ["infinite", "", "50.50", "49.90 to 51.10"]
    assert told["curl"] == ["3.50", "2.90 to 4.10", "3.50", "2.90 to 4.10"]
    assert "direct begins its final phase with an infinite kappa, curl with a finite one." in text


def theory_of(second_line=None, **terms):
    known = {"initial": 0.5, "smoothness": 200.0, "fitting": -0.25, "transfer": None, "statistical": None} | terms
    bound = {"seed": 0, "updates": 20, "rows": 20, "gap": 0.125, "terms": known, "first_line": 200.25}
    direct = {"sampler": "naive", "ln_kappa": "inf"}
    return {
        "predictions": {"direct": direct, "curl": {"sampler": "size:10", "ln_kappa": 0.209}},
        "bounds": {"direct": bound | {"gap": None, "second_line": second_line}},
    }


def cells_of(text, kind, scheme):
    """The texts of a scheme's row in a table of a kind."""
    (table,) = re.findall(rf'<table class="{kind}">.*?</table>', text, re.DOTALL)
    return [cell for _, cell in Page(table).cells(scheme)]


def test_theory_tells_predictions_beside_what_is_measured(folder):
    assert "predicted" not in page_of([folder])
    folder.write_theory(theory_of())
    text = page_of([folder])
    assert cells_of(text, "kappas", "direct") == ["direct", "infinite", "infinite", "", "50.50", "49.90 to 51.10"]
    assert cells_of(text, "kappas", "curl")[:3] == ["curl", "0.21", "3.50"]
    assert "Predicted before any training" in text


def test_theory_has_no_ranges_where_kappa_is_exact_and_seeds_agree(folder):
    recorded(folder, lambda row: {"ln_kappa": 3.0, "ln_kappa_low": 3.0, "ln_kappa_high": 3.0})
    text = page_of([folder])
    assert cells_of(text, "kappas", "curl") == ["curl", "3.00", "3.00"]
    assert "A range holds" not in text


def test_the_terms_of_theorem_1_are_told_as_far_as_they_are_known(folder):
    folder.write_theory(theory_of())
    text = page_of([folder])
    assert cells_of(text, "bounds", "direct") == ["direct", "", "200.2500", "0.5000", "200.0000", "-0.2500"]
    assert "second line" not in text
    folder.write_theory(theory_of("inf", transfer=2_625_000.0, statistical="inf"))
    text = page_of([folder])
    assert cells_of(text, "bounds", "direct")[6:] == ["infinite", "2.6e6", "infinite"]
    assert "its second line, where kappa enters" in text


def test_a_run_without_a_theory_says_nothing_of_theorem_1s_terms(folder):
    assert "bounds" not in page_of([folder])


def recorded(folder, change):
    """The same run with other records."""
    rows = [row | change(row) for row in folder.rows()]
    with folder.recording(0) as recording:
        for row in rows:
            recording.append(row)
    return folder


def test_theory_compares_kappas_only_where_their_intervals_are_apart(folder):
    sized = lambda ln_kappa: {"ln_kappa": ln_kappa, "ln_kappa_low": ln_kappa - 1, "ln_kappa_high": ln_kappa + 1}
    recorded(folder, lambda row: sized({"direct": 44.0, "curl": 4.0}[row["scheme"]]))
    assert "direct begins its final phase with a kappa e^40.0 times that of curl." in page_of([folder])
    recorded(folder, lambda row: sized({"direct": 5.5, "curl": 4.0}[row["scheme"]]))
    assert "begins its final phase with a kappa" not in page_of([folder])


def test_hostile_names_neither_break_the_page_nor_run(tmp_path):
    text = page_of([make_run(tmp_path / "run", name=HOSTILE, about=HOSTILE)])
    page = Page(text)
    assert sum(tag == "script" for tag, _ in page.tags) == 2
    assert not any(tag == "img" or "onerror" in attributes for tag, attributes in page.tags)
    assert HOSTILE in "".join(page.words)
    assert data_in(text)[0]["schemes"][0]["name"] == "direct"


def test_a_hostile_scheme_cannot_end_the_data(folder):
    text = rewritten(folder, {HOSTILE: 0.3, "curl": 0.38})
    assert sum(tag == "script" for tag, _ in Page(text).tags) == 2
    assert data_in(text)[0]["schemes"][0] == {"name": HOSTILE, "colour": "other", "look": "solid"}


def test_half_a_surrogate_pair_is_written_as_a_question_mark(folder, tmp_path):
    rewritten(folder, {"curl\ud800": 0.3})
    write_report([folder], tmp_path / "page.html")
    assert "curl? reaches" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_long_curves_are_thinned_and_keep_their_ends(tmp_path):
    text = page_of([make_run(tmp_path / "run", points=2000)])
    curve = data_in(text)[0]["charts"][0]["curves"][1]
    assert len(curve["samples"]) == 600
    assert (curve["samples"][0], curve["samples"][-1]) == (1000, 1000 + 100 * 1999)
    assert len(text.encode()) < 500_000


def test_many_long_runs_stay_within_two_megabytes(tmp_path):
    folders = [make_run(tmp_path / f"run-{i}", problem="okd", points=700) for i in range(3)] * 12
    assert len(page_of(folders).encode()) < 2_000_000


def test_drawn_numbers_are_finite(folder):
    def numbers(value):
        if isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                yield from numbers(inner)
        elif isinstance(value, float):
            yield value

    assert all(math.isfinite(one) for one in numbers(data_in(page_of([folder]))))


def test_several_runs_are_compared_and_each_has_its_section(tmp_path):
    folders = [
        make_run(tmp_path / problem, name=f"run {problem}", problem=problem) for problem in ("bcp", "okd", "adw")
    ]
    text = page_of(folders)
    page = Page(text)
    ids = [attributes.get("id") for _, attributes in page.tags]
    assert text.index('id="comparison"') < text.index('id="run-1"') < text.index('id="run-3"')
    assert {attributes["href"] for tag, attributes in page.tags if tag == "a"} <= {f"#{one}" for one in ids}
    assert len(data_in(text)) == 3
    assert len([row for row in page.rows if len(row) == 8]) == 1 + 3 * 4


def test_an_unfinished_run_says_so(tmp_path):
    text = page_of([make_run(tmp_path / "run", is_finished=False)])
    assert "This run is not finished" in text
    assert "curl succeeds" in text


def test_a_run_that_recorded_nothing_has_a_page(tmp_path):
    folder = RunFolder.create(tmp_path / "run", "name: early\n", {})
    assert "Nothing is recorded yet." in page_of([folder])


def test_no_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match="at least one run"):
        write_report([], tmp_path / "page.html")


class Shown:
    """A page in the browser, and the few things a reader does with it."""

    def __init__(self, browser, folders, path):
        self.browser = browser
        write_report(folders, path)
        browser.get(path.as_uri())
        time.sleep(0.3)

    def all(self, selector):
        return self.browser.find_elements("css selector", selector)

    def chart(self, name="value"):
        chart = self.all(f'[data-chart="{name}"] svg')[0]
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", chart)
        time.sleep(0.1)
        return chart

    def act(self):
        from selenium.webdriver import ActionChains

        return ActionChains(self.browser, duration=50)

    def x_labels(self, name="value"):
        return [node.text for node in self.all(f'[data-chart="{name}"] svg text[text-anchor="middle"]')]

    def errors(self):
        return self.browser.get_log("browser")


@pytest.mark.slow
def test_a_browser_shows_the_page_and_a_reader_can_use_it(browser, folder, tmp_path):
    page = Shown(browser, [folder], tmp_path / "page.html")

    # The numbers on the page are those of the folder.
    for entry in folder.summary["schemes"]:
        row = page.all(f'.results tr[data-scheme="{entry["scheme"]}"]')[0]
        assert f"{entry['value']:.4f}" in row.text
        assert f"{entry['samples']:,}" in row.text

    # Hovering tells the values of all schemes at that point.
    page.act().move_to_element(page.chart()).perform()
    tip = page.all("#tip")[0].text
    assert "samples" in tip
    assert "direct" in tip
    assert re.search(r"curl\s+0\.3\d+ \(0\.\d+ to 0\.\d+\)", tip)

    # So do the arrow keys.
    page.act().move_to_element(page.all("h1")[0]).perform()
    assert not page.all("#tip")[0].is_displayed()
    page.chart("ln_kappa").send_keys("\ue014")
    assert "curl" in page.all("#tip")[0].text

    # A click on the legend hides a scheme in all charts, the keyboard brings it back.
    assert len(page.all('path[data-series="curl"]')) == 3
    button = page.all(".legend button")[1]
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert page.all('path[data-series="curl"]') == []
    assert len(page.all('path[data-series="direct"]')) == 3
    button.send_keys("\ue007")
    assert button.get_attribute("aria-pressed") == "true"
    assert len(page.all('path[data-series="curl"]')) == 3

    # Dragging zooms all charts, a double click goes back.
    whole = page.x_labels()
    chart = page.chart()
    page.act().move_to_element(chart).click_and_hold().move_by_offset(200, 0).release().perform()
    assert page.x_labels() != whole
    assert page.x_labels("ln_kappa")[0] != "0"
    assert page.all(".reset")[0].is_displayed()
    page.act().double_click(chart).perform()
    assert page.x_labels() == whole
    assert not page.all(".reset")[0].is_displayed()

    # The toggle turns the page dark and back.
    ground = lambda: browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    light = ground()
    page.all("#theme")[0].click()
    dark = ground()
    page.all("#theme")[0].click()
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(20, 23, 27)")
    assert ground() == light
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert page.errors() == []


@pytest.mark.slow
def test_in_a_browser_the_page_follows_the_wish_of_the_system(browser, folder, tmp_path):
    wish = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wish)
    page = Shown(browser, [folder], tmp_path / "page.html")
    assert page.all("#theme")[0].get_attribute("aria-pressed") == "true"
    line = page.all('path[data-series="curl"]')[0]
    # A third of the way from #0072B2 to white.
    assert line.value_of_css_property("stroke") == "rgb(85, 161, 204)"


@pytest.mark.slow
def test_in_a_browser_the_y_axis_fits_what_is_visible(browser, folder, tmp_path):
    page = Shown(browser, [folder], tmp_path / "page.html")
    labels = lambda: [float(one.text) for one in page.all('[data-chart="ln_kappa"] svg text[text-anchor="end"]')]
    assert max(labels()) >= 40
    page.all(".legend button")[0].click()
    assert max(labels()) <= 10
    page.all(".legend button")[1].click()
    assert page.errors() == []


@pytest.mark.slow
@pytest.mark.parametrize("problem", ["bcp", "choice", "okd", "adw"])
def test_in_a_browser_a_policy_tells_its_chances(browser, tmp_path, problem):
    page = Shown(browser, [make_run(tmp_path / "run", problem=problem)], tmp_path / "page.html")
    picture = page.all(".portrait svg" if problem == "bcp" else ".map canvas")[0]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", picture)
    time.sleep(0.1)
    page.act().move_to_element(picture).perform()
    # The middle of the picture: arrival 2, or a chance of 2 * 2 / 16.
    tip = page.all("#tip")[0].text
    assert ("arrival 2" in tip and "0.5" in tip) if problem == "bcp" else "25.0%" in tip
    assert page.errors() == []


@pytest.mark.slow
def test_in_a_browser_a_phone_shows_all_without_scrolling_sideways(browser, tmp_path):
    name = "a" * 300
    folders = [make_run(tmp_path / problem, name=name, problem=problem) for problem in ("bcp", "choice", "okd", "adw")]
    size = {"width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    page = Shown(browser, folders, tmp_path / "page.html")
    assert browser.execute_script("return document.documentElement.scrollWidth") == 390
    assert browser.execute_script("return document.body.scrollWidth") == 390
    assert page.errors() == []


@pytest.mark.slow
def test_in_a_browser_hostile_names_do_nothing(browser, tmp_path):
    folder = make_run(tmp_path / "run", name=HOSTILE, about=HOSTILE)
    recorded(folder, lambda row: {"scheme": HOSTILE} if row["scheme"] == "direct" else {})
    rewritten(folder, {HOSTILE: 0.3, "curl": 0.38})
    page = Shown(browser, [folder, folder], tmp_path / "page.html")
    assert browser.execute_script("return window.broken === undefined")
    assert len(page.all(".legend button")) == 4
    page.act().move_to_element(page.chart()).perform()
    assert "</script>" in page.all("#tip")[0].text
    assert page.errors() == []
