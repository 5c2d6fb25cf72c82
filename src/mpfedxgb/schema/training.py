"""The parameters of a training, and those of XGBoost that are refused. To add one, add its entry, use it, test it.

Before them what values may be, and what is wrong with one: the words in which parameters and settings keys are
declared.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from mpfedxgb.errors import Code, SettingsError

LARGEST = (1 << 63) - 1
"""No integer is larger than this one, nor smaller than its opposite."""


class _Required:
    """Marks what has no default."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = _Required()


class Fault(NamedTuple):
    """What is wrong with a value: a word for programs; for people the rest of a sentence, and what to do."""

    code: Code
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of values: its name, its Python type, and what messages ask for.

    A module above checks what a kind leaves open: names, addresses, paths, links, objectives, metrics.
    """

    name: str
    python: str
    words: str
    types: tuple[type, ...] = (str,)
    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    choices: tuple[str, ...] = ()
    takes_several: bool = False

    @property
    def bounds(self) -> str:
        """What values have to be, in words."""
        if self.name == "integer" and self.low > -LARGEST:
            return (
                f"an integer of {self.low:,} or more"
                if self.high == LARGEST
                else f"an integer from {self.low:,} to {self.high:,}"
            )
        if self.name == "number" and self.low > -math.inf:
            least = f"{'above' if self.above else 'at least'} {self.low:,.12g}"
            return least if self.high == math.inf else f"{least} and at most {self.high:,.12g}"
        return f"one of {', '.join(self.choices)}" if self.choices else self.words

    def fault(self, value: Any) -> Fault | None:
        """Return what is wrong with a value, if anything; True is no number, here as in a settings file."""
        if self.takes_several and isinstance(value, (list, tuple)) and value:
            return next((fault for one in value if (fault := replace(self, takes_several=False).fault(one))), None)
        if self.choices:
            fits = isinstance(value, str) and value in self.choices
            return None if fits else Fault("choice", "is not known", f"it is {self.bounds}")
        if not isinstance(value, self.types) or (isinstance(value, bool) and self.types[0] in (int, float)):
            asked = self.bounds if self.name == "integer" else self.words
            bounds = f" that is {self.bounds}" if self.name == "number" and self.bounds != self.words else ""
            return Fault("type", f"is not {self.words}", f"give {asked}{bounds}")
        if isinstance(value, (int, float)) and self is not ANYTHING and not self._holds(value):
            return Fault("range", "is out of range", f"it is {self.bounds}")
        return None

    def _holds(self, number: float) -> bool:
        return math.isfinite(number) and self.low <= number <= self.high and not (self.above and number == self.low)


def integer(low: int = -LARGEST, high: int = LARGEST) -> Kind:
    """Return the integers within bounds."""
    return Kind("integer", "int", "an integer", (int,), low, high)


def number(low: float = -math.inf, high: float = math.inf, *, above: bool = False) -> Kind:
    """Return the finite numbers within bounds; `above` leaves the lower bound itself out."""
    return Kind("number", "float", "a number", (int, float), low, high, above)


def one_or_more(kind: Kind) -> Kind:
    """Return the values of a kind and lists of them."""
    return replace(kind, python=f"{kind.python} | Sequence[{kind.python}]", takes_several=True)


def choice(*choices: str) -> Kind:
    """Return one of a few words."""
    return Kind("choice", "str", "a word in quotes", choices=choices)


FLAG = Kind("flag", "bool", "true or false, without quotes", (bool,))
TEXT = Kind("text", "str", "a text in quotes")
TEXTS = Kind("texts", "tuple[str, ...]", 'a list of texts such as ["a", "b"]', (list,))
TEXT_OR_TEXTS = Kind("text or texts", "tuple[str, ...]", "a text or a list of texts", (str, list))
VARIABLE = Kind("variable", "str", "the name of an environment variable")
PATH = Kind("path", "Path", "a path in quotes")
NAME = Kind("name", "str", "a name in quotes")
NAMES = Kind("names", "tuple[str, ...]", 'a list of names such as ["a", "b"]', (list,))
ADDRESS = Kind("address", "Address", 'an address such as "host:7701"')
LINK = Kind("link", "Link", "a link in quotes")
TABLE = Kind("table", "Mapping[str, Address]", "a table", (dict,))
DIRECTIONS = Kind("directions", "Mapping[str, int]", "a table such as { income = 1 }", (dict,))
ANYTHING = Kind("anything", "Any", "a value", (object,))
"""The module that uses it checks it: an objective, a metric, tables, a folder, a size of memory."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What parameters and settings keys have in common."""

    name: str
    kind: Kind
    default: Any
    help: str
    """A phrase for one line: help of an option, comment of a template."""
    more: str = field(default="", kw_only=True)
    """What pages and docstrings add, in sentences."""
    note: str = field(default="", kw_only=True)
    """What pages alone add, with their links."""
    annotation: str = field(default="", kw_only=True)
    """The type in Python, if the kind does not say it."""

    @property
    def python(self) -> str:
        """The type of the value in Python."""
        optional = " | None" if self.default is None else ""
        return self.annotation or f"{self.kind.python}{optional}"

    def fault(self, value: Any) -> Fault | None:
        """Return what is wrong with a value, if anything; None is one if it is the default."""
        return None if value is None and self.default is None else self.kind.fault(value)


