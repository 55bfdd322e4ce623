"""The Typer application: options are read here, and a wrong usage is told as other errors are."""

from __future__ import annotations

import importlib

import typer

from gpudoctor.cli import exit_codes, options
from gpudoctor.errors import GpudoctorError

_EPILOG = (
    "Exit codes: 0 nothing wrong; 1 findings at or above --fail-on; 2 wrong usage or unreadable input; "
    "3 something essential could not be checked."
)

_COMMANDS = {
    "check": "Say what is wrong, why, and what to type next.",
    "explain": "Say what an error text or a log means.",
    "collect": "Record the evidence, to check it elsewhere.",
    "facts": "Show the facts that rules see.",
    "bench": "Measure what the GPUs give.",
    "xid": "Explain an Xid of the kernel log.",
    "demo": "Show reports on sample evidence.",
    "rules": "List, show, lint and test rules.",
}


def application(arguments: list[str]) -> typer.Typer:
    """The command line. Where the arguments begin with a command, only that one is loaded and built: it is a tenth of a run."""
    app = typer.Typer(
        name="gpudoctor",
        help="Says why a GPU machine, container or job does not work, proves it, and gives the next command to type.",
        epilog=_EPILOG,
        add_completion=False,
        no_args_is_help=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(invoke_without_command=True)(_start)
    for name in arguments[:1] if arguments[:1] and arguments[0] in _COMMANDS else _COMMANDS:
        module = importlib.import_module(f"gpudoctor.cli.{name}")
        # Typer reads the annotations of check and explain here: themselves they do not load the options, which load Typer.
        vars(module)["options"] = options
        if name == "rules":
            app.add_typer(module.app, name=name)
        else:
            app.command(name, short_help=_COMMANDS[name])(getattr(module, name))
    return app


def _start(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", "-V", help="Show the version and exit."),
) -> None:
    if version:
        from gpudoctor import __version__

        print(f"gpudoctor {__version__}")
        raise typer.Exit(exit_codes.PASSED)
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(exit_codes.UNUSABLE)


# BadParameter's base: the class of every wrong usage. Typer has its own copy of click or uses click's, by version.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def call(arguments: list[str]) -> object:
    """Runs a command and gives what it returned. Raises GpudoctorError for a wrong usage."""
    try:
        return application(arguments)(args=arguments, prog_name="gpudoctor", standalone_mode=False)
    except _UsageError as error:
        raise _usage(error) from None
    except typer.Abort:
        raise KeyboardInterrupt from None


def _usage(error: Exception) -> GpudoctorError:
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "gpudoctor"
    return GpudoctorError(message.rstrip("."), f"`{command} --help` shows how it is used.")
