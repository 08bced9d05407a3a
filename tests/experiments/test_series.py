"""Readers of other tools' files: the layouts as the tools write them, and bad input in clear words."""

import json
from pathlib import Path
from typing import Any

import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.experiments.extrapolate.readings import Readings
from slipstick.experiments.extrapolate.series_files import read
from slipstick.experiments.extrapolate.surfaces import predict_surfaces


def write(folder: Path, name: str, content: Any) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def points(readings: Readings) -> list[tuple[Any, ...]]:
    names = readings.regions or ("",) * len(readings.times)
    return [(n, *map(float, p), float(t)) for n, p, t in zip(names, readings.points, readings.times, strict=True)]


@pytest.mark.parametrize(
    ("header", "cell", "seconds"),
    [
        ("time_s", "2", 2.0),
        ("time_ms", "2", 2e-3),
        ("time [us]", "2", 2e-6),
        ("runtime", "2", 2.0),
        ("time", "2 ms", 2e-3),
        ("wall_time_ns", "2", 2e-9),
    ],
)
def test_csv_units_are_read_from_header_or_cells(tmp_path: Path, header: str, cell: str, seconds: float) -> None:
    path = write(tmp_path, "a.csv", f"threads,{header}\n1,{cell}\n2,{cell}\n")
    readings = read(path)
    assert readings.parameters == ("threads",)
    assert readings.times == pytest.approx([seconds, seconds])


def test_csv_regions_repeats_and_constant_columns(tmp_path: Path) -> None:
    text = "region,threads,size,rep,time_s\na,1,7,1,3\na,2,7,1,2\na,2,7,2,4\nb,1,7,1,9\nb,2,7,1,8\n"
    one, two = read(write(tmp_path, "a.csv", text)).series()
    assert (one.name, one.x, one.y, one.repeats) == ("a", (1.0, 2.0), (3.0, 3.0), (1, 2))
    assert (two.name, two.parameter, two.y) == ("b", "threads", (9.0, 8.0))


def test_csv_with_parameter_and_value_columns(tmp_path: Path) -> None:
    text = "series,parameter,value,rep,time_s\nx,cores,4,1,3\nx,cores,2,1,5\n"
    (series,) = read(write(tmp_path, "a.csv", text)).series()
    assert (series.parameter, series.x, series.y) == ("cores", (2.0, 4.0), (5.0, 3.0))


@pytest.mark.parametrize("mark", [";", "\t"])
def test_columns_may_be_separated_by_semicolons_or_tabs(tmp_path: Path, mark: str) -> None:
    (series,) = read(write(tmp_path, "a.csv", f"threads{mark}time [ms]\n1{mark}8000\n2{mark}4100\n")).series()
    assert (series.x, series.y) == ((1.0, 2.0), (8.0, 4.1))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("threads,time\n1,2 ms\n2,3\n", r"some times carry a unit \('2 ms', line 2\), others none \('3', line 3\)"),
        ("threads,time_s\n1,fast\n", r"line 2: time_s: 'fast' is no quantity"),
        ("threads,time\n1,2 GB\n", r"line 2: time: unit 'GB' does not convert to s"),
        ("threads,time_s\n", r"no rows below the header"),
        ("threads,steps\n1,2\n", r"no column looks like a time"),
        ("threads,time_s,runtime\n1,2,3\n", r"several columns look like times \(time_s, runtime\)"),
        ("host,time_s\na,2\n", r"no parameter column with numbers"),
        ("threads,time_s\n1,2,3\n", r"line 2: 3 values for 2 columns"),
        ("1,104.04\n2,52.5\n", r"line 1: want the names of the columns, such as threads,time_s; got 1, 104.04"),
        ("threads;time_s\n1;104,04\n2;52.5\n", r"points \(line 3: '52.5'\) beside decimal commas \(line 2: '104,04'\)"),
        ("threads;time_ms\n1;8,004\n2;4,103\n", r"line 2: '8,004': the comma may part thousands or stand before"),
        ("n,time_s\n1,3\n2,2\nn,time_s\n1,9\n", r"line 4: the header again: two files in one"),
        ("n,time_s,exit code\n1,3,1\n2,2,137\n", r"all 2 runs failed \(exit code is not 0\)"),
        ("threads,time_s\n1,2\n2,\n", r"line 3: time_s is empty"),
        ("threads,time_s\n1,2\n2,-4\n", r"line 3: time_s = -4 s lies outside"),
    ],
)
def test_bad_csv_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(write(tmp_path, "a.csv", text))


