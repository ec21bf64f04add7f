"""`jobsleuth layout test` and `jobsleuth guess`: what they tell of real dumps, and that their answers can be used."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import jobsleuth
from jobsleuth.dialects.layouts.file import load_layouts
from tests.cli.conftest import FIXTURES, run_jobsleuth
from tests.dialects.bullmq.conftest import Writer

LISTS = FIXTURES / "lists" / "plain-7.0.15" / "evidence.rdb"
DESCRIPTION = FIXTURES / "lists" / "layouts.toml"
BULLMQ = FIXTURES / "bullmq" / "v5-every-state" / "evidence.rdb"


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return [line.rstrip() for line in done.stdout.splitlines()]


def test_every_pattern_is_told_with_its_line(tmp_path: Path) -> None:
    """Keys of each pattern, jobs by state, ids without a record."""
    told = lines(run_jobsleuth("layout", "test", LISTS, "--layout", DESCRIPTION, cwd=tmp_path))
    text = DESCRIPTION.read_text(encoding="utf-8").splitlines()
    place = {row.split('"')[1]: n for n, row in enumerate(text, 1) if row.startswith(("key =", "lock ="))}
    assert told[0] == "shop  (line 3)  1 queue, 5 jobs: 2 active, 1 unknown, 2 waiting"
    assert told[1:3] == ["  1 id has no record", "  1 job is in no structure: is one not described?"]
    for pattern, what, keys in (
        ("shop:work:{queue}", "list, waiting", "1 key"),
        ("shop:work:{queue}:busy", "list, active", "1 key"),
        ("shop:lock:{id}", "string, locks", "1 key"),
        ("shop:job:{id}", "hash, records", "4 keys"),
        ("clock:due", "zset, delayed", "1 key"),
        ("clock:{{{id}}}", "string, records", "2 keys"),
    ):
        assert f"  line {place[pattern]}  {pattern}  ({what}): {keys}" in told


def test_doubts_are_told(tmp_path: Path) -> None:
    """A key that fits twice, keys that begin alike, a pattern without a key, keys of a library."""
    file = tmp_path / "l.toml"
    file.write_text(
        '[[layout]]\nname = "x"\n'
        '[[layout.structure]]\nkey = "shop:{queue}:eu"\ntype = "list"\nstate = "waiting"\n'
        '[[layout.structure]]\nkey = "shop:work:{queue}"\ntype = "list"\nstate = "retry"\n'
        '[[layout.structure]]\nkey = "bull:{queue}:wait"\ntype = "list"\nstate = "waiting"\nname = "theirs"\n',
        encoding="utf-8",
    )
    told = lines(run_jobsleuth("layout", "test", LISTS, "--layout", file, cwd=tmp_path))
    assert "in doubt: shop:work:eu is taken by shop:{queue}:eu, fits shop:work:{queue} too" in told
    assert "  line 8  shop:work:{queue}  (list, retry): takes no key" in told
    assert "    begin like it, fit no pattern: shop:work:eu:busy" in told
    told = lines(run_jobsleuth("layout", "test", BULLMQ, "--layout", file, cwd=tmp_path))
    assert any(line.startswith("not taken: bull:") and line.endswith(" belongs to BullMQ") for line in told)


def test_fields_that_no_record_has_are_told(tmp_path: Path) -> None:
    """A slip in a field's name leaves its column empty: `layout test` says so with the line, and the case has a warning
    with the number of records; a field that one record has is in order."""
    file = tmp_path / "l.toml"
    text = DESCRIPTION.read_text(encoding="utf-8").replace('name = "kind"', 'name = "knid"')
    file.write_text(text.replace('attempts = "tries"', 'attempts = "kind"'), encoding="utf-8")
    told = lines(run_jobsleuth("layout", "test", LISTS, "--layout", file, cwd=tmp_path))
    found = {row: n for n, row in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)}
    expected = [
        (found['name = "knid"'], "no record of shop has the field knid (name)"),
        (found['attempts = "kind"'], "no record of shop has a whole number in the field kind (attempts)"),
    ]
    assert [row for row in told if "no record of" in row] == [f"  line {line}  {what}" for line, what in expected]
    case = jobsleuth.analyze(LISTS, tmp_path / "c", jobsleuth.AnalyzeOptions(described=load_layouts(file)))
    warnings = case.query("select message, count from warnings where kind = 'field_never_there' order by 1").to_pylist()
    assert sorted((row["message"], row["count"]) for row in warnings) == sorted(
        (f"line {line} of the layouts: {what}", 4) for line, what in expected
    )


def test_plain_lists_are_tested_too(tmp_path: Path) -> None:
    """Patterns of [lists] with their lines, a key that fits and is no list, and what a slip leaves without keys."""
    file = tmp_path / "jobsleuth.toml"
    file.write_text(
        '[lists]\nwaiting = [\n  "recent:{queue}",\n  "queue:{queue}",\n  "nobody:{queue}"\n]\n'
        'processing = ["queue:{queue}:processing:{worker}"]\n',
        encoding="utf-8",
    )
    told = lines(run_jobsleuth("layout", "test", LISTS, cwd=tmp_path))
    assert [line for line in told if not line.startswith("    ")] == [
        "plain list  (line 3)  1 queue, 1 job: 1 waiting",
        "  line 3  recent:{queue}  (list, waiting): 1 key",
        "",
        "plain list  (line 4)  1 queue, 11 jobs: 3 processing, 8 waiting",
        "  line 4  queue:{queue}  (list, waiting): 1 key",
        "  line 7  queue:{queue}:processing:{worker}  (list, processing): 2 keys",
        "",
        "plain list  (line 5)  0 queues, 0 jobs",
        "  line 5  nobody:{queue}  (list, waiting): takes no key",
        "",
    ]
    assert "    fit by name, but not by type: queue:set is a set" in told


def test_mistakes_end_the_command_with_their_line(tmp_path: Path) -> None:
    """Exit 2 and one line, for `layout test` and for `analyze`; nothing is left behind."""
    file = tmp_path / "l.toml"
    text = DESCRIPTION.read_text(encoding="utf-8")
    file.write_text(text.replace('unit = "s"', 'unit = "us"'), encoding="utf-8")
    line = next(n for n, row in enumerate(text.splitlines(), 1) if 'unit = "s"' in row)
    for words in (["layout", "test", LISTS], ["analyze", LISTS, "--out", "c"]):
        done = run_jobsleuth(*words, "--layout", file, cwd=tmp_path)
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr.startswith(f"jobsleuth: {file}: line {line}: 4 of 4 values of created_at are no times")
    assert not (tmp_path / "c").exists()
    done = run_jobsleuth("layout", "test", LISTS, cwd=tmp_path)
    assert done.returncode == 2 and "no layout is described" in done.stderr


def test_layouts_in_the_policy_file_of_the_folder(tmp_path: Path) -> None:
    """./jobsleuth.toml is read without being named, by `layout test` and by `analyze`."""
    (tmp_path / "jobsleuth.toml").write_text(DESCRIPTION.read_text(encoding="utf-8"), encoding="utf-8")
    assert lines(run_jobsleuth("layout", "test", LISTS, cwd=tmp_path))[0].startswith("shop  (line 3)  1 queue")
    assert run_jobsleuth("analyze", LISTS, "--out", "c", "--quiet", cwd=tmp_path).returncode == 0
    case = jobsleuth.open_case(tmp_path / "c")
    assert case.query("select distinct layout from queues where dialect = 'layouts' order by 1").to_pylist() == [
        {"layout": "clock"},
        {"layout": "shop"},
    ]


def test_a_guess_can_be_pasted(tmp_path: Path) -> None:
    """What is suggested for the home-made layout reads it: the same jobs and states as the hand-written one."""
    done = run_jobsleuth("guess", LISTS, "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    shop = next(g for g in found if g["keys"] == ["shop:work:eu", "shop:work:eu:busy"])
    assert shop["kind"] == "lists with ids, and a hash for each job"
    assert "shop:work:eu:busy: 2 of 2 members name a hash that exists" in shop["why"]
    file = tmp_path / "l.toml"
    file.write_text(shop["layout"], encoding="utf-8")
    options = jobsleuth.AnalyzeOptions(described=load_layouts(file))
    case = jobsleuth.analyze(LISTS, tmp_path / "c", options)
    rows = case.query("select job_id, state, has_record from jobs where dialect = 'layouts' order by 1").to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("1", "waiting", True),
        ("2", "processing", True),
        ("3", "processing", True),
        ("4", "unknown", True),
        ("9", "waiting", False),
    ]
    shown = run_jobsleuth("guess", LISTS, cwd=tmp_path).stdout
    assert all(line in shown.splitlines() for line in shop["layout"].splitlines())


def test_what_is_described_is_not_guessed_again(tmp_path: Path) -> None:
    """Keys that ./jobsleuth.toml or --layout describes belong to somebody: only the others are offered."""
    asked = run_jobsleuth("guess", LISTS, "--json", cwd=tmp_path)
    before = {key for g in json.loads(asked.stdout) for key in g["keys"]}
    described = {"clock:due", "shop:work:eu", "shop:work:eu:busy"}
    assert before & described
    given = run_jobsleuth("guess", LISTS, "--json", "--layout", DESCRIPTION, cwd=tmp_path)
    (tmp_path / "jobsleuth.toml").write_text(DESCRIPTION.read_text(encoding="utf-8"), encoding="utf-8")
    found = run_jobsleuth("guess", LISTS, "--json", cwd=tmp_path)
    assert given.stdout == found.stdout
    assert {key for g in json.loads(found.stdout) for key in g["keys"]} == before - described


def test_every_guess_is_a_layout(tmp_path: Path) -> None:
    """Whatever the keys are called, the suggestion is TOML that the reader takes."""
    for dump in (LISTS, FIXTURES / "bullmq" / "v6-hostile" / "evidence.rdb"):
        for nth, guess in enumerate(json.loads(run_jobsleuth("guess", dump, "--json", cwd=tmp_path).stdout)):
            if guess["layout"] is not None:
                file = tmp_path / f"{nth}.toml"
                file.write_text(guess["layout"], encoding="utf-8")
                assert tomllib.loads(guess["layout"])["layout"] and load_layouts(file).layouts


def test_queues_of_libraries_are_no_guess(tmp_path: Path) -> None:
    """A dump of one library has nothing left to guess; a stream without a group is told as such."""
    nothing = "Nothing that no library claims looks like a queue."
    assert lines(run_jobsleuth("guess", BULLMQ, cwd=tmp_path)) == [nothing]
    streams = FIXTURES / "streams" / "groups-7.0.15" / "evidence.rdb"
    assert lines(run_jobsleuth("guess", streams, cwd=tmp_path))[0] == "1  streams without a consumer group  1 key"


def test_an_id_of_several_queues_is_asked_back(tmp_path: Path) -> None:
    """Each queue is named once, however many databases hold it, and the hint names one that can be pasted."""
    rdb = Writer(tmp_path / "evidence.rdb")
    for db in (0, 1):
        rdb.db(db)
        rdb.put(b"queue:a b", [b'{"id": 7}'])
        rdb.put(b"queue:c", [b'{"id": 7}'])
    rdb.read()
    assert run_jobsleuth("analyze", rdb.path, "--out", "c", "--quiet", cwd=tmp_path).returncode == 0
    asked = run_jobsleuth("job", "c", "7", cwd=tmp_path)
    assert (asked.returncode, asked.stdout) == (2, "")
    assert asked.stderr.lower().splitlines() == [
        "jobsleuth: c: job 7 is in several queues: queue/a b, queue/c",
        "  say which: --queue 'queue/a b'",
    ]
    assert run_jobsleuth("job", "c", "7", "--queue", "queue/a b", cwd=tmp_path).returncode == 0


def test_what_stands_on_the_screen_can_be_pasted(tmp_path: Path) -> None:
    """Names with escapes, markup, braces, line ends and other alphabets: the lines of the layouts, copied from the
    screen, take the keys they were made for, and nothing but text is printed."""
    rdb = Writer(tmp_path / "evidence.rdb")
    job = b'{"id": "a", "created_at": 1700000000}'
    names = ["\x1b]0;x\x07", "\u202eevil", "x\r\ny", 'q"\\', "{queue}", "\U0001f600", "<script>", "\x7f"]
    for name in names:
        rdb.put(f"{name}:wait".encode(), [job])
        rdb.put(f"{name}:busy".encode(), [job])
    rdb.read()
    shown = run_jobsleuth("guess", rdb.path, cwd=tmp_path).stdout
    assert all(line.isprintable() for line in shown.splitlines())
    pasted, inside = [], False
    for line in shown.splitlines():
        inside = (inside or line == "[[layout]]") and not line[:1].isdigit()
        pasted += [line] if inside else []
    (tmp_path / "jobsleuth.toml").write_text("\n".join(pasted), encoding="utf-8")
    told = lines(run_jobsleuth("layout", "test", rdb.path, cwd=tmp_path))
    assert all(line.isprintable() for line in told)
    assert not [line for line in told if "in doubt" in line or "not taken" in line or "takes no key" in line]
    assert run_jobsleuth("analyze", rdb.path, "--out", "c", "--quiet", cwd=tmp_path).returncode == 0
    case = jobsleuth.open_case(tmp_path / "c")
    keys = {row["key"] for row in case.query("select key from keys where dialect = 'layouts'").to_pylist()}
    assert keys == {f"{name}:{role}" for name in names for role in ("wait", "busy")}
