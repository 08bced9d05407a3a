"""Operations and kernels that workloads are made of, and formulas of their sizes."""

from .workloads.layers.single import convolution as convolution
from .workloads.layers.single import dense as dense
from .workloads.layers.single import elementwise as elementwise
from .workloads.language.language_step import language_step as language_step
from .common.expressions import parse_expression as parse_expression
from .workloads.kernels.sparse import SparseMatrix as SparseMatrix
from .workloads.kernels.generators import uniform as uniform
from .workloads.kernels.spmv import spmv as spmv
from .workloads.kernels.pagerank import pagerank as pagerank
from .workloads.kernels.pagerank import pagerank_problem as pagerank_problem