def test_two_varying_parameters_need_a_choice(tmp_path: Path) -> None:
    readings = read(write(tmp_path, "a.csv", "threads,size,time_s\n1,1,3\n2,1,2\n1,2,6\n"))
    with pytest.raises(InputError, match="threads, size all vary"):
        readings.series()
    with pytest.raises(InputError, match="unknown parameter 'thread'; did you mean 'threads'"):
        readings.series("thread")


def test_extrap_text(tmp_path: Path) -> None:
    # layout: https://github.com/extra-p/extrap, docs/file-formats.md
    text = """PARAMETER p
POINTS 8 16 32
# a comment
METRIC time
REGION main
DATA 1 1.1
DATA 2
DATA 3
REGION solve
DATA	4
DATA 5
DATA 6
METRIC visits
DATA 7
"""
    main, solve = read(write(tmp_path, "a.txt", text)).series()
    assert (main.name, main.x, main.repeats) == ("main", (8.0, 16.0, 32.0), (2, 1, 1))
    assert solve.y == (4.0, 5.0, 6.0)


def test_extrap_text_between_tabs(tmp_path: Path) -> None:
    text = "# my runs\r\nPARAMETER\tp\r\nPOINTS\t4\t8\r\nREGION\tmain\r\nMETRIC\ttime\r\nDATA\t4\r\nDATA\t6\r\n"
    assert points(read(write(tmp_path, "a.out", text))) == [("", 4.0, 4.0), ("", 8.0, 6.0)]


def test_extrap_text_with_two_parameters(tmp_path: Path) -> None:
    text = "PARAMETER p n\nPOINTS (1 10) (2 10) (1 20)\nREGION r\nMETRIC time\nDATA 1\nDATA 2\nDATA 3\n"
    readings = read(write(tmp_path, "a.txt", text))
    assert readings.parameters == ("p", "n")
    assert points(readings) == [("", 1.0, 10.0, 1.0), ("", 2.0, 10.0, 2.0), ("", 1.0, 20.0, 3.0)]


def test_extrap_json_new_and_old_and_lines(tmp_path: Path) -> None:
    new = {
        "parameters": ["p"],
        "measurements": {"main": {"time": [{"point": [4], "values": [1, 3]}, {"point": 8, "values": [2]}]}},
    }
    old = {
        "parameters": [{"id": 1, "name": "p"}],
        "callpaths": [{"id": 1, "name": "main"}],
        "metrics": [{"id": 1, "name": "time"}],
        "coordinates": [
            {"id": i, "parameter_value_pairs": [{"parameter_id": 1, "parameter_value": str(v)}]}
            for i, v in ((1, 4), (2, 8))
        ],
        "measurements": [
            {"coordinate_id": c, "callpath_id": 1, "metric_id": 1, "value": v} for c, v in ((1, 1), (1, 3), (2, 2))
        ],
    }
    lines = "\n".join(
        json.dumps({"params": {"p": p}, "callpath": "main", "metric": "time", "value": v})
        for p, v in ((4, 1), (4, 3), (8, 2))
    )
    expected = [("", 4.0, 1.0), ("", 4.0, 3.0), ("", 8.0, 2.0)]
    assert points(read(write(tmp_path, "new.json", new))) == expected
    assert points(read(write(tmp_path, "old.json", old))) == expected
    assert points(read(write(tmp_path, "a.jsonl", lines))) == expected
    assert points(read(write(tmp_path, "lines.json", lines))) == expected


def test_hyperfine(tmp_path: Path) -> None:
    results = [
        {"command": f"sort {n}", "mean": n, "times": [n, n + 0.1], "parameters": {"n": str(n)}} for n in (1, 2, 4)
    ]
    (series,) = read(write(tmp_path, "a.json", {"results": results})).series()
    assert (series.parameter, series.x, series.repeats) == ("n", (1.0, 2.0, 4.0), (2, 2, 2))