def suggestion(word: object, known: Collection[str], otherwise: str) -> str:
    """Return what was probably meant, or else the list of what there is."""
    close = difflib.get_close_matches(str(word)[:100].lower(), known, 1)
    some = ", ".join(list(known)[:30]) + (", ..." if len(known) > 30 else "")
    return f"did you mean {close[0]}?" if close else f"{otherwise} {some}"


MODES = ("strict", "sealed", "paper", "none")
"""What is revealed (docs/what-each-party-sees.md): rows that share a leaf, to the active participant; nothing of any
training row, to nobody; what the paper's algorithms show as printed. In "none" one process computes in the clear."""


class InMode(NamedTuple):
    """What a mode asks of a parameter beyond its kind."""

    mode: str
    kind: Kind
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter(Declared):
    """A parameter of a training.

    `shared` ones are known to all roles, in TrainParams, [training] and the handshake; `estimator` says whether
    classifier and regressor have it, `xgboost` whether XGBoost has, `offered` whether `mpfedxgb simulate` does, as
    `option` if not by its name, `accepts` what pages say of the type, `objectives` the only ones that it changes, and
    `xgboost_default` what XGBoost has if it is something else.
    """

    shared: bool = False
    shared_default: Any = None
    example: Any = None
    estimator: bool = True
    offered: bool = False
    option: str = ""
    aliases: tuple[str, ...] = ()
    modes: tuple[InMode, ...] = ()
    xgboost: bool = False
    accepts: str = ""
    objectives: tuple[str, ...] = ()
    xgboost_default: Any = None

    def fault_in(self, value: Any, mode: str) -> Fault | None:
        """Return what of a value does not go with a mode; `remedy` says what to do, or to take "strict"."""
        for rule in self.modes:
            if rule.mode == mode and value is not None and rule.kind.fault(value):
                remedy = f"{rule.remedy}, or use security='strict'"
                return Fault("mode", f"does not go with security={mode!r}", remedy)
        return None


IMPORTANCES = ("weight", "gain", "cover", "total_gain", "total_cover")
_POSITIVE = number(0.0, 1e9, above=True)
_SHARE = number(0.0, 1.0, above=True)
_PROBABILITY = number(0.0, 1.0)
_AT_LEAST_0 = number(0.0, 1e30)
_NOTHING = number(0.0, 0.0)
_RANKINGS = ("rank:ndcg", "rank:pairwise", "rank:map")
_FALSE = Kind("flag", "bool", "false", (bool,), 0, 0)
_KEEPS_TREES = "leave it out: to drop a tree, somebody has to know what it adds to a row"
_ALL_COLUMNS = (InMode("paper", number(1.0, 1.0), "set it to 1: the paper's algorithm takes all columns"),)

