"""The program `calibrant`: its commands, the layout of their help, and errors on one line.

Exit codes: 0 done; 1 a gate failed; 2 bad input or usage; 3 an internal error; 130 interrupted.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from calibrant import __version__
from calibrant.cli import (
    check,
    compare,
    conformal,
    data,
    demo,
    describe,
    detect,
    evaluate,
    gate,
    metrics,
    monitor,
    recalibrate,
    report,
    reproduce,
    shift,
    warm_up,
)
from calibrant.cli.output import encodable
from calibrant.errors import CalibrantError, UsageError, did_you_mean, plain, show

INTERRUPTED = 130
TYPE_NAMES = {"int": "an integer", "integer": "an integer", "float": "a number", "number": "a number"}
"""Words for the types in Typer's messages."""


class Command(TyperCommand):
    """A command whose help has its options in groups, and examples at the end."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        for parameter in self.params:
            if parameter.param_type_name == "argument":
                parameter.display_type_rich = lambda ctx: None  # type: ignore[attr-defined]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options, grouped by `rich_help_panel`."""
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                title = "Arguments" if parameter.param_type_name == "argument" else "Options"
                groups.setdefault(getattr(parameter, "rich_help_panel", None) or title, []).append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples, one command a line."""
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.splitlines():
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class Program(TyperGroup):
    """The group of all commands; it turns every exception into one line on stderr and an exit code."""

    def main(self, args: Sequence[str] | None = None, *more: Any, standalone_mode: bool = True, **settings: Any) -> Any:
        """Run, and end the process with its exit code; `standalone_mode=False` lets exceptions through."""
        arguments = list(sys.argv[1:] if args is None else args)
        settings["standalone_mode"] = False
        if not standalone_mode:
            return super().main(arguments, *more, **settings)
        try:
            code = super().main(arguments, *more, **settings)
        except (typer.Abort, KeyboardInterrupt):
            fail("interrupted", INTERRUPTED)
        except CalibrantError as error:
            fail(as_options(str(error)), error.exit_code)
        except MemoryError:
            fail("memory: expected the data to fit, got out of memory; evaluate fewer rows at a time", 2)
        except Exception as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                error.show()  # type: ignore[attr-defined]
                sys.exit(int(getattr(error, "exit_code", 2)))
            if hasattr(error, "format_message"):  # Typer's own errors: their classes move between its releases
                fail(usage_message(error, arguments), 2)
            if os.environ.get("CALIBRANT_DEBUG"):
                raise
            what = plain(f"{type(error).__name__}: {error}")
            fail(f"internal error: {what}; please report it with the traceback that CALIBRANT_DEBUG=1 shows", 3)
        if code == INTERRUPTED:
            fail("interrupted", INTERRUPTED)
        sys.exit(code if isinstance(code, int) else 0)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command, or fail with the closest name."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self.commands and not ctx.resilient_parsing:
            fail(f"unknown command {show(name)}; {did_you_mean(name, self.commands)}", 2)
        return super().resolve_command(ctx, args)


OPTIONS = "alpha|draws|folds|level|relevant_error|repeats|resamples|seed|temperatures|threads"
"""Arguments that are options of the same name."""


def as_options(message: str) -> str:
    """A message with the hint `use level=0.95` of the Python functions as it is typed here: `use --level 0.95`."""
    pattern = rf"(?<=use )({OPTIONS})=('?)([\w.]+)\2"
    message = re.sub(pattern, lambda found: f"--{found[1].replace('_', '-')} {found[3]}", message)
    return re.sub(rf"(?<=, or )({OPTIONS})=('?)([\w.]+)\2", lambda found: f"--{found[1]} {found[3]}", message)


def fail(message: str, code: int) -> NoReturn:
    """Print one line to stderr and exit."""
    typer.echo(encodable(f"calibrant: {message}", sys.stderr), err=True)
    sys.exit(code)


def usage_message(error: Any, arguments: list[str]) -> str:
    """Rewrite an error of Typer as one line with the next step."""
    ctx = getattr(error, "ctx", None)
    path = ctx.command_path if ctx is not None else f"calibrant {arguments[0] if arguments else ''}"
    command = path.partition(" ")[2].strip()
    subject, see = command or "calibrant", f"see `{path.strip()} --help`"
    kind = type(error).__name__
    parameter = getattr(error, "param", None)
    if kind == "NoSuchOption":
        options = [] if ctx is None else [name for item in ctx.command.params for name in getattr(item, "opts", ())]
        hint = did_you_mean(str(error.option_name), [name for name in options if name.startswith("-")])
        hint = hint if hint.startswith("did you mean") else see  # not a list of forty options
        return f"{command}{': ' * bool(command)}unknown option {show(error.option_name)}; {hint}"
    if kind == "MissingParameter":
        expected = "all required arguments"
        if parameter is not None:
            expected = getattr(parameter, "metavar", None) or str(parameter.name).upper()
            if parameter.param_type_name == "option":
                expected = f"{max(parameter.opts, key=len)} {expected}"
        return str(UsageError(subject, expected=expected, got="nothing", hint=see))
    if kind == "BadOptionUsage":
        return str(UsageError(str(error.option_name), expected="a value", got="nothing", hint=see))
    text = plain(str(error.message if kind == "BadParameter" else error.format_message())).rstrip(".")
    text = text[:1].lower() + text[1:]
    if kind == "BadParameter":
        names: Sequence[str] = () if parameter is None else parameter.opts
        subject = max(names, key=len) if names else subject
        typed = re.search(r"\bvalid (\w+)", text)
        for word, after in zip(arguments, [*arguments[1:], None], strict=True):
            name, sign, rest = word.partition("=")
            value = rest if sign else after
            if typed is not None and typed[1] in TYPE_NAMES and name in names and value is not None:
                return str(UsageError(subject, expected=TYPE_NAMES[typed[1]], got=show(value), hint=see))
        return str(UsageError(subject, expected="a valid value", got=text, hint=see))
    parameters = () if ctx is None else ctx.command.params
    files = [max(item.opts, key=len) for item in parameters if getattr(item, "metavar", None) == "FILE"]
    if "extra argument" in text and files and all(item.param_type_name == "option" for item in parameters):
        see = f"pass files with options, such as {files[0]} FILE; {see}"
    return str(UsageError(subject, expected="only the arguments and options of the command", got=text, hint=see))


app = typer.Typer(
    name="calibrant",
    cls=Program,
    help="Evaluate, check and recalibrate the predictive uncertainty of any model.",
    epilog="Run `calibrant COMMAND --help` for the options of a command, with examples.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _module in (
    evaluate, check, compare, recalibrate, conformal, detect, gate, monitor, describe, report, metrics, reproduce,
    shift, data, demo, warm_up,
):  # fmt: skip
    app.command(
        _module.__name__.rpartition(".")[2].replace("_", "-"),
        cls=Command,
        short_help=str(_module.command.__doc__).partition("\n")[0],
        epilog=_module.EXAMPLES,
    )(_module.command)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"calibrant {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    del version


def run() -> None:
    """Run the program."""
    app(prog_name="calibrant")
