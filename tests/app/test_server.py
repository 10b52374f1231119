"""The app as a server: whose requests are answered, what requests made by hand may do, and who may keep others out."""

import contextlib
import socket
import time
import urllib.request

import pytest
from facts import lacks
from serving import running

import cptlaw as cl
import cptlaw_app
from cptlaw.errors import UsageError

pytest.importorskip("flask", reason="the app needs Flask: pip install 'cptlaw[app]'")
pytest.importorskip("plotly", reason="the app needs Plotly: pip install 'cptlaw[app]'")
from cptlaw_app import server
from cptlaw_app.question import fields
from cptlaw_app.server import LOOPBACK, POLICY, build, listen

HERE = {"Host": "127.0.0.1:8050"}
NO_RUNS = {"table": "none", "n_params": "8B", "ptpp": "1875", "target_tokens": "20B", "shift": "language"}


@pytest.fixture(scope="module")
def client():
    return build(cl.examples.load("en-fr-pilot")).test_client()


def test_the_port_is_said_and_a_taken_one_is_a_message():
    found = listen("127.0.0.1", 0)
    try:
        found.listen()
        with pytest.raises(UsageError, match="Choose another --port"):
            listen("127.0.0.1", found.getsockname()[1])
    finally:
        found.close()
    with pytest.raises(UsageError, match="from 0"):
        listen("127.0.0.1", 70_000)


def test_other_names_of_this_machine_are_refused(client):
    assert client.get("/", headers={"Host": "127.0.0.1:8050"}).status_code == 200
    assert client.get("/", headers={"Host": "localhost:8050"}).status_code == 200
    for name in ("evil.example:8050", "", "evil.example@127.0.0.1", "127.0.0.1.evil.example", "[::1", "[evil]:8050"):
        expected = 200 if name == "[::1" else 403
        assert client.get("/", headers={"Host": name}).status_code == expected, name


def test_a_page_of_another_site_gets_nothing_done(client):
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        assert client.post("/table", headers=HERE | headers).status_code == 403, headers
        assert client.get("/answer", query_string=NO_RUNS, headers=HERE | headers).status_code == 403, headers
        assert client.get("/report", query_string=NO_RUNS, headers=HERE | headers).status_code == 403, headers


@pytest.mark.parametrize("value", ["", "-1", "1e308", "nan", "x", "\0", "-", "--json", "a=b", "é" * 5000, "[[]]", "%"])
def test_values_made_by_hand_are_no_errors_of_the_server(client, value):
    for one in fields():
        if one.name not in ("where", "n_params"):  # with the size given as it is here, nothing is fitted for long
            continue
        for table in ("none", "given", "guessed", value):
            asked = {"table": table, "n_params": "", one.name: value}
            assert client.get("/answer", query_string=asked, headers=HERE).status_code < 500
            assert client.get("/", query_string=asked, headers=HERE).status_code < 500
    asked = {**NO_RUNS, **{one.name: value for one in fields() if one.name not in NO_RUNS}}
    assert client.get("/answer", query_string=asked, headers=HERE).status_code < 500
    assert client.post("/table", data={"table": value, "file": value}, headers=HERE).status_code == 400


def test_the_page_tells_the_browser_to_stay_here(client):
    answer = client.get("/", headers={"Host": LOOPBACK[0]})
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert "script-src 'self';" in POLICY
    assert "connect-src 'self'" in POLICY
    text = answer.get_data(as_text=True)
    assert '<html lang="en">' in text
    assert "https://" not in text
    assert "cdn" not in text


def test_what_is_typed_is_text_of_the_page_and_no_part_of_it(client):
    nasty = "</script><script>alert(1)</script>"
    for place in ("/", "/answer"):
        asked = {**NO_RUNS, "n_params": nasty, "ptpp": nasty, "table": "none"}
        text = client.get(place, query_string=asked, headers=HERE).get_data(as_text=True)
        assert "alert(1)" in text
        assert nasty not in text


def test_a_body_beyond_the_limit_is_refused(client):
    body = b"x" * (server.MOST_BODY + 1)
    answer = client.post("/table", data=body, headers=HERE, content_type="multipart/form-data; boundary=y")
    assert answer.status_code == 413


def test_connections_that_say_nothing_keep_nobody_out(client):
    """A hundred and fifty that never finish their request: others are answered at once, and they are closed."""
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    with running(server._server(build(), listening, silence=2)), contextlib.ExitStack() as opened:
        silent = [opened.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(150)]
        for one in silent:
            one.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        begun = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
            assert answer.status == 200
        assert time.monotonic() - begun < 5
        silent[0].settimeout(20)
        assert silent[0].recv(1000) == b""  # closed by the server


def test_another_host_comes_with_a_warning(monkeypatch):
    monkeypatch.setattr(server, "serve", lambda *_: None)
    said = []
    cptlaw_app.app(host="0.0.0.0", port=0, tell=said.append)
    assert lacks(said[0], "warning: ", "0.0.0.0") == []
    said.clear()
    cptlaw_app.app(port=0, tell=said.append)
    assert len(said) == 1
    assert said[0].startswith("cptlaw app on http://127.0.0.1:")
