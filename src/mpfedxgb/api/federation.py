"""One role of a real federation, from Python: in a notebook at each organisation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from mpfedxgb.api.models import write_page
from mpfedxgb.boosting.metrics import limited_to, read_range
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.data.table import from_arrow, is_arrow
from mpfedxgb.errors import DataError, SettingsError
from mpfedxgb.federation import role
from mpfedxgb.federation.overview import overview
from mpfedxgb.federation.role import ScoringSession, Trained
from mpfedxgb.federation.rows import Rows, arrange_rows, read_rows, with_kinds_of
from mpfedxgb.federation.search import Search
from mpfedxgb.federation.settings import RoleSettings


class Federation:
    """The role of one organisation in a federation, as its settings file describes it.

    Every organisation makes its own and calls the same method at the same time; the coordinator calls `coordinate`.
    With a `distributed.Client` of its own Dask cluster, or with [workers] in the settings, an organisation's rows live
    on that cluster's workers while it trains or deals.

    >>> Federation.from_toml("bank.toml").train(table, label="defaulted")    # doctest: +SKIP
    """

    def __init__(self, settings: RoleSettings, client: Any = None) -> None:
        self.settings = settings
        self.client = client

    def __repr__(self) -> str:
        return f"Federation({self.settings.federation.name!r}, role={self.settings.role.name!r})"

    @classmethod
    def from_toml(cls, path: str | Path, client: Any = None) -> Federation:
        """Return the role that a settings file describes; raises SettingsError naming key, value and remedy."""
        return cls(RoleSettings.from_toml(path), client)

    def align(self, table: Any = None, evaluation: Any = None, n_jobs: int | None = None) -> dict[str, pd.Index[Any]]:
        """Find the rows that all participants have, without showing the others; trainings of the session take these.

        Needs align = true in [data] at all participants, who call this together, and the extra mpfedxgb[align].

        Parameters
        ----------
        table, evaluation : DataFrame or None
            This participant's rows with the id column; the files in [data] train and evaluate if None.
        n_jobs : int or None
            Threads; as in the settings, or one per core, if None.

        Returns
        -------
        dict of Index
            By "train" and, with rows to evaluate on, "evaluate": the ids in common as this table writes them, in the
            order of the training.
        """
        rows, others = self._both(self.settings, table, evaluation)
        found = role.align(self.settings, rows, others, n_jobs)
        return {what: pd.Index(one.ids.written, name=role.id_name(self.settings)) for what, one in found.items()}

    def train(
        self,
        table: Any = None,
        label: str | None = None,
        evaluation: Any = None,
        restart: bool = False,
        callback: Any = None,
        session: str | None = None,
    ) -> Trained:
        """Take part in a training; goes on where an earlier attempt of the same session stopped.

        Auxiliaries call this too, or `accept`, which takes part in what the active participant proposes by it.

        Parameters
        ----------
        table : DataFrame or None
            This participant's rows with the id column; the file in [data] train if None. Here and below, tables of
            polars and pyarrow will do as well.
        label : str or None
            At the active participant, the label's column, if it is not the one in the settings.
        evaluation : DataFrame or None
            Rows to evaluate on; the file in [data] evaluate if there is one. With security = "sealed" none of them may
            have the id of a training row: all participants look, and say how many do.
        restart : bool
            Forget this participant's checkpoints and begin again, which takes restart=True at every participant.
        callback : callable, object in XGBoost's form, or None
            At the active participant, called with a RoundReport after each round; or by its methods, as in the
            estimators.
        session : str or None
            A name for it, instead of the one in [session].

        Returns
        -------
        Trained
            This participant's part of the model, also written to [role] model.
        """
        settings = self.settings if label is None else self.settings.with_label(label)
        settings = settings if session is None else settings.for_session(session)
        rows, others = self._both(settings, table, evaluation)
        return role.train(settings, rows, others, restart, callback=callback, client=self.client)

    def accept(self, table: Any = None, evaluation: Any = None, once: bool = False) -> None:
        """Take part in the trainings that the active participant proposes, within [accept]; at an auxiliary one.

        Parameters
        ----------
        table, evaluation : DataFrame or None
            As in `train`; files are read again when they have changed.
        once : bool
            End after one training, instead of staying until stopped.
        """
        tables = None
        if table is not None or evaluation is not None:
            given = self._both(self.settings, table, evaluation)

            def tables() -> tuple[Rows, Rows | None]:
                return given

        role.accept_trainings(self.settings, tables, once, client=self.client)

    def search(
        self, space: Mapping[str, Sequence[Any]], table: Any = None, evaluation: Any = None, factor: int = 3
    ) -> pd.DataFrame:
        """Search for parameters by successive halving, at the active participant; the others call `accept`.

        Before the first training everybody is asked whether all of them are within its limits.

        Parameters
        ----------
        space : dict
            Values to choose from, by parameter: {"max_depth": [3, 4, 6], "learning_rate": [0.1, 0.3]}.
        table, evaluation : DataFrame or None
            As in `train`; the last metric on the evaluation rows decides.
        factor : int
            One of `factor` candidates goes on, for `factor` times the boosting rounds.

        Returns
        -------
        DataFrame
            A row for each training: session, boosting rounds, parameters, metric. The last is that of the whole model,
            which is written to [role] model.
        """
        rows, others = self._both(self.settings, table, evaluation)
        plan = Search(self.settings, space, factor)
        plan.ask(rows)
        found = plan.run(rows, others, client=self.client)
        return pd.DataFrame(
            [{"session": one.session, "rounds": one.rounds, **one.chosen, one.metric: one.value} for one in found]
        )

    def coordinate(self, once: bool = True) -> None:
        """Be the coordinator for one session, or for all that come."""
        if not self.settings.is_coordinator:
            text = f"{self.settings.role.name} is a participant, and deals in these if it is the coordinator too"
            text += "; call align, train, scoring or serve"
            raise SettingsError(text, "place", self.settings.role.name, "coordinate")
        role.coordinate(self.settings, once, self.client)

    def model(self) -> PartialModel:
        """Return this participant's part of the trained model."""
        return role.load_model(self.settings)

    def report(self, path: str | Path) -> Path:
        """Write what this role may know by now as a page to look at, also while it runs elsewhere; return its path."""
        return write_page(overview(self.settings), Path(path))

    @contextmanager
    def scoring(self, iteration_range: tuple[int, int] | None = None) -> Iterator[ScoringSession]:
        """Open a scoring session, at the active participant; the auxiliaries call `serve`.

        iteration_range=(begin, end) takes the rounds from begin up to, not with, end, in the whole session; a model
        with security = "sealed" is asked for all of them only.
        """
        model = self.model()
        chosen = read_range(iteration_range, model)
        if chosen[0] and model.params.facts.shares_leaf_weights:
            text = (
                f"iteration_range={iteration_range!r}: with security='paper' all participants hold shares of the leaf "
                "weights, so the active one cannot leave the first boosting rounds out; begin with 0"
            )
            raise SettingsError(text, "mode", "iteration_range", iteration_range)
        with role.scoring(self.settings, model if iteration_range is None else limited_to(model, chosen)) as session:
            yield session

    def predict(self, table: Any, iteration_range: tuple[int, int] | None = None) -> pd.DataFrame:
        """Score rows in a session of their own, at the active participant; returns id and prediction of each."""
        with self.scoring(iteration_range) as session:
            return session.predict(table)

    def serve(self, table: Any = None, once: bool = False) -> None:
        """Answer scoring sessions, at an auxiliary participant.

        Parameters
        ----------
        table : DataFrame, callable or None
            The people it answers for, with the id column; the file in [data] predict if None, which is read again when
            it has changed. Or a function that looks rows up in this organisation's own feature store: it is called with
            the ids of a batch, a list of texts, and returns a DataFrame with the rows that are there.
        once : bool
            End after one session.
        """
        if self.settings.is_active or self.settings.is_coordinator:
            text = f"{self.settings.role.name} is no auxiliary participant; only those serve"
            raise SettingsError(text, "place", self.settings.role.name, "serve")
        role.serve_rows(self.settings, table, once)

    def serve_http(self, address: str = "0") -> None:
        """Answer requests for scores over HTTP, at the active participant, until stopped; auxiliaries call `serve`.

        Parameters
        ----------
        address : str
            [HOST:]PORT: on this machine only unless a host is given, which takes [serve] token_file; "0" for a free
            port, which the log tells. Needs the extra mpfedxgb[serve].
        """
        from mpfedxgb.federation.serving.app import serve_http  # an extra, which few need
        from mpfedxgb.federation.web import read_address

        serve_http(self.settings, self.model(), read_address(address, "address"))

    def _both(self, settings: RoleSettings, table: Any, evaluation: Any) -> tuple[Rows, Rows | None]:
        rows = self._rows(settings, table, "train")
        has_file = settings.data is not None and settings.data.evaluate is not None
        return rows, self._rows(settings, evaluation, "evaluate") if evaluation is not None or has_file else None

    def _rows(self, settings: RoleSettings, table: Any, purpose: str, model: PartialModel | None = None) -> Rows:
        known = None if model is None else model.features
        if table is None:
            has_workers = self.client is not None or settings.workers is not None
            return read_rows(settings, purpose, known, stay_in_file=has_workers and purpose == "train")
        if is_arrow(table):
            table = from_arrow(table, settings.role.name)
        if not isinstance(table, pd.DataFrame):
            text = f"the table is a {type(table).__name__}; give a DataFrame with an id column"
            raise DataError(text, "type", "table", type(table).__name__)
        return arrange_rows(settings, with_kinds_of(settings, table, known), purpose, known)
