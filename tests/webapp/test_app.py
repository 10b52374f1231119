"""The app without a browser: what moves show, what uploads may do, and who is answered."""

import base64
import io
import threading

import numpy as np
import pandas as pd
import pytest

import cptlaw as cl
import cptlaw.webapp as package
from cptlaw.errors import CptlawError, DataError, UsageError
from cptlaw.findings import Finding
from cptlaw.webapp import controls, sentences
from cptlaw.webapp.fitted import Fitted
from cptlaw.webapp.layout import planning_laws
from cptlaw.webapp.moves import COVERAGE, move
from cptlaw.webapp.scenario import Scenario, read_address
from cptlaw.webapp.server import LOOPBACK, POLICY, build, listen
from cptlaw.webapp.session import IDLE, MOST_PAGES, MOST_SESSIONS, Loaded, Session, Sessions, Shelf
from cptlaw.webapp.tabled import Tabled
from cptlaw.webapp.upload import LARGEST, columns_of, decode, read_upload

pytest.importorskip("plotly", reason="the app needs Plotly: pip install 'cptlaw[app]'")

ROWS = (
    "replay in (0.1, 0.25, 0.5) and lr_schedule == 'constant' and atpp >= 1.9 and ptpp in (31, 62, 124) "
    "and seed == 0 and n_params != 75072"
)
MODEL = {"n_params": 124_672.0, "ptpp": 279.0}
FEWEST = Scenario(**MODEL, max_forgetting=0.25, max_target_loss=1.7)
AT_TOKENS = Scenario(**MODEL, tokens=1e6, max_forgetting=0.25)
GIVEN = Scenario(**MODEL, tokens=1e6, replay=0.25, max_forgetting=0.25)


@pytest.fixture(scope="module")
def runs():
    return cl.examples.load("en-fr-pilot")


@pytest.fixture(scope="module")
def fitted(runs):
    return Fitted.build(*(cl.fit("ptpp-floor", runs, on=on, where=ROWS, starts=24) for on in ("target", "source")))


@pytest.fixture(scope="module")
def average(runs):
    return Fitted.build(*(cl.fit("auto", runs, on=on, where=ROWS) for on in ("target", "source")))


def changed(scenario, **values):
    return Scenario(**{**vars(scenario), **values})


@pytest.mark.parametrize(
    ("scenario", "plan", "more"),
    [(FEWEST, cl.plan.min_tokens, {"max_target_loss": 1.7}), (AT_TOKENS, cl.plan.trade_off, {"tokens": 1e6})],
)
def test_a_move_shows_what_the_library_plans(fitted, scenario, plan, more):
    found = move(fitted, scenario)
    known = plan(fitted.target, fitted.source, **MODEL, max_forgetting=0.25, interval=None, **more)
    assert (found.plan.replay, found.plan.tokens) == pytest.approx((known.replay, known.tokens), rel=1e-6)
    assert found.plan.target_loss == pytest.approx(known.target_loss, rel=1e-6)
    assert f"a target loss of {known.target_loss:.4g} and forgetting of 25%." in found.sentence
    assert any(trace.name == "plan" for trace in found.chart.drawing.data)
    assert found.chances == ()


def test_the_doubt_comes_after_the_answer(fitted):
    quick, later = move(fitted, GIVEN), move(fitted, GIVEN, doubt=True)
    frame = pd.DataFrame([{**MODEL, "tokens": 1e6, "replay": 0.25}])
    full = fitted.target.forecast(frame, COVERAGE).iloc[0]
    assert quick.plan.target_loss == pytest.approx(full["loss"])
    assert quick.plan.target_loss_lo is None
    ends = (later.plan.target_loss_lo, later.plan.target_loss_hi)
    assert ends == pytest.approx((full["lo"], full["hi"]), rel=1e-3)
    assert f"({ends[0]:.4g} to {ends[1]:.4g})" in later.sentence
    assert "lo" not in quick.curves.data
    assert (later.curves.data["lo"] < later.curves.data["hi"]).all()
    assert any(trace.name == "your mix" for trace in later.chart.drawing.data)


