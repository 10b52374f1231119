"""How tests run the app's server beside them, and end it."""

import contextlib
import threading


@contextlib.contextmanager
def running(server):
    """Run a Waitress server in a thread; at the end its workers stop, then its loop, which closes its sockets itself.

    A worker that outlives the loop would wake it by writing a byte to the file number of a closed pipe, which the next
    socket of this process has by then; and a loop whose sockets another thread closes ends in an error.
    """
    loop = threading.Thread(target=server.run, daemon=True)
    loop.start()

    def close():
        for one in list(server._map.values()):
            one.close()

    try:
        yield server
    finally:
        server.task_dispatcher.shutdown(timeout=120)
        server.trigger.pull_trigger(close)
        loop.join(timeout=60)
        assert not loop.is_alive()
