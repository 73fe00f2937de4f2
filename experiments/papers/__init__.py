"""The experiments of the papers that the library implements, one file per paper.

`PAPERS` lists them by name. A paper's module has a ``TITLE`` and a function ``experiment(run)`` that measures
into a `run.Run`, prints the paper's tables and claims beside what this machine gives, draws its figures and
writes every number to a JSON file. If it has options of its own, ``add_arguments(parser)``
adds them to the command, and returns the names of the keyword arguments that `experiment` takes.
``python -m experiments NAME`` runs one.
"""

from experiments.papers import guo2011, mironowicz, tao2015, yang2015, yin2012

PAPERS = {
    "guo2011": guo2011,
    "mironowicz": mironowicz,
    "tao2015": tao2015,
    "yang2015": yang2015,
    "yin2012": yin2012,
}
