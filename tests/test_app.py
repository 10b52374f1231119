"""The app without a browser: what moves show, what uploads may do, and who is answered."""

import base64
import io
import threading

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
import cptlaw.reporting.app as package
from cptlaw.errors import CptlawError, DataError, UsageError
from cptlaw.reporting.app.layout import planning_laws
from cptlaw.reporting.app.moves import BASE, COVERAGE, Fitted, move, reference_of
from cptlaw.reporting.app.server import LOOPBACK, POLICY, build, listen
from cptlaw.reporting.app.session import IDLE, MOST_PAGES, MOST_SESSIONS, Session, Sessions
from cptlaw.reporting.app.upload import LARGEST, columns_of, decode, read_upload
from cptlaw.units import parse_quantity

pytest.importorskip("plotly", reason="the app needs Plotly: pip install 'cptlaw[app]'")

ROWS = (
    "replay in (0.1, 0.25, 0.5) and lr_schedule == 'constant' and atpp >= 1.9 and ptpp in (31, 62, 124) "
    "and seed == 0 and n_params != 75072"
)
QUESTION = {
    "n_params": 124_672.0, "ptpp": 279.0, "replay": 0.25, "tokens": 1e6, "max_forgetting": 0.25, "max_target_loss": 1.7,
    "risk": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def fitted():
    runs = cl.examples.load("en-fr-pilot")
    return Fitted.build(*(cl.fit("ptpp-floor", runs, on=on, where=ROWS, starts=24) for on in ("target", "source")))


def test_a_move_shows_what_the_library_plans(fitted):
    found = move(fitted, QUESTION)
    plan = cl.plan.min_tokens(
        fitted.target,
        fitted.source,
        n_params=124_672,
        ptpp=279,
        max_forgetting=0.25,
        max_target_loss=1.7,
        interval=None,
    )
    assert found.feasible == plan.feasible
    assert dict(found.plan_lines) == dict(plan.lines)
    frame = pd.DataFrame([{name: QUESTION[name] for name in fitted.target.law.inputs}])
    assert dict(found.lines)["target loss"].startswith(f"{fitted.target.predict(frame)[0]:.4f} nats")
    assert any(trace.name == "your mix" for trace in found.figure.drawing.data)


def test_the_doubt_comes_after_the_answer(fitted):
    quick, later = move(fitted, QUESTION), move(fitted, QUESTION, doubt=True)
    frame = pd.DataFrame([{name: QUESTION[name] for name in fitted.target.law.inputs}])
    full = fitted.target.forecast(frame, COVERAGE).iloc[0]
    answer = dict(quick.lines)["target loss"].removesuffix(" nats per token")
    assert dict(later.lines)["target loss"] == f"{answer} ({full['lo']:.4f} to {full['hi']:.4f}) nats per token"
    assert later.plan_lines == quick.plan_lines


def test_a_risk_costs_tokens_and_ends_near_the_full_plan(fitted):
    question = {**QUESTION, "max_forgetting": 0.3, "max_target_loss": 1.75, "risk": 0.9}
    quick, sure = (dict(move(fitted, question, doubt).plan_lines) for doubt in (False, True))
    limits = {"max_forgetting": 0.3, "max_target_loss": 1.75}
    full = cl.plan.min_tokens(
        fitted.target, fitted.source, n_params=124_672, ptpp=279, **limits, risk=0.9, interval=None
    )
    certain = cl.plan.min_tokens(fitted.target, fitted.source, n_params=124_672, ptpp=279, **limits, interval=None)
    for lines, plan in ((quick, certain), (sure, full)):
        assert parse_quantity(lines["tokens"].split(" ")[0]) == pytest.approx(plan.tokens, rel=1e-3)
    assert full.tokens > certain.tokens
    assert "price of doubt" in sure


def test_an_infeasible_question_is_an_answer(fitted):
    found = move(fitted, {**QUESTION, "max_target_loss": 0.9})
    assert found.feasible is False
    assert dict(found.plan_lines)["blocking"] == "max-target-loss"
    assert not move(fitted, {**QUESTION, "max_target_loss": 0.9, "risk": 0.95}, doubt=True).feasible


def test_the_reference_is_measured_where_it_can_be_and_said_where_not(fitted):
    assert reference_of(fitted, QUESTION) == ({}, ())
    reference, notes = reference_of(fitted, {**QUESTION, "n_params": 2e5})
    assert reference == {"reference": BASE}
    assert notes[0].code == "reference"
    assert reference_of(fitted, {**QUESTION, "base_source_loss": 1.8})[0] == {"base_source_loss": 1.8}


def test_without_a_source_fit_there_is_a_forecast_and_no_map(fitted):
    alone = Fitted.build(fitted.target, None)
    found = move(alone, QUESTION)
    assert found.figure is None
    assert "source loss" not in dict(found.lines)
    assert found.feasible
    assert "risk" in dict(move(alone, {**QUESTION, "risk": 0.9}, doubt=True).plan_lines)


def test_laws_on_offer_can_be_planned_with():
    laws = planning_laws()
    assert {"ptpp-floor", "dcpt-l3", "ptpp-gated-floor"} <= set(laws)
    assert not {"ptpp-base", "ptpp-oracle", "lr-annealing", "dcpt-cross-k1"} & set(laws)


def upload(text, name="runs.csv"):
    content = text if isinstance(text, bytes) else text.encode()
    return decode(f"data:text/csv;base64,{base64.b64encode(content).decode()}", name)


TABLE = "run,eval,loss,n_params,tokens,replay\na,target,2.5,1e6,1e6,0.1\nb,target,2.4,1e6,2e6,0.1\n"


def test_uploads_are_read_with_the_messages_of_the_command_line_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runs = read_upload(*upload(TABLE, "C:\\fake\\..\\runs.csv"))
    assert len(runs) == 2
    assert str(runs.path) == "runs.csv"
    with pytest.raises(DataError, match=r"^bad\.csv, row 3, .*'x'"):
        read_upload(*upload(TABLE.replace("2.4", "x"), "bad.csv"))
    with pytest.raises(DataError, match="is empty") as empty:
        read_upload(*upload("", "empty.csv"))
    assert str(tmp_path) not in str(empty.value)
    assert list(tmp_path.iterdir()) == []


def test_uploads_beyond_what_is_read_are_refused():
    for name in ("runs.pkl", "runs.csv.gz", "../../etc/passwd", "x.html"):
        with pytest.raises(DataError, match="files of this kind"):
            upload(TABLE, name)
    with pytest.raises(DataError, match="more than the 20 MB"):
        decode("data:,," + "A" * int(LARGEST * 4 / 3 + 10), "runs.csv")
    with pytest.raises(DataError, match="damaged"):
        decode("data:text/csv;base64,%%%", "runs.csv")


@pytest.mark.parametrize("stem", ["a" * 300, "a\0b", "\ud800", "..", "/", "\x1b[31m", " ", "é" * 200, "C:\\x\\.."])
def test_odd_names_of_uploads_are_only_shown(tmp_path, monkeypatch, stem):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runs = read_upload(*upload(TABLE, f"{stem}.csv"))
    assert len(runs) == 2
    assert "\x1b" not in str(runs.path)
    assert len(str(runs.path)) <= 100
    assert list(tmp_path.iterdir()) == []


def test_a_small_file_that_unpacks_to_much_is_refused_by_its_footer(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    column = pa.array(np.zeros(3_000_000))
    pq.write_table(pa.table({"loss": column}), tmp_path / "much.parquet")
    content = (tmp_path / "much.parquet").read_bytes()
    assert len(content) < 100_000
    with pytest.raises(DataError, match="3,000,000 rows of 1 columns"):
        read_upload(*upload(content, "much.parquet"))
    pq.write_table(pa.table({f"c{place}": pa.array([0.0]) for place in range(120)}), tmp_path / "wide.parquet")
    with pytest.raises(DataError, match="'loss'"):
        read_upload(*upload((tmp_path / "wide.parquet").read_bytes(), "wide.parquet"))


def test_code_in_a_table_is_text(tmp_path):
    evil = "__import__('os').system('touch /tmp/cptlaw-owned')"
    runs = read_upload(*upload(TABLE.replace("a,target", f'"{evil}",target').replace("b,target", "=1+1,target")))
    assert evil in set(runs.frame["run"])


def test_unknown_columns_can_be_mapped():
    text = TABLE.replace("loss", "bpb_like").replace("run", "job_name")
    with pytest.raises(CptlawError, match="'loss'"):
        read_upload(*upload(text))
    names, taken = columns_of(*upload(text))
    assert "bpb_like" in names
    assert taken["tokens"] == "tokens"
    assert len(read_upload(*upload(text), {"loss": "bpb_like", "run": "job_name"})) == 2
    assert columns_of("broken.parquet", b"no") == ([], {})


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

    job = session.begin("fit", work)
    assert session.begin("fit", work) is None
    go.set()
    assert ended.wait(10)
    for _ in range(100):
        if job.done:
            break
        threading.Event().wait(0.05)
    assert job.problem == "a message"


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
    opened = call_back(client, "session.data", [stores["token"]], [None])
    key = opened.get_json()["response"]["session"]["data"]
    for _ in range(3 * MOST_SESSIONS):
        client.get("/", headers={"Host": "127.0.0.1"})
        client.get("/_dash-layout", headers={"Host": "127.0.0.1"})
        call_back(client, "session.data", ["guessed"], [None])
    shown = call_back(client, "summary.children", [1], [key])
    assert "Runs: " in shown.get_data(as_text=True)


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
    key = call_back(client, "session.data", [token], [None]).get_json()["response"]["session"]["data"]
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
    monkeypatch.setattr(package, "serve", lambda *_: None)
    said = []
    package.app(host="0.0.0.0", port=0, tell=said.append)
    assert said[0].startswith("warning: 0.0.0.0 can be reached from other machines")
    said.clear()
    package.app(port=0, tell=said.append)
    assert len(said) == 1
    assert said[0].startswith("cptlaw app on http://127.0.0.1:")