_of_xgboost = partial(Parameter, xgboost=True)
_of_all = partial(Parameter, xgboost=True, shared=True, offered=True)

# A table, one or two lines an entry: name, kind, default, help, and what is special.
# fmt: off
PARAMETERS = (
    Parameter("participants", ANYTHING, 2, "how `fit(X, y)` cuts the columns of one table",
        more="Not used if X is one table per participant.", annotation="Participants",
        accepts="int, fractions that add up to 1, lists of columns, or a dict of such lists"),
    Parameter("coordinator", ANYTHING, None,
        "the participant that coordinates and brings columns, of three or more; not the active one",
        more="Its columns come last. None: a coordinator without columns.",
        annotation="str | None"),
    Parameter("id", ANYTHING, None, "the column, or index, that says which row is whose; it is no feature",
        more="Results come in the order of the active participant's table. None: rows belong together by their "
        "position, and DataFrames whose indexes differ are refused.",
        note="See [which row is whose](quickstart.md#which-row-is-whose).",
        annotation="str | None"),
    _of_xgboost("objective", ANYTHING, None, "the loss, such as binary:logistic or reg:squarederror",
        more='None: "binary:logistic" or "multi:softprob" by the number of classes; "reg:squarederror" in a '
        "regressor. A callable (y, margin) -> (g, h) is for two classes, or numbers.",
        shared=True, shared_default="binary:logistic", annotation="str | Callable[..., Any] | None",
        accepts="str, callable"),
    Parameter("num_class", integer(1, 10_000), 1, "number of classes, for multi:softprob only", shared=True,
        estimator=False, example=3),
    _of_all("n_estimators", integer(1, 1_000_000), 100, "boosting rounds; each grows one tree, or one for each class",
        option="trees", aliases=("num_boost_round", "num_round", "num_rounds", "n_trees")),
    _of_all("num_parallel_tree", integer(1, 10_000), 1, "trees of a boosting round, for each class",
        more="Each has samples of its own, and they share the learning rate: a random forest in every boosting round.",
        modes=(InMode("paper", integer(1, 1), "set it to 1: the paper's algorithm grows one tree at a time"),
               InMode("sealed", integer(1, 1), "set it to 1: gradients on secrets are for one tree of a class"))),
    _of_all("max_depth", integer(1, 16), 3, "levels of splits of a tree", xgboost_default=6),
    _of_all("max_bin", integer(2, 65_535), 32, "most bins of a column; each costs bytes and comparisons",
        aliases=("n_bins", "max_bins"), xgboost_default=256),
    _of_all("learning_rate", number(0.0, 1e6, above=True), 0.3, "shrinks every leaf weight", aliases=("eta",)),
    _of_all("reg_lambda", number(0.0, 1e9), 1.0, "L2 penalty on leaf weights", aliases=("lambda", "lambda_"),
        modes=(InMode("paper", _POSITIVE, "set it above 0: it hides the step size of the leaf weights"),
               InMode("sealed", _POSITIVE, "set it above 0, since H + lambda divides without anybody seeing H"))),
    _of_all("reg_alpha", number(0.0, 1e9), 0.0, "L1 penalty on leaf weights", aliases=("alpha",),
        modes=(InMode("paper", _NOTHING, "set it to 0: the paper's gains know no L1 penalty"),)),
    _of_all("max_delta_step", number(0.0, 1e9), None, "most that a leaf may weigh before learning_rate; 0 for no bound",
        more="None: 0.7 with count:poisson, otherwise 0.", example=0.7,
        modes=(InMode("paper", _NOTHING, "set it to 0: the paper's gains know no clipped weights"),)),
    _of_xgboost("monotone_constraints", ANYTHING, None,
        "columns with which predictions may only rise (1), or only fall (-1)",
        more="In the order of the columns, as a text such as '(1,-1,0)', or a dict by column; of one table per "
        "participant, a dict by column, or one of these for each. Only its owner knows a column's direction. "
        "Files have [data] monotone.",
        annotation="Any", accepts="tuple, list, str or dict"),
    Parameter("constrained", FLAG, False, "whether columns have directions; each owner has its own in [data] monotone",
        shared=True, estimator=False,
        modes=(InMode("paper", _FALSE, "leave monotone_constraints out: the paper's gains know no bounds"),)),
    _of_all("gamma", _AT_LEAST_0, 0.0, "least gain of a split, on XGBoost's scale", aliases=("min_split_loss",)),
    _of_all("min_child_weight", _AT_LEAST_0, 1.0, "least sum of hessians on either side of a split",
        modes=(InMode("paper", _NOTHING, "set it to 0: the paper's comparison knows no minimum"),)),
    _of_all("subsample", _SHARE, 1.0, "share of rows in a boosting round",
        more="The active participant draws in private."),
    _of_all("colsample_bytree", _SHARE, 1.0, "share of columns in a tree",
        more="Every owner draws among its own, at least one, in private.",
        modes=_ALL_COLUMNS),
    _of_all("colsample_bylevel", _SHARE, 1.0, "share of the tree's columns in each of its levels",
        more="Drawn as colsample_bytree.", modes=_ALL_COLUMNS),
    _of_all("colsample_bynode", _SHARE, 1.0, "share of the level's columns in each of its nodes",
        more="Drawn as colsample_bytree; a message round for each level.",
        modes=_ALL_COLUMNS),
    _of_all("booster", choice("gbtree", "dart"), "gbtree", "which trees; both names mean the same, as in XGBoost 3.4",
        more="Trees are left out of boosting rounds with rate_drop or one_drop."),
    _of_all("rate_drop", _PROBABILITY, 0.0, "chance of each earlier tree to be left out of a boosting round",
        more="Trees left out are scaled down (DART); the active participant alone knows which, and the scales. A model "
        "is scored with all its trees at once.",
        modes=tuple(InMode(mode, _NOTHING, _KEEPS_TREES) for mode in ("sealed", "paper"))),
    _of_all("skip_drop", _PROBABILITY, 0.0, "chance of a boosting round that leaves no tree out"),
    _of_all("one_drop", FLAG, False, "leave out one tree at least, but in boosting rounds that skip_drop spares",
        modes=tuple(InMode(mode, _FALSE, _KEEPS_TREES) for mode in ("sealed", "paper"))),
    _of_all("sample_type", choice("uniform", "weighted"), "uniform",
        '"weighted" leaves trees out the more often the larger their scale is'),
    _of_all("normalize_type", choice("tree", "forest"), "tree",
        "new trees weigh as much as one of those left out, or as all of them together"),
    _of_all("huber_slope", _POSITIVE, 1.0, "where reg:pseudohubererror turns from a square to a line",
        objectives=("reg:pseudohubererror",)),
    _of_all("tweedie_variance_power", number(1.0, 1.999), 1.5,
        "power of the mean by which reg:tweedie's variance grows; 2 is gamma's", objectives=("reg:tweedie",),
        modes=(InMode("sealed", number(1.03125, 1.96875),
                      "on secrets it is from 1.03125 to 1.96875; nearer to its ends use count:poisson or reg:gamma"),)),
    _of_all("quantile_alpha", one_or_more(number(0.0, 1.0)), 0.5, "which quantile reg:quantileerror predicts",
        more="A list of several: a tree and a column of predictions for each.", objectives=("reg:quantileerror",)),
    _of_all("lambdarank_pair_method", choice("topk", "mean"), "topk",
        "which rows of a group are held against each other when ranking",
        more='"topk": the first by their scores, each with all below it; "mean": rows drawn at random for each.',
        objectives=_RANKINGS),
    _of_all("lambdarank_num_pair_per_sample", integer(1, 1_000_000), None,
        "how many of the first rows, or how many random ones for each row", more="None: 32, or 1.",
        objectives=_RANKINGS, example=8),
    _of_all("lambdarank_normalization", FLAG, True, "whether a group's gradients are scaled by what they add up to",
        more="By the number of pairs with \"mean\".", objectives=_RANKINGS),
    _of_all("lambdarank_score_normalization", FLAG, True,
        "whether a pair counts less the farther apart its scores are", objectives=_RANKINGS),
    _of_all("ndcg_exp_gain", FLAG, True, "whether a grade gains 2^grade - 1 in rank:ndcg, or the grade itself",
        objectives=_RANKINGS),
    _of_all("aft_loss_distribution", choice("normal", "logistic", "extreme"), "normal",
        "how logarithms of times are spread in survival:aft", objectives=("survival:aft",)),
    _of_all("aft_loss_distribution_scale", _POSITIVE, 1.0, "how far they are spread", objectives=("survival:aft",)),
    _of_xgboost("missing", ANYTHING, math.nan, "a number that stands for a missing value, beside NaN, None and pd.NA",
        more="In sparse input what is not stored is missing too. Files have [data] missing and --missing.",
        annotation="float", accepts="float"),
    _of_xgboost("base_score", number(), None,
        "the prediction to start from: a probability, a mean or a margin, as the objective has it",
        more="None: derived from the labels, by the active participant alone."),
    _of_xgboost("scale_pos_weight", number(0.0, 1e9), 1.0,
        "multiplies the weights of rows of the second class, or with a label of 1",
        more="The active participant alone knows it.", offered=True),
    _of_xgboost("importance_type", choice(*IMPORTANCES), "gain",
        "what feature_importances_ tells of the columns of one table, as shares of 1",
        more='"weight" counts splits, "gain" and "cover" are means over them.'),
    _of_xgboost("feature_types", ANYTHING, None, 'a kind for each column, "c" for categories, or what else XGBoost has',
        more="The table says what its columns are, and these are held to it.", annotation="Sequence[str] | None",
        accepts="sequence of str"),
    _of_xgboost("eval_metric", ANYTHING, None,
        "metrics of the evaluation rows; the last one decides",
        aliases=("eval_metrics",), annotation="str | OwnMetric | Sequence[str | OwnMetric] | None",
        accepts="str, callable or sequence of them"),
    _of_xgboost("early_stopping_rounds", integer(1), None,
        "boosting rounds without progress before stopping; needs rows to watch", offered=True,
        aliases=("early_stopping_round",)),
    _of_xgboost("callbacks", ANYTHING, None,
        "whom to call at the active participant while the training runs; a true result stops it",
        more="Functions get a RoundReport after each boosting round; objects are in XGBoost's form.",
        annotation="Sequence[Any] | None", accepts="sequence of callables or objects"),
    Parameter("weighted", FLAG, False, "whether rows have weights; [label] has their column, or scale_pos_weight",
        shared=True, estimator=False,
        modes=(InMode("paper", _FALSE, "leave sample_weight and scale_pos_weight out"),)),
    Parameter("first_layer_mask", FLAG, False, "let only the active participant split the root",
        more="Section 5.2 of the paper.",
        note="See [what it changes](what-each-party-sees.md#what-first-layer-mask-changes).", shared=True,
        offered=True),
    Parameter("may_stop_early", FLAG, False, "whether [label] may stop the training early", shared=True,
        estimator=False),
    Parameter("security", choice(*MODES), "strict",
        '"sealed" shows nobody anything of a training row; "paper" reveals more',
        more='With "strict" the active participant learns which of its training rows share a leaf, with "sealed" '
        "nobody does (docs/sealed.md says what that refuses). \"paper\" runs the paper's algorithms as printed, to "
        "study them (docs/paper-vs-strict.md): for two classes or squared error, min_child_weight=0, reg_lambda above "
        '0, no weights, no column samples. "none" computes the model of "strict" in the clear and protects nothing.',
        note="A federation refuses \"none\" ([when to use it](quickstart.md#mode-none-for-experiments)).",
        shared=True, offered=True),
    Parameter("binning", choice("quantile", "paper"), "quantile",
        'equal frequency; "paper" takes the sketch of the paper\'s own code',
        more="The sketch is greedy, has about ten buckets and does not use max_bin.", shared=True, offered=True),
    Parameter("leaf_epsilon", number(1e-9, 1.0), 1e-6,
        'with security = "paper": how close leaf weights come to the exact ones',
        more="For regression, as a share of the largest residual.", shared=True),
    Parameter("xgboost_rules", choice("3.4", "3.3"), "3.4",
        "the XGBoost release whose rules trees follow; there is no other choice", shared=True, estimator=False),
    _of_xgboost("random_state", integer(), None, "makes row and column samples repeat; masks are random all the same",
        aliases=("seed",)),
    Parameter("insecure_seed", integer(0), None, "makes the whole run repeat, for demonstrations; never for real data",
        more="Anyone who knows it knows every secret.", offered=True),
    Parameter("deadline", number(0.0, above=True), 600.0, "seconds that a role waits for another"),
    Parameter("link", ANYTHING, "local", "what to plan for: local, lan, wan, or ms/Mbit/s as in 20/100",
        more="Milliseconds one way, megabits a second. It changes no model.",
        offered=True, annotation="str | Link", accepts="str"),
    _of_xgboost("n_jobs", integer(), None, "threads of each role for what is computed over rows; -1 for all cores",
        more="None is one. It changes no number.", aliases=("nthread",)),
    Parameter("max_memory", ANYTHING, None, 'what the training may take of memory, in bytes or as "6 GB"',
        more="Larger matrices go to the spool. It changes no model.",
        note="[How much a training takes](benchmarks.md#memory).", annotation="int | str | None",
        accepts="int, str"),
    Parameter("spool", ANYTHING, None, "a folder, on a local disk, for what does not fit into memory",
        more="It is empty again afterwards.", annotation="str | Path | None", accepts="path"),
    Parameter("topology", choice("star", "mesh"), "star",
        "how participants are connected: star, over the active one, or mesh, each with each",
        more="A mesh takes half the hops. It changes no model.", offered=True),
    Parameter("client", ANYTHING, None,
        "a Dask cluster whose workers hold rows and compute over them",
        more="The model is the same.", note="See [workers](workers.md).",
        annotation="Any", accepts="distributed.Client"),
    _of_xgboost("verbosity", ANYTHING, 0, "1 shows a progress bar on standard error",
        aliases=("silent",), annotation="int | None"),
)
# fmt: on