def test_a_risk_costs_tokens_and_says_how_likely_the_limits_hold(fitted):
    scenario = changed(FEWEST, max_forgetting=0.3, max_target_loss=1.75, risk=0.9)
    quick, sure = (move(fitted, scenario, doubt, draws=False) for doubt in (False, True))
    limits = {"max_forgetting": 0.3, "max_target_loss": 1.75}
    full = cl.plan.min_tokens(fitted.target, fitted.source, **MODEL, **limits, risk=0.9, interval=None, savings=False)
    assert sure.plan.tokens == pytest.approx(full.tokens, rel=1e-3)
    assert sure.plan.tokens > quick.plan.tokens
    assert any("the certainty costs" in text for text in sure.asides)
    assert min(sure.probabilities.values()) == pytest.approx(0.9, abs=0.01)
    assert any(text.startswith("Target loss at most 1.75: likely (90%)") for text in sure.chances)


def test_a_mix_that_keeps_a_limit_too_seldom_says_so(fitted):
    tight = changed(GIVEN, max_forgetting=move(fitted, GIVEN).plan.forgetting)
    assert (
        move(fitted, tight, doubt=True, draws=False)
        .chances[0]
        .endswith("a coin toss (50%), less than the 80% asked for")
    )


def test_an_infeasible_question_is_an_answer(fitted):
    quick = move(fitted, changed(FEWEST, max_target_loss=0.9))
    assert quick.plan.feasible is False
    assert quick.sentence == "No mix keeps forgetting at most 25% and target loss at most 0.9."
    found = move(fitted, changed(FEWEST, max_target_loss=0.9), doubt=True, draws=False)  # what would do comes with it
    assert found.sentence.startswith("No mix keeps forgetting at most 25% and target loss at most 0.9")
    assert "the lowest target loss in reach is" in found.sentence
    assert (
        "with 95% probability"
        in move(fitted, changed(FEWEST, max_target_loss=0.9, risk=0.95), True, draws=False).sentence
    )
    with pytest.raises(UsageError, match="Tick the limit on the target loss"):
        move(fitted, changed(FEWEST, max_target_loss=None))


def test_the_reference_is_measured_where_it_can_be_and_said_where_not(fitted):
    assert move(fitted, GIVEN).plan.reference == "measured"
    other = move(fitted, changed(GIVEN, n_params=2e5))
    assert other.plan.reference == "base-law"
    assert [note.code for note in other.notes if note.code == "reference"] == ["reference"]
    assert move(fitted, changed(GIVEN, base_source_loss=1.8)).plan.base_source_loss == 1.8


def test_without_a_source_fit_there_is_a_forecast_and_no_map(fitted):
    alone = Fitted.build(fitted.target, None)
    for scenario in (GIVEN, AT_TOKENS, changed(FEWEST, max_target_loss=1.8)):
        found = move(alone, changed(scenario, max_forgetting=None))
        assert found.chart is None
        assert found.plan.feasible
        assert "forgetting" not in found.sentence
    assert "max_forgetting" not in controls.spans(alone, controls.first(alone))


def test_an_average_is_read_off_a_table_that_is_right(average):
    quick, exact = average.planned[0], average.target
    assert isinstance(quick, Tabled)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "n_params": 124_672.0,
            "ptpp": 279.0,
            "lr_peak": 0.003,
            "tokens": np.exp(rng.uniform(np.log(1e5), np.log(1e8), 200)),
            "replay": rng.uniform(0.1, 0.5, 200),
        }
    )
    np.testing.assert_allclose(quick.predict(rows), exact.predict(rows), rtol=1e-4)
    odd = rows.assign(replay=np.where(np.arange(200) == 3, 0.9, 0.3))  # beyond the table: the average itself
    np.testing.assert_allclose(quick.predict(odd), exact.predict(odd), rtol=1e-12)
    two = rows.assign(n_params=np.where(np.arange(200) < 100, 45_936.0, 124_672.0))
    np.testing.assert_allclose(quick.predict(two), exact.predict(two), rtol=1e-12)
    found = move(average, AT_TOKENS)
    known = cl.plan.trade_off(average.target, average.source, **MODEL, tokens=1e6, max_forgetting=0.25, interval=None)
    assert found.plan.replay == pytest.approx(known.replay, abs=2e-4)