def test_failed_runs_are_left_out_and_counted(tmp_path: Path) -> None:
    def result(n: int, codes: list[int | None]) -> dict[str, Any]:
        return {"median": n, "times": [float(n)] * len(codes), "exit_codes": codes, "parameters": {"n": str(n)}}

    some = [result(1, [0, 0]), result(2, [0, 1]), result(4, [0, None]), result(8, [1, 1])]
    readings = read(write(tmp_path, "a.json", {"results": some}))
    assert [(p, t) for _, p, t in points(readings)] == [(1, 1), (1, 1), (2, 2), (4, 4)]
    assert readings.notes == ("4 of 8 runs left out: they failed (exit codes 1, none, by a signal)",)
    del some[1]["times"]  # a median of all runs is no time of those that did not fail
    assert [p for _, p, _ in points(read(write(tmp_path, "a.json", {"results": some})))] == [1, 1, 4]
    with pytest.raises(InputError, match=r"all 2 runs failed \(exit codes 1\)"):
        read(write(tmp_path, "a.json", {"results": some[3:]}))
    some[0]["exit_codes"] = [0]
    with pytest.raises(InputError, match=r"results\[0\]: 1 exit_codes for 2 times"):
        read(write(tmp_path, "a.json", {"results": some}))
    table = read(write(tmp_path, "a.csv", "threads,exit_code,time_s\n1,0,8\n2,0,4\n4,134,0.01\n8,0,1\n"))
    assert table.parameters == ("threads",) and points(table) == [("", 1, 8), ("", 2, 4), ("", 8, 1)]
    assert "1 of 4 runs left out: they failed (exit_code is not 0)" in table.notes
    runs = [{"name": f"BM/{n}", "real_time": n} for n in (1, 2, 4)] + [{"name": "BM/8", "error_occurred": True}]
    notes = read(write(tmp_path, "b.json", {"benchmarks": runs})).notes
    assert notes == ("1 of 4 runs left out: they failed (error_occurred)",)


def test_hyperfine_before_1_11_names_no_parameter(tmp_path: Path) -> None:
    results = [{"command": f"sort {n}", "median": n, "parameter": str(n)} for n in (1, 2, 4)]
    readings = read(write(tmp_path, "a.json", {"results": results}))
    assert readings.parameters == ("parameter",) and points(readings) == [("", n, n) for n in (1, 2, 4)]


@pytest.mark.parametrize(
    "text",
    [
        "threads;time [ms];speedup\n1;8.000;1,0\n2;4.100,5;1,95\n",
        "threads\ttime_ms\n1\t8.000,0\n2\t4.100,5\n",
        'threads,time_ms\n1,"8.000,0"\n2,"4.100,5"\n',
        'threads,time_ms\n1,"8,000.0"\n2,"4,100.5"\n',
        'threads,sizes,time\n1,"16,16","8,0 s"\n2,"16,16","4,1005 s"\n',
        "threads,wall clock time\n1,8.0\n2,4.1005\n",
        "threads,time\n1,0m8.000s\n2,0m4.1005s\n",
        'threads,time\n1,0:08\n2,"0:04,1005"\n',
    ],
)
def test_csv_numbers_in_every_locale(tmp_path: Path, text: str) -> None:
    readings = read(write(tmp_path, "a.csv", text))
    assert readings.times == pytest.approx([8.0, 4.1005]) and readings.points[:, 0].tolist() == [1, 2]


@pytest.mark.parametrize("name", ["c/s", "MFLOP/s", "tokens_per_s", "throughput [1/s]", "requestsPerSecond", "iops"])
def test_rates_are_no_times(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, "a.csv", f"threads,{name}\n1,1285\n2,2337\n4,4143\n")
    with pytest.raises(InputError, match="is a rate .* add a column of seconds"):
        read(path, name)
    text = f"PARAMETER p\nPOINTS 8 16\nREGION r\nMETRIC {name}\nDATA 1\nDATA 2\n"
    for metric in (None, name):
        with pytest.raises(InputError, match="is a rate"):
            read(write(tmp_path, "a.txt", text), metric)


@pytest.mark.parametrize(
    ("name", "seconds"), [("time/ms", 2e-3), ("ms_per_step", 2e-3), ("ns/op", 2e-9), ("time_per_step_s", 2.0)]
)
def test_times_of_one_thing_are_no_rates(tmp_path: Path, name: str, seconds: float) -> None:
    readings = read(write(tmp_path, "a.csv", f"threads,{name}\n1,2\n2,2\n"), name)
    assert readings.times == pytest.approx([seconds, seconds])


def test_pytest_benchmark(tmp_path: Path) -> None:
    runs = [
        {"name": f"test_sort[{n}-quick]", "params": {"n": n, "how": "quick"}, "stats": {"median": n * 0.5, "data": [n]}}
        for n in (10, 20)
    ]
    (series,) = read(write(tmp_path, "a.json", {"benchmarks": runs})).series()
    assert series.x == series.y == (10.0, 20.0)


