"""``cptlaw`` and ``python -m cptlaw``: the command line, which an interrupt ends quietly from its first moment on."""

# There already, as are the next three: `signal` itself, unlike the module behind it, loads a dozen files for names of
# numbers, and an interrupt meanwhile would end in a traceback. So does one while Python starts: nothing here sees it.
import _signal as signal  # type: ignore[import-not-found, unused-ignore]
import atexit
import gc
import sys


def main() -> None:
    """Run the command line. Ctrl-C ends it with exit code 130, also while it is still being loaded."""
    was_interrupted = is_loaded = False

    def interrupt(number: int, frame: object) -> None:
        nonlocal was_interrupted
        was_interrupted = True
        if not is_loaded:  # nothing is open yet, and Python prints what is raised inside its own import
            _end("Interrupted.\n")
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    # Python would go over all that was loaded once more at its end, a seventh of what a short command takes.
    atexit.register(gc.freeze)
    try:
        from cptlaw.cli import main as run

        is_loaded = True
        run()
    except BaseException as error:
        # A package that is interrupted while it loads may raise what it likes, an ImportError for instance.
        if not was_interrupted:
            raise
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would find the interpreter half taken down
        _end("" if isinstance(error, SystemExit) else "Interrupted.\n")


def _end(words: str) -> None:
    """End the process as one that was interrupted, with some last words."""
    sys.stderr.write(words)
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
