"""Torture: what happens to runs that are killed, damaged, forged, or asked for nonsense.

    python tools/torture kills --count 300       runs that are killed at random moments, resumed and compared
    python tools/torture files --count 2000      every command on runs with damaged or hostile files
    python tools/torture commands --count 300    wrong command lines
    python tools/torture calls --count 300       wrong calls of the Python interface
    python tools/torture all                     all of them, with these counts

Each case has a number; `--seed` and the number decide all of it (but for the moment of a kill, which a loaded machine
shifts), and `--only NUMBER` repeats one and shows what it said. What is needed of good runs is trained once and kept in
`--dir`. `--json` keeps the failures. The exit code is 1 if a case failed. What counts as a failure:

    differences     a killed or damaged run that was resumed has other bytes than an undisturbed one
    lost runs       a run that could not be resumed although a good checkpoint was there
    tracebacks      Python's instead of one sentence, or a process that died
    code executed   a run directory made the process import or call something of its own
    writes outside  a file outside of the run was changed, made or deleted
    hangs           more than 20 s of processor time, or nothing done for 20 s
    memory          more than 2 GB
    unclear         nonsense that was accepted, another exit code than 0 and 2, or an answer that is not one sentence

`worker.py` runs a case: it imports ibol once and forks for each, so that a case costs well below a second.
"""