def test_google_benchmark(tmp_path: Path) -> None:
    def run(name: str, value: float, **more: Any) -> dict[str, Any]:
        return {"name": name, "run_name": name, "real_time": value, "time_unit": "us", **more}

    runs = [run("BM_sort/1024", 5), run("BM_sort/2048", 9), run("BM_sort/2048", 9, run_type="aggregate")]
    readings = read(write(tmp_path, "a.json", {"context": {}, "benchmarks": runs}))
    assert points(readings) == [("", 1024.0, pytest.approx(5e-6)), ("", 2048.0, pytest.approx(9e-6))]
    threads = [run(f"BM_run/threads:{n}", 8 / n) for n in (1, 2, 4)]
    assert read(write(tmp_path, "b.json", {"benchmarks": threads})).parameters == ("threads",)


def test_asv(tmp_path: Path) -> None:
    # layout of asv's results/MACHINE/COMMIT-env.json, version 2
    document = {
        "result_columns": ["result", "params", "version"],
        "results": {
            "suite.time_sort": [[0.1, None, 0.4], [["10", "20", "40"]], "abc"],
            "suite.mem_peak": [[1, 2], [["10", "20"]], "abc"],
            "suite.time_join": [[0.1, 0.2, 0.3, 0.4], [["'a'", "'b'"], ["1", "2"]], "abc"],
        },
    }
    series = read(write(tmp_path, "a.json", document)).series()
    assert [(one.name, one.x) for one in series] == [
        ("suite.time_sort", (10.0, 40.0)),
        ("suite.time_join('a')", (1.0, 2.0)),
        ("suite.time_join('b')", (1.0, 2.0)),
    ]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.json", {"x": 1}, r"no known layout \(fields: x\)"),
        ("a.json", {"results": [{"command": "a", "times": [1]}]}, r"--parameter-scan"),
        ("a.json", {"parameters": ["p"], "measurements": {"m": {"time": [{"point": [1, 2], "values": [1]}]}}},
         r"measurements.m.time: 2 coordinates for 1 parameters"),
        ("a.json", {"parameters": ["p"], "measurements": {"m": {"time": [{"values": [1]}]}}}, r"no field 'point'"),
        ("a.json", {"benchmarks": [{"name": "BM/1", "real_time": 1, "time_unit": "parsec"}]}, r"unknown time unit"),
        ("a.json", '{"parameters": [NaN]}', r"NaN is no JSON number"),
        ("a.json", "[" * 200 + "]" * 200, r"nested deeper"),
        ("a.txt", "PARAMETER p\nPOINTS 1 2\nDATA 1\nDATA 2\nDATA 3\n", r"line 5: more DATA lines than the 2 POINTS"),
        ("a.txt", "POINTS 1 2\n", r"POINTS before PARAMETER"),
        ("a.txt", "HELLO world\n", r"unknown word in .* line 1"),
        ("a.jsonl", '{"params": {"p": 1}, "value": 1}\n{"params": {"q": 1}, "value": 1}', r"line 2: parameters"),
        ("a.xml", "<a/>", r"a.xml: no known kind of file"),
    ],
)  # fmt: skip
def test_bad_files_are_refused(tmp_path: Path, name: str, content: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(write(tmp_path, name, content))


def test_a_folder_without_profiles_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no \*/\*.cubex profiles"):
        read(tmp_path)


def test_lines_without_parameters_are_refused(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({"params": params, "value": 1}) for params in ({}, {"n": 1}))
    with pytest.raises(InputError, match="line 1: params: want at least one parameter"):
        read(write(tmp_path, "a.jsonl", lines))


TIMED = {"times": [1.0], "median": 1.0}
OLD_EXTRAP: dict[str, object] = {"callpaths": [], "metrics": [], "coordinates": [], "measurements": []}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"results": [{**TIMED, "parameters": 5}]}, r"results\[0\]: parameters: want named fields, got '5'"),
        ({"results": [{**TIMED, "parameters": [1]}]}, r"results\[0\]: parameters: want named fields"),
        ({"results": [{**TIMED, "parameters": {"n": 10**400}}]}, "an integer beyond 1e40"),
        ({"benchmarks": [{"stats": {"data": [1]}, "params": 5}]}, r"benchmarks\[0\]: params: want named fields"),
        ({"benchmarks": [{"name": "BM/1", "real_time": 10**400}]}, "an integer beyond 1e40"),
        ({"parameters": 5, "measurements": {}}, "parameters: want a list, got '5'"),
        ({"parameters": ["p"], "measurements": 5}, "measurements: want named fields, got '5'"),
        ({"parameters": ["p"], "measurements": {"f": {"time": [{"point": [10**400], "values": [1]}]}}}, "beyond 1e40"),
        ({"parameters": [{"id": "x", "name": "p"}], **OLD_EXTRAP}, "parameters: id = 'x': want a whole number"),
        ({"result_columns": ["result", "params"], "results": {"f": [[1.0], 5]}}, "results.f: params: want a list"),
    ],
)
def test_fields_of_another_kind_are_refused(document: object, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        read(write(tmp_path, "a.json", document))


@pytest.mark.parametrize("given", [[1, 2, 4], ss.Series("threads", [1, 2, 4], [9.0, 5.0, 3.0]), ((1, 2), (3.0, 2.0))])  # type: ignore[arg-type]
def test_lists_in_place_of_a_series_are_refused_with_the_call_that_makes_one(given: Any) -> None:
    with pytest.raises(InputError, match=r"is no series: want ss\.Series\.of\("):
        ss.extrapolate(given, [32.0])


TWO_CODES = "code,nodes,time_s\n" + "".join(
    f"{code},{nodes},{seconds / nodes}\n"
    for nodes in (1, 2, 4, 8)
    for code, seconds in (("lammps", 8), ("gromacs", 80))
)


def test_text_tells_series_apart_and_is_no_repeat(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", TWO_CODES)
    one, two = read(path).series()
    assert (one.name, one.y, one.repeats) == ("lammps", (8.0, 4.0, 2.0, 1.0), (1, 1, 1, 1))
    assert (two.name, two.y) == ("gromacs", (80.0, 40.0, 20.0, 10.0))
    with pytest.raises(InputError, match="2 regions: name one of lammps, gromacs"):
        ss.extrapolate(path, [16], "strong")
    answer = ss.extrapolate(path, [16], "strong", region="gromacs", family="amdahl")
    assert answer.value[0] == pytest.approx(5.0, rel=1e-6)
    assert "a region is what has the same text in code" in answer.assumptions


def test_text_tells_apart_beside_a_region_and_several_parameters(tmp_path: Path) -> None:
    rows = [
        f"{region},{compiler},x86,{p},{n},{n / p * (1 if compiler == 'gcc' else 3)},day {number}"
        for number, (region, compiler, p, n) in enumerate(
            (r, c, p, n) for r in ("a", "b") for c in ("gcc", "icc") for p in (1, 2, 4, 8) for n in (100, 200, 400)
        )
    ]
    text = "region,compiler,host,threads,n,time_s,day\n" + "\n".join(rows) + "\n"
    readings = read(write(tmp_path, "a.csv", text))
    assert list(dict.fromkeys(readings.regions)) == ["a, gcc", "a, icc", "b, gcc", "b, icc"]
    assert readings.notes == (
        "a region is what has the same text in region, compiler",
        "day: another text in every row, left out",
    )
    found = predict_surfaces(readings, "threads=16,n=800", None, "b, icc", None)["b, icc"]
    assert found.answers[0].time == pytest.approx(150.0, rel=1e-3)


@pytest.mark.parametrize("column", ["kind", "source", "metric"])
def test_text_of_any_name_tells_apart(column: str, tmp_path: Path) -> None:
    text = f"{column},threads,time_s\na,1,4\nb,1,40\na,2,2\nb,2,20\n"
    assert [one.y for one in read(write(tmp_path, "a.csv", text)).series()] == [(4.0, 2.0), (40.0, 20.0)]


def test_hyperfine_commands_at_one_point_are_no_repeats(tmp_path: Path) -> None:
    results = [
        {"command": f"./{code} -t {threads} in1.dat", "times": [seconds / threads], "parameters": {"t": str(threads)}}
        for code, seconds in (("old", 8), ("new", 2))
        for threads in (1, 2, 4)
    ]
    one, two = read(write(tmp_path, "h.json", {"results": results})).series()
    assert (one.y, two.y) == ((8.0, 4.0, 2.0), (2.0, 1.0, 0.5))
    assert one.name == "./old -t {t} in1.dat"


LINES = "1 8.004\n2 4.103\n4 2.25\n"
TABLES = {
    "printed.txt": " threads  time_s\n" + "".join(f"{line:>16}\n" for line in LINES.splitlines()),
    "markdown.md": "| threads | time_s |\n|---|--:|\n"
    + "".join("| {} | {} |\n".format(*line.split()) for line in LINES.splitlines()),
    "plot.dat": f"# machine: node1\n# threads time_s\n{LINES}",
    "below.csv": "# node1\n\nthreads,time_s\n" + LINES.replace(" ", ","),
    "index.csv": ",threads,time_s\n"
    + "".join(f"{i},{line.replace(' ', ',')}\n" for i, line in enumerate(LINES.splitlines())),
    "named.csv": "Unnamed: 0,threads,Wall time [ms]\n1,1,8004\n2,2,4103\n3,4,2250\n",
    "old.csv": "threads,time_s\r" + LINES.replace(" ", ",").replace("\n", "\r"),
    "exponents.csv": "threads,time_s\n1,0.8004D+01\n2,4.103d0\n4,2.25\n",
    "records.json": json.dumps([{"threads": n, "time_s": t} for n, t in ((1, 8.004), (2, 4.103), (4, 2.25))]),
    "lines.jsonl": '{"threads": 1, "time_s": 8.004}\n{"threads": 2, "time_s": 4.103}\n{"threads": 4, "time_s": 2.25}\n',
    "google.csv": "Running ./bench\nname,iterations,real_time,cpu_time,time_unit,bytes_per_second\n"
    + "".join(f'"BM_x/{n}",10,{t},1,ms,\n' for n, t in ((1, 8004), (2, 4103), (4, 2250)))
    + '"BM_x/1_mean",1,9,9,ms,\n',
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_read_as_people_have_them(tmp_path: Path, name: str) -> None:
    (series,) = read(write(tmp_path, name, TABLES[name])).series()
    assert (series.x, series.y) == ((1.0, 2.0, 4.0), pytest.approx((8.004, 4.103, 2.25)))


def test_text_of_spreadsheets_and_parted_thousands(tmp_path: Path) -> None:
    path = tmp_path / "unicode.txt"
    path.write_bytes("threads\ttime_s\r\n1\t8\r\n2\t4\r\n".encode("utf-16"))
    assert read(path).series()[0].y == (8.0, 4.0)
    (series,) = read(write(tmp_path, "a.csv", 'size,time_ms\n"1,000",1.5\n"10,000",15.25\n')).series()
    assert (series.x, series.y) == ((1e3, 1e4), pytest.approx((1.5e-3, 15.25e-3)))


def hyperfine(*times: float) -> dict[str, Any]:
    runs = [{"command": "a", "times": [t], "parameters": {"n": str(n)}} for n, t in enumerate(times)]
    return {"results": [{"mean": 1.0, "median": 1.0, **run} for run in runs]}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", hyperfine(3.0, -2.0), "n = 1: time = -2 s lies outside"),
        ("a.json", hyperfine(3.0, 1e300), "n = 1: time = 1e.300 s lies outside"),
        ("a.json", {"results": [[hyperfine(3.0)["results"][0]]]}, r"results\[0\]: entry: want named fields"),
        ("a.json", hyperfine(0.0, 0.0), r"holds no times over a parameter \(2 of 0 s\)"),
        ("a.txt", "PARAMETER p\nPOINTS 1 2\nREGION f\nDATA 1\nDATA -2\n", "f at p = 2: time = -2 s lies outside"),
        ("a.csv", "threads,time\n1,2 s\n2,-4 s\n", "line 3: time = -4 s lies outside"),
        ("a.csv", "threads,time_s\n1,2\n2,1e300\n", "line 3: time_s = 1e.300 s lies outside"),
    ],
)
def test_what_no_run_can_take_is_refused_with_its_file(tmp_path: Path, name: str, content: Any, said: str) -> None:
    with pytest.raises(InputError, match=f"{name}: .*{said}"):
        read(write(tmp_path, name, content))


def test_runs_of_no_seconds_are_left_out_and_counted(tmp_path: Path) -> None:
    readings = read(write(tmp_path, "a.json", hyperfine(0.0, 4.0, 2.0)))
    assert readings.times.tolist() == [4.0, 2.0] and "1 times of 0 s left out" in readings.notes