def test_controls_start_with_an_answer_and_give_back_what_they_show(fitted):
    start = controls.first(fitted)
    assert (start.n_params, start.ptpp) == (124_672.0, 124.0)
    assert move(fitted, start, doubt=True, draws=False).plan.feasible
    spans = controls.spans(fitted, start)
    sliders = {name: str(span[2]) for name, span in spans.items()}
    read = controls.read(fitted, sliders, {"replay": ["on"], "max_forgetting": ["on"]}, controls.BEST, "")
    assert vars(read) == pytest.approx(vars(start))
    with pytest.raises(UsageError, match="not a number"):
        controls.read(fitted, {**sliders, "tokens": "x"}, {}, controls.BEST, "")


def test_a_scenario_stands_in_the_address_and_comes_back():
    pin = FEWEST.to_query()
    table, scenario, pins = read_address(
        f"?table=abc&{GIVEN.to_query()}&pin={pin.replace('&', '%26').replace('=', '%3D')}"
    )
    assert (table, scenario, pins) == ("abc", GIVEN, [pin])
    assert read_address("?utm=1") == (None, None, [])
    assert read_address("?" + "x" * 10_000) == (None, None, [])
    for wrong in ("?tokens=nan", "?tokens=-5", "?n_params=__import__", "?tokens=1&risk=2", "?tokens=1&replay=7"):
        with pytest.raises(CptlawError):
            read_address(wrong)


def test_advice_speaks_of_the_controls_of_the_page():
    known = Finding("warning", "extrapolation", "far", "Give --where 'tokens > 1M' (see cptlaw fit).")
    assert "sliders" in sentences.advised(known).advice
    other = Finding(
        "info", "odd", "max_forgetting (--max-forgetting) is 3.", "Measure more. Use min_replay= or --fix it."
    )
    assert sentences.advised(other).advice == "Measure more."
    assert sentences.advised(other).message == "the limit on forgetting is 3."


def test_every_finding_of_the_example_can_be_followed_in_the_page(average):
    far = changed(FEWEST, n_params=1e8, max_target_loss=1.3)
    for scenario in (far, AT_TOKENS, changed(GIVEN, tokens=1e9)):
        for note in move(average, scenario, doubt=True, draws=False).notes:
            shown = sentences.advised(note)
            assert "--" not in shown.message + shown.advice
            assert "cptlaw" not in shown.advice


def test_a_table_is_taken_whole_or_not_at_all(runs, fitted):
    session, shelf = Session(loaded=Loaded(runs).with_fits(fitted)), Shelf()
    before = session.loaded

    def fails(tell):
        raise UsageError("no law can be fitted")

    job = session.begin("upload", fails)
    for _ in range(200):
        if job.done:
            break
        threading.Event().wait(0.02)
    assert job.problem == "no law can be fitted"
    assert session.loaded is before
    shelf.keep(before)
    assert shelf.table(runs.fingerprint[:12]) is before
    assert shelf.table("") is None
    assert shelf.fits(Loaded(runs)) is fitted
    assert shelf.fits(Loaded(runs, where="ptpp <= 31")) is None
    session.suggestion = "of the old table"
    session.take(Loaded(runs).with_fits(fitted))
    assert session.suggestion is None


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
    monkeypatch.setattr(package, "serve", lambda *_: None)
    said = []
    package.app(host="0.0.0.0", port=0, tell=said.append)
    assert said[0].startswith("warning: 0.0.0.0 can be reached from other machines")
    said.clear()
    package.app(port=0, tell=said.append)
    assert len(said) == 1
    assert said[0].startswith("cptlaw app on http://127.0.0.1:")
