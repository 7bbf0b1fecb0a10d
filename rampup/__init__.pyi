from rampup.checks import check_problem as check_problem
from rampup.episodes import Episode as Episode
from rampup.episodes import play as play
from rampup.features import Features as Features
from rampup.features import OneHot as OneHot
from rampup.features import Polynomial as Polynomial
from rampup.features import as_features as as_features
from rampup.features import user_features as user_features
from rampup.problems import PROBLEMS as PROBLEMS
from rampup.problems import make as make
from rampup.problems.adw import ADW as ADW
from rampup.problems.base import Problem as Problem
from rampup.problems.bcp import BCP as BCP
from rampup.problems.distributions import Bernoulli as Bernoulli
from rampup.problems.distributions import Distribution as Distribution
from rampup.problems.distributions import Empirical as Empirical
from rampup.problems.distributions import Histogram as Histogram
from rampup.problems.distributions import Special as Special
from rampup.problems.distributions import Uniform as Uniform
from rampup.problems.distributions import random_histogram as random_histogram
from rampup.problems.okd import OKD as OKD

__version__: str
