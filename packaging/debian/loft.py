#!/usr/bin/python3
"""The command `loft` as Debian has it: from a folder of its own, with the libraries of Debian 12.

Debian 12's typer (0.7) does not know parameters that are written as Annotated[...]. What stands
there is put where it looks: into the default. Nor does it know parsers.
"""

import copy
import inspect
import sys
import types
import typing

sys.path.insert(0, "/usr/lib/loft-malloc")

import typer
import typer.core
import typer.main
from typer.models import ParameterInfo, ParamMeta


def without_annotated(kind: typing.Callable[..., typing.Any]) -> typing.Callable[..., typing.Any]:
    def made(*names: str, parser: object = None, **rest: typing.Any) -> typing.Any:
        info = kind(..., *names, **rest)
        info.parser = parser
        return info

    return made


def click_type(*, annotation: typing.Any, parameter_info: ParameterInfo) -> typing.Any:
    parser = getattr(parameter_info, "parser", None)
    if parser is not None:
        return click.types.FuncParamType(parser)
    return usual_type(annotation=annotation, parameter_info=parameter_info)


def with_default(note: ParameterInfo, default: object) -> ParameterInfo:
    found = copy.copy(note)
    found.default = ... if default is inspect.Parameter.empty else default
    return found


def params_of(function: typing.Callable[..., typing.Any]) -> dict[str, ParamMeta]:
    hints = typing.get_type_hints(function, include_extras=True)
    params = {}
    for name, parameter in inspect.signature(function).parameters.items():
        hint, default = hints.get(name, parameter.annotation), parameter.default
        if typing.get_origin(hint) is typing.Annotated:
            hint, *notes = typing.get_args(hint)
            for note in notes:
                if isinstance(note, ParameterInfo):
                    default = with_default(note, default)
        if isinstance(hint, types.UnionType):
            hint = typing.Union[typing.get_args(hint)]  # noqa: UP007
        params[name] = ParamMeta(name=name, default=default, annotation=hint)
    return params


if tuple(int(part) for part in typer.__version__.split(".")[:2]) < (0, 9):
    typer.Option, typer.Argument = map(without_annotated, (typer.Option, typer.Argument))
    import click

    typer.main.get_params_from_function = params_of
    usual_type, typer.main.get_click_type = typer.main.get_click_type, click_type
    typer.TyperException = click.ClickException
    typer.core.rich = None  # plain help, as rich_markup_mode=None asks for

from loft_malloc.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
