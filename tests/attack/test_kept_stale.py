"""A recorded program is never answered as it was, where something that its code read in any way is no longer so.

Each case is code of a program and a change afterwards; torch is a stand-in, so that a case takes milliseconds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slipstick.common.disk_cache import VARIABLE

pytest.importorskip("torch")

KEPT = {
    "exists": ("Path('large').exists()", "Path('large').touch()"),
    "os.path.exists": ("os.path.exists('large.json')", "Path('large.json').touch()"),
    "access": ("os.access('a.json', os.R_OK)", "Path('a.json').unlink()"),
    "not there": ("glob.glob('x*.json')", "Path('x1.json').touch()"),
    "a size": ("os.path.getsize('a.json')", "Path('a.json').write_text('[1, 2, 3]')"),
    "a listed folder": ("os.listdir()", "Path('b.json').touch()"),
    "a listed folder by name": ("list(Path('inner').iterdir())", "Path('inner/b.json').touch()"),
    "a walk": ("list(os.walk('inner'))", "Path('inner/deep/b.json').touch()"),
    "sizes in a listed folder": ("[e.stat() for e in os.scandir('.')]", "Path('a.json').write_text('[1, 2, 3]')"),
    "above a link": ("open('link/../up.json').read()", "Path('inner/up.json').write_text('2')"),
    "where a link leads": ("os.readlink('link')", "(os.unlink('link'), os.symlink('inner', 'link'))"),
    "a file by a link": ("open('to.json').read()", "(os.unlink('to.json'), os.symlink('mine.py', 'to.json'))"),
    "os.open": ("os.close(os.open('a.json', os.O_RDONLY))", "Path('a.json').write_text('2')"),
    "mmap": ("(f := open('a.json', 'rb'), mmap.mmap(f.fileno(), 0, prot=1))", "Path('a.json').write_text('2')"),
    "np.load": ("np.load('a.npy')", "np.save('a.npy', np.zeros(9))"),
    "np.fromfile": ("np.fromfile('a.npy', 'u1')", "np.save('a.npy', np.zeros(9))"),
    "zipfile": ("zipfile.ZipFile('a.zip').read('a')", "zipfile.ZipFile('a.zip', 'w').writestr('a', '2')"),
    "executed": ("exec(open('mine.py').read())", "Path('mine.py').write_text('W = 2')"),
    "loaded by its place": ("loaded('mine.py')", "Path('mine.py').write_text('W = 22')"),
    "a package that is new": ("tried('pack')", "(os.mkdir('pack'), Path('pack/__init__.py').touch())"),
    "a module without source": ("tried('bare')", "Path('bare.pyc').touch()"),
    "an environment": ("os.environ.get('COLUMNS')", "os.environ.update(COLUMNS='71')"),
    "flags of Python": ("sys._xoptions.get('mine')", "sys._xoptions.update(mine='1')"),
}
NEVER = {
    "words of the command": "sys.argv[1:]",
    "how many words": "len(sys.argv)",
    "parsed words": "argparse.ArgumentParser().parse_known_args()",
    "what is piped in": "sys.stdin.read()",
    "lines piped in": "[*sys.stdin]",
    "by its number": "open(0, closefd=False).read()",
    "by its name": "open('/dev/stdin').close()",
    "a folder's number": "os.close(os.open('a.json', os.O_RDONLY, dir_fd=os.open('.', os.O_RDONLY)))",
    "written": "Path('w.json').write_text('1')",
    "another program": "os.system('true')",
    "renamed": "os.rename('a.json', 'c.json')",
    "removed": "os.unlink('a.json')",
    "changed meanwhile": "(open('a.json').read(), time.sleep(.05), touched())",
}
CHILD = """
import argparse, glob, importlib.util, json, mmap, os, sys, time, types, zipfile
from importlib.util import find_spec
from pathlib import Path
import numpy as np
import numpy.random
from slipstick.workloads.importers.torch.program_watch import cached_program
from slipstick.common.trusted_code import TrustedName
from slipstick.workloads.layers.single import elementwise
from slipstick.workloads.graph.workload import Workload

kept, never = json.loads(sys.argv[1])
base = Path(sys.argv[2])
sys.path.insert(0, "")
sys.argv = ["slipstick", "estimate"]
spec = find_spec("torch")
made = Workload("net", (elementwise("a", 1000),))

def tried(name):
    try:
        __import__(name)
    except Exception:
        pass
    sys.modules.pop(name, None)

def loaded(path):
    one = importlib.util.spec_from_file_location("mine", path)
    one.loader.exec_module(importlib.util.module_from_spec(one))

def touched():
    os.utime("a.json")

def fresh(number):
    place = base / str(number)
    (place / "inner/deep").mkdir(parents=True)
    os.chdir(place)
    importlib.invalidate_caches()
    for name in ("a.json", "up.json", "inner/up.json", "program.py"):
        Path(name).write_text("1")
    Path("mine.py").write_text("W = 1")
    loaded("mine.py")
    np.save("a.npy", np.zeros(4))
    zipfile.ZipFile("a.zip", "w").writestr("a", "1")
    os.symlink("inner/deep", "link")
    os.symlink("a.json", "to.json")
    time.sleep(.02)

def asked(code):
    ran = []
    def record():
        ran.append(1)
        sys.modules["torch"] = torch = types.ModuleType("torch")
        torch.__file__, torch.__spec__ = spec.origin, spec
        try:
            eval(code)
        except OSError:
            pass
        return made, ()
    try:
        cached_program(TrustedName(str(Path("program.py").absolute()) + ":net"), [], [], record)
    finally:
        sys.modules.pop("torch", None)
    return len(ran)

answers = {}
cases = {**kept, **{name: (code, "0") for name, code in never.items()}}
for number, (name, (code, change)) in enumerate(cases.items()):
    fresh(number)
    times = [asked(code), asked(code)]
    eval(change)
    answers[name] = [*times, asked(code)]
print(json.dumps(answers))
"""


def test_nothing_that_was_read_in_any_way_is_answered_as_it_was(tmp_path: Path) -> None:
    cases = json.dumps([KEPT, NEVER])
    environment = {VARIABLE: str(tmp_path / "kept"), "PATH": "/usr/bin", "HOME": str(tmp_path)}
    child = subprocess.run(
        [sys.executable, "-c", CHILD, cases, str(tmp_path)], capture_output=True, text=True, env=environment, input=""
    )
    assert child.returncode == 0, child.stderr
    answers = json.loads(child.stdout.splitlines()[-1])
    assert {name: times for name, times in answers.items() if name in KEPT and times != [1, 0, 1]} == {}
    assert {name: times for name, times in answers.items() if name in NEVER and times[:2] != [1, 1]} == {}
