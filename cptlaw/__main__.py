"""``cptlaw`` and ``python -m cptlaw``: the command line, which an interrupt ends quietly from its first moment on."""

import signal
import sys


def main() -> None:
    """Run the command line. Ctrl-C ends it with exit code 130, also while it is still being loaded."""
    was_interrupted = False

    def interrupt(number: int, frame: object) -> None:
        nonlocal was_interrupted
        was_interrupted = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        from cptlaw.cli import main as run

        run()
    except BaseException as error:
        # A package that is interrupted while it loads may raise what it likes, an ImportError for instance.
        if not was_interrupted:
            raise
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would find the interpreter half taken down
        if not isinstance(error, SystemExit):
            sys.stderr.write("Interrupted.\n")
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):  # closed, or its reader has gone
                continue
        import os

        # Not sys.exit: where the interrupt met code run from C, Python would end by the signal after all.
        os._exit(130)


if __name__ == "__main__":
    main()