BY_NAME = {parameter.name: parameter for parameter in PARAMETERS}
SHARED = {parameter.name: parameter for parameter in PARAMETERS if parameter.shared}
OF_OBJECTIVES = {parameter.name: parameter.objectives for parameter in PARAMETERS if parameter.objectives}
"""Parameters that change some objectives, by name, and those."""

ALIASES = {alias: parameter.name for parameter in PARAMETERS for alias in parameter.aliases}
"""Other names that XGBoost and its relatives have for parameters, and ours."""


OF_OTHERS = {
    "class_weight": "class_weight is scikit-learn's, XGBoost has none; give rows their weight in fit, "
    "sample_weight=sklearn.utils.class_weight.compute_sample_weight('balanced', y)",
    "num_class": "classes are counted in the labels; leave it out",
}
"""Parameters of XGBoost's functions or relatives that an estimator has not, and what to do instead."""


def wrong_values(values: Mapping[str, Any]) -> Iterator[SettingsError]:
    """Yield what is wrong with the values of parameters, each looked at by itself."""
    for name, value in values.items():
        if fault := BY_NAME[name].fault(value):
            remedy = f"{fault.remedy}, or None" if BY_NAME[name].default is None else fault.remedy
            why = REFUSED_VALUES.get((name, value)) if isinstance(value, str) else None
            problem = fault.problem if why is None else f"is not supported: {why}"
            yield SettingsError(f"{name}={value!r} {problem}; {remedy}", fault.code, name, value)


