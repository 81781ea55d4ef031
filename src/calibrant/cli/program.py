"""What becomes of errors: every expected failure is one line on stderr: what was expected, what came, what to do.

Exit codes: 0 done; 1 a gate failed; 2 bad input or usage; 3 an internal error; 130 interrupted.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from calibrant.cli.terminal import carried
from calibrant.errors import CalibrantError, UsageError, did_you_mean, plain, show

KINDS = {"int": "a whole number", "integer": "a whole number", "float": "a number", "number": "a number"}
"""How a message names what an option takes, by what Typer calls it."""
INTERRUPTED = 130
TAKEN = {
    "metrics": "METRICS", "statistics": "STATISTICS", "scores": "SCORES", "score": "SCORE", "rank_by": "SCORE",
    "by": "COLUMN", "units": "COLUMN", "along": "COLUMN", "fit": "FILE", "apply": "FILE", "method": "METHOD",
    "candidates": "METHODS", "baseline": "NAME", "pool": "NAME", "of": "CLASS", "out": "FOLDER", "title": "TEXT",
    "form": "FORM", "forms": "FORMS", "members": "HOW", "rule": "RULE", "over": "HOW", "temperature": "ROWS",
    "level": "SHARE", "alpha": "SHARE", "penalty": "NUMBER",
}  # fmt: skip
"""What the help says that an option takes, where the option itself does not; a whole number where nothing does."""


class Command(TyperCommand):
    """A command whose help says in words what is to be given, and not as a type of Python."""

    def __init__(self, *args: Any, **known: Any) -> None:
        super().__init__(*args, **known)
        for parameter in self.params:
            if parameter.param_type_name == "argument":
                parameter.display_type_rich = lambda ctx: None  # type: ignore[attr-defined]
            elif parameter.metavar is None and not getattr(parameter, "is_flag", False):
                parameter.metavar = TAKEN.get(str(parameter.name), "N")


class Program(TyperGroup):
    """The group of all commands: Typer's own complaints are told as all others are."""

    def main(self, args: Sequence[str] | None = None, *more: Any, standalone_mode: bool = True, **known: Any) -> Any:
        """Run, and end the process with its exit code; `standalone_mode=False` lets exceptions through."""
        given = list(sys.argv[1:] if args is None else args)
        known["standalone_mode"] = False
        if not standalone_mode:
            return super().main(given, *more, **known)
        try:
            code = super().main(given, *more, **known)
        except (typer.Abort, KeyboardInterrupt):
            fail("calibrant: interrupted", INTERRUPTED)
        except CalibrantError as error:
            fail(f"calibrant: {error}", error.exit_code)
        except MemoryError:
            fail("calibrant: expected to fit into memory, but it is exhausted; evaluate fewer rows at a time", 2)
        except Exception as error:
            _told(error, given)
        if code == INTERRUPTED:
            fail("calibrant: interrupted", INTERRUPTED)
        sys.exit(code if isinstance(code, int) else 0)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was named, or an error with the nearest one."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self.commands and not ctx.resilient_parsing:
            do = did_you_mean(name, self.commands)
            raise UsageError("command", expected="one that there is", came=f"got {show(name)}", do=do)
        return super().resolve_command(ctx, args)


def fail(message: str, code: int) -> NoReturn:
    """One line on stderr, and the end."""
    typer.echo(carried(message, sys.stderr), err=True)
    sys.exit(code)


def _told(error: Exception, given: list[str]) -> NoReturn:
    """An error of usage in our words; anything else is a fault of the program."""
    if hasattr(error, "format_message") and hasattr(error, "show"):  # Typer's: its classes move between releases
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            sys.exit(int(getattr(error, "exit_code", 2)))
        fail(f"calibrant: {_usage(error, given)}", 2)
    if os.environ.get("CALIBRANT_DEBUG"):
        raise error
    said = plain(f"{type(error).__name__}: {error}")
    fail(f"calibrant: a fault of the program ({said}); please report it, with CALIBRANT_DEBUG=1 set", 3)


# -------------------------------------------------------------------------------------------------- usage
def _usage(error: Any, given: list[str]) -> UsageError:
    """What Typer complains of, as expected, came and what to do."""
    ctx = getattr(error, "ctx", None)
    path = ctx.command_path if ctx is not None else f"calibrant {given[0] if given else ''}"
    command = path.partition(" ")[2].strip() or "program"
    see = f"see `{path.strip()} --help`"
    kind = type(error).__name__
    if kind == "NoSuchOption":
        name = str(error.option_name)
        do = did_you_mean(name, _options(ctx)) if ctx is not None else see
        return UsageError(command, expected="an option that it has", came=f"got {show(name)}", do=_brief(do, see))
    if kind == "MissingParameter":
        return UsageError(command, expected=_named(error.param), came="none was given", do=see)
    if kind == "BadOptionUsage":
        name = str(error.option_name)
        return UsageError(name, expected="a value after it", came="there is none", do=see)
    if kind == "BadParameter":
        return _bad_value(error, given, see)
    came = plain(error.format_message()).rstrip(".")
    see = f"{_by_options(ctx)}{see}" if "extra argument" in came else see
    return UsageError(command, expected="options and arguments that it has", came=came[:1].lower() + came[1:], do=see)


def _brief(do: str, see: str) -> str:
    """A nearest name, but not a list of forty."""
    return do if do.startswith("did you mean") else see


def _options(ctx: Any) -> Sequence[str]:
    return [name for parameter in ctx.command.params for name in getattr(parameter, "opts", ()) if name.startswith("-")]


def _by_options(ctx: Any) -> str:
    """Where a command takes its files by options alone, which these are."""
    parameters = () if ctx is None else ctx.command.params
    files = [max(item.opts, key=len) for item in parameters if getattr(item, "metavar", None) == "FILE"]
    if not files or any(item.param_type_name == "argument" for item in parameters):
        return ""
    return f"name files by options, such as {files[0]} FILE; "


def _named(parameter: Any) -> str:
    """An argument or option as the help writes it."""
    if parameter is None:
        return "what it needs"
    metavar = getattr(parameter, "metavar", None) or str(parameter.name).upper()
    names: Mapping[str, str] = {"option": f"{max(parameter.opts, key=len)} {metavar}", "argument": metavar}
    return names.get(parameter.param_type_name, metavar)


def _bad_value(error: Any, given: list[str], see: str) -> UsageError:
    said = plain(str(error.message)).rstrip(".")
    parameter = getattr(error, "param", None)
    names: Sequence[str] = () if parameter is None else parameter.opts
    subject = max(names, key=len) if names else "program"
    found = re.search(r"\bvalid (\w+)", said)
    value = _value(names, given)
    if found is None or found[1] not in KINDS or value is None:
        return UsageError(subject, expected="a value that it takes", came=said[:1].lower() + said[1:], do=see)
    return UsageError(subject, expected=KINDS[found[1]], came=f"got {show(value)}", do=see)


def _value(names: Sequence[str], given: list[str]) -> str | None:
    """What was given for an option: the word after it, or behind its sign of equality."""
    for place, word in enumerate(given):
        name, sign, rest = word.partition("=")
        if name in names and (sign or place + 1 < len(given)):
            return rest if sign else given[place + 1]
    return None
