"""The app as a server: whose requests are answered, and what pages made by hand may do."""

import io
import threading

import pytest

import cptlaw as cl
import cptlaw_app as package
from cptlaw.errors import CptlawError, UsageError
from cptlaw_app import server
from cptlaw_app.server import LOOPBACK, POLICY, build, listen
from cptlaw_app.session import IDLE, MOST_PAGES, MOST_SESSIONS, Session, Sessions
from cptlaw_app.upload import LARGEST

pytest.importorskip("plotly", reason="the app needs Plotly: pip install 'cptlaw[app]'")


def test_sessions_need_the_token_and_only_idle_ones_are_forgotten():
    now = [0.0]
    sessions = Sessions(Session, clock=lambda: now[0])
    for wrong in (None, "", "x", 5, ["x"], "\ud800"):
        with pytest.raises(CptlawError, match="Reload"):
            sessions.open(wrong)
        with pytest.raises(CptlawError, match="Reload"):
            sessions.get(wrong)
    names = [sessions.open(sessions.token) for _ in range(MOST_SESSIONS)]
    assert len(set(names)) == len(names)
    for _ in range(10):  # other pages come: those in use stay
        sessions.open(sessions.token)
    assert all(sessions.get(name) for name in names)
    now[0] = IDLE + 1.0
    kept = sessions.get(names[3])
    sessions.open(sessions.token)
    assert sessions.get(names[3]) is kept
    with pytest.raises(CptlawError, match="Reload the page"):
        sessions.get(names[0])
    while len(sessions) < MOST_PAGES:
        sessions.open(sessions.token)
    with pytest.raises(CptlawError, match="in use"):
        sessions.open(sessions.token)


def test_a_session_runs_one_job_at_a_time():
    sessions = Sessions(Session)
    names = [sessions.open(sessions.token)]
    session = sessions.get(names[-1])
    go, ended = threading.Event(), threading.Event()

    def work(tell):
        tell("half", 0.5)
        go.wait(10)
        ended.set()
        raise UsageError("a message")

    job = session.begin("laws", work)
    assert session.begin("upload", work) is None  # one fit at a time
    other = session.begin("suggest", lambda tell: 5)
    go.set()
    assert ended.wait(10)
    for _ in range(100):
        if job.done:
            break
        threading.Event().wait(0.05)
    assert job.problem == "a message"
    assert other.result == 5
    session.forget(job)
    assert "laws" not in session.jobs


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


@pytest.fixture(scope="module")
def client():
    pytest.importorskip("dash", reason="the app needs Dash: pip install 'cptlaw[app]'")
    return build(cl.examples.load("en-fr-pilot")).server.test_client()


def test_other_names_of_this_machine_are_refused(client):
    assert client.get("/", headers={"Host": "127.0.0.1:8050"}).status_code == 200
    assert client.get("/", headers={"Host": "localhost:8050"}).status_code == 200
    for name in ("evil.example:8050", "", "evil.example@127.0.0.1", "127.0.0.1.evil.example", "[::1", "[evil]:8050"):
        expected = 200 if name == "[::1" else 403
        assert client.get("/", headers={"Host": name}).status_code == expected, name


def test_a_page_of_another_site_gets_nothing_done(client):
    body = {"output": "x.y", "inputs": []}
    here = {"Host": "127.0.0.1:8050"}
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = client.post("/_dash-update-component", json=body, headers=here | headers)
        assert answer.status_code == 403, headers


def call_back(client, name, inputs=(), state=(), outputs=None):
    """Send what a page sends for the callback whose first output is `name`."""
    every = client.get("/_dash-dependencies", headers={"Host": "127.0.0.1"}).get_json()
    found = next(each for each in every if name in each["output"].split("...")[0])
    ids = [part.rsplit(".", 1) for part in found["output"].strip(".").split("...")]
    body = {
        "output": found["output"],
        "outputs": [{"id": key, "property": what} for key, what in ids] if outputs is None else outputs,
        "inputs": [{**each, "value": value} for each, value in zip(found["inputs"], inputs, strict=False)],
        "state": [{**each, "value": value} for each, value in zip(found["state"], state, strict=False)],
        "changedPropIds": [],
    }
    return client.post("/_dash-update-component", json=body, headers={"Host": "127.0.0.1"})


def test_asking_for_the_page_forgets_no_session(client):
    layout = client.get("/_dash-layout", headers={"Host": "127.0.0.1"}).get_json()
    stores = {each["props"].get("id"): each["props"].get("data") for each in layout["props"]["children"]}
    assert stores["session"] is None
    opened = call_back(client, "session.data", [stores["token"]], [None, "?tokens=nan"])
    told = opened.get_json()["response"]
    key = told["session"]["data"]
    assert "This link cannot be read" in str(told)
    for _ in range(3 * MOST_SESSIONS):
        client.get("/", headers={"Host": "127.0.0.1"})
        client.get("/_dash-layout", headers={"Host": "127.0.0.1"})
        call_back(client, "session.data", ["guessed"], [None])
    watched = call_back(client, "progress-upload.value", [1], [key, 0])
    assert "finding the laws" in watched.get_data(as_text=True)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"5", b"null", b'"x"', b"{", b"{}", b"\xff", b'{"output": 5}', b'{"output": []}']
)
def test_bodies_made_by_hand_are_no_errors_of_the_server(client, body):
    headers = {"Host": "127.0.0.1"}
    for kind in ("application/json", "text/plain"):
        answer = client.post("/_dash-update-component", data=body, headers=headers, content_type=kind)
        assert 400 <= answer.status_code < 500


@pytest.mark.parametrize("value", [None, -1, 1e308, "x", [], {}, [[]], "\u0000", True, {"id": 1}])
def test_values_made_by_hand_are_no_errors_of_the_server(client, value):
    token = client.get("/_dash-layout", headers={"Host": "127.0.0.1"}).get_json()["props"]["children"][0]["props"][
        "data"
    ]
    key = call_back(client, "session.data", [token], [None, None]).get_json()["response"]["session"]["data"]
    every = client.get("/_dash-dependencies", headers={"Host": "127.0.0.1"}).get_json()
    for each in every:
        name = each["output"].strip(".").split("...")[0]
        for state in ([value] * len(each["state"]), [*[value] * (len(each["state"]) - 1), key]):
            answer = call_back(client, name, [value] * len(each["inputs"]), state)
            assert answer.status_code < 500, name


def test_the_page_tells_the_browser_to_stay_here(client):
    answer = client.get("/", headers={"Host": LOOPBACK[0]})
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert "connect-src 'self'" in POLICY
    text = answer.get_data(as_text=True)
    assert '<html lang="en">' in text
    assert "https://" not in text
    assert "cdn" not in text


def test_a_body_beyond_the_limit_is_refused(client):
    body = io.BytesIO(b"x" * int(LARGEST * 4 / 3 + 3_000_000))
    answer = client.post(
        "/_dash-update-component", data=body, headers={"Host": "127.0.0.1"}, content_type="application/json"
    )
    assert answer.status_code == 413


def test_another_host_comes_with_a_warning(monkeypatch):
    pytest.importorskip("dash", reason="the app needs Dash: pip install 'cptlaw[app]'")
    monkeypatch.setattr(server, "serve", lambda *_: None)
    said = []
    package.app(host="0.0.0.0", port=0, tell=said.append)
    assert said[0].startswith("warning: 0.0.0.0 can be reached from other machines")
    said.clear()
    package.app(port=0, tell=said.append)
    assert len(said) == 1
    assert said[0].startswith("cptlaw app on http://127.0.0.1:")
