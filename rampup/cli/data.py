"""The command that looks at the user's own data."""

from typing import Annotated, Any

import typer

from rampup.cli.options import AsJson, examples
from rampup.cli.progress import work_bar
from rampup.cli.terminal import paper, print_json, print_table

commands = typer.Typer()


@commands.command(epilog=examples("rampup data items.yaml", "rampup data items.yaml --json"))
def data(
    description: Annotated[
        str,
        typer.Argument(
            help="A YAML file that says of a table (.csv, .parquet, .npy or .npz): problem (bcp, okd or adw), file, "
            "columns (ours: theirs), and as needed length, holdout, smoothing, drop_bad_rows, separator."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Print the card of your own data: rows, ranges, what was dropped and why, what is held out, and drift.

    A malformed row is one line with its file and line, unless the description says `drop_bad_rows: true`. The keys of
    the JSON document: problem, description, file, sha256, rows, blank_lines, dropped, order, length, columns, train,
    holdout, drift, and for bcp series.
    """
    with work_bar() as tell:
        tell(f"reading {description}", 0, 0)
        from rampup.data.card import data_card
        from rampup.data.sequences import load_data

        card = data_card(load_data(description))
    if as_json:
        print_json(card)
    else:
        _show_card(card)


def _show_card(card: dict[str, Any]) -> None:
    console = paper(markup=False)
    console.print(f"{card['file']}: {card['rows']} rows for {card['problem']}, sha256 {card['sha256'][:16]}")
    console.print(_order_said(card))
    console.print()
    columns = [
        [name, str(one["column"]), *(f"{one[what]:g}" for what in ("min", "median", "max"))]
        for name, one in card["columns"].items()
    ]
    print_table(console, ["what", "column", "min", "median", "max"], columns, num_texts=2)
    console.print()
    parts = [[name, *(str(card[name][key]) for key in ("sequences", "rows", "from", "to"))] for name in _PARTS]
    print_table(console, ["part", "sequences", "rows", "from", "to"], parts)
    console.print()
    for one in card["dropped"]:
        of = "" if one["sequences"] is None else f" of {one['sequences']} sequences"
        console.print(f"Dropped: {one['rows']} rows{of}, {one['reason']} ({_lines_said(card, one)}).")
    if not card["dropped"]:
        console.print("Nothing was dropped.")
    if card["blank_lines"]:
        console.print(f"Blank lines passed over: {card['blank_lines']}.")
    console.print("Nothing is held out: drift cannot be seen." if card["drift"] is None else card["drift"]["verdict"])


_PARTS = "train", "holdout"


def _order_said(card: dict[str, Any]) -> str:
    order, moved = card["order"], card["order"]["rows_put_in_place"]
    if order["by"] is None:
        return f"Sequences of {card['length']} arrivals, in the order of the file."
    how = f"{moved} rows stood after a later one and were put in their place" if moved else "the rows were in order"
    return f"Sequences of {card['length']} arrivals, in the order of `{order['by']}`: {how}."


def _lines_said(card: dict[str, Any], one: dict[str, Any]) -> str:
    word = "line" if card["file"].lower().endswith(".csv") else "row"
    told = ", ".join(map(str, one["lines"]))
    return f"{word}{'s' if len(one['lines']) > 1 else ''} {told}{', ...' if one['rows'] > len(one['lines']) else ''}"
