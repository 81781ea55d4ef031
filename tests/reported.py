"""What tests of the report share: the figures of a section, and a figure drawn."""

from calibrant.reporting.document import Details, Document, Panel, figures_of
from calibrant.reporting.figures import converter, full_spec, vega_lite_version
from calibrant.reporting.page import Writer


def figures(section):
    """The figures of a section by key; those of several inputs, of the first that has them."""
    out = {}
    for _, figure, _ in figures_of(Document("", (section,))):
        out.setdefault(figure.key, figure)
    return out


def blocks(section, kind):
    """Every block of a kind, also within panels and folds."""
    out = []

    def visit(each):
        for block in each:
            if isinstance(block, Panel | Details):
                visit(block.blocks)
            if isinstance(block, kind):
                out.append(block)

    visit(section.blocks)
    return out


def drawn(figure, *chosen):
    """The SVG of a figure for some of its choices."""
    spec = full_spec(figure, chosen or None)
    return converter().vegalite_to_svg(spec, vl_version=vega_lite_version(), allowed_base_urls=[])


def draws_all(section):
    """Every choice of every figure is drawn with marks in it."""
    for figure in figures(section).values():
        for chosen in figure.data:
            assert "role-mark" in drawn(figure, *chosen), (figure.key, chosen)


def as_html(section):
    """The markup of a section."""
    return Writer().section(section)


def rows(columns, **where):
    """The rows of columns that have these values."""
    every = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [row for row in every if all(row[key] == value for key, value in where.items())]
