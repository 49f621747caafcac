"""uvicorn in a thread of the test's own process."""

import contextlib
import threading
import time


@contextlib.contextmanager
def running(server, sockets=None):
    """Runs a `uvicorn.Server` until the block ends; gives the address of a loopback port."""
    thread = threading.Thread(target=server.run, kwargs={"sockets": sockets})
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while not server.started:
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
