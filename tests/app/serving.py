"""How tests run the app's server beside them, and end it."""

import contextlib
import threading


@contextlib.contextmanager
def running(server):
    """Run a Waitress server in a thread, and end its workers before its sockets.

    A worker that outlives ``close`` still wakes the server's loop, by writing a byte to the file number of a closed
    pipe, which the next socket of this process has by then.
    """
    threading.Thread(target=server.run, daemon=True).start()
    try:
        yield server
    finally:
        server.task_dispatcher.shutdown(timeout=120)
        server.close()