class Refused(NamedTuple):
    """A parameter of XGBoost that is not supported: why, what to do instead, values that say what is done anyway."""

    name: str
    why: str
    instead: str = ""
    harmless: tuple[Any, ...] = ()

    @property
    def reason(self) -> str:
        """Why not, and what to do instead."""
        return f"{self.why}; {self.instead}" if self.instead else self.why


_DEPTHWISE = "trees grow level by level (depthwise)"
_ONE_HOT = "a split always sets one category against the rest"
_CPU = "everything runs on the CPU"
_NO_UPDATE = "a training grows new trees, and changes none of a model's"
_NOT_LINEAR = "it is of gblinear, a linear model, which is no tree"

# fmt: off
REFUSED = {
    refused.name: refused
    for refused in (
        Refused("interaction_constraints", "they would tie one participant's columns to another's", "", ("", [], ())),
        Refused("grow_policy", _DEPTHWISE, "", ("depthwise",)),
        Refused("max_leaves", _DEPTHWISE, "max_depth bounds them", (0,)),
        Refused("tree_method", "there is one method, equal-frequency bins, as 'hist' on the same bins", "",
            ("hist", "auto")),
        Refused("sampling_method", "rows are drawn uniformly", "subsample is their share", ("uniform",)),
        Refused("feature_weights", "columns are drawn uniformly, by each owner among its own"),
        Refused("max_cat_to_onehot", _ONE_HOT),
        Refused("max_cat_threshold", _ONE_HOT),
        Refused("lambdarank_unbiased", "positions are taken to bias nothing", "", (False,)),
        Refused("lambdarank_bias_norm", "positions are taken to bias nothing", "", (1.0,)),
        Refused("process_type", _NO_UPDATE, "fit(xgb_model=) adds trees to a model", ("default",)),
        Refused("updater", _NO_UPDATE, "leave it out", ("grow_quantile_histmaker",)),
        Refused("refresh_leaf", _NO_UPDATE, "leave it out", (1,)),
        Refused("multi_strategy", "several classes grow one tree each", "", ("one_output_per_tree",)),
        Refused("device", _CPU, "leave it out", ("cpu",)),
        Refused("gpu_id", _CPU, "leave it out", (-1,)),
        Refused("feature_selector", _NOT_LINEAR),
        Refused("top_k", _NOT_LINEAR),
        Refused("expectile_alpha", "there is no reg:expectileerror", "reg:quantileerror predicts quantiles"),
    )
}
"""XGBoost's parameters that are not supported."""
# fmt: on

IGNORED = {
    "enable_categorical": "columns of text or of pandas' category type are categories, always",
    "validate_parameters": "unknown parameters are refused, always",
    "seed_per_iteration": "samples are drawn by random_state and the boosting round, always",
    "disable_default_eval_metric": "the objective's metric is computed where eval_metric names none",
    "max_cached_hist_node": "it is about memory alone; max_memory bounds that",
    "extmem_single_page": "it is about memory alone; max_memory bounds that",
    "use_label_encoder": "classes may be called anything, always",
}
"""XGBoost's parameters that change nothing here, whatever they are set to; and why."""

REFUSED_VALUES = {("booster", "gblinear"): "a linear model is no tree"}
"""Values of XGBoost's parameters that are not supported, where others are; and why."""


def changes_nothing(name: str, value: Any) -> bool:
    """Return whether a value of a parameter that is none here says what is done anyway; None, "not set", does."""
    if name not in REFUSED:
        return name in IGNORED
    kinds = (str, int, float, list, tuple, dict)
    return value is None or (isinstance(value, kinds) and value in REFUSED[name].harmless)
