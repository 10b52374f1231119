"""What a law of continual pre-training is: inputs, parameters, and terms that read like the paper.

A law's loss is a sum of terms. Each amplitude (a non-negative number) multiplies one term; a term is a function of
the inputs and of the shape parameters. Subclasses state just that, and what they claim; prediction, derivatives
and, through `cptlaw.fitting`, estimation follow from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cptlaw.errors import UsageError, did_you_mean
from cptlaw.findings import Finding
from cptlaw.laws.calculus import Array, Computed, Jet, Letters, Number, Value, weighted_sum
from cptlaw.laws.described import Described, Status
from cptlaw.laws.inputs import LETTERS, Context, Points, RatioOf, as_rows
from cptlaw.laws.parameters import EXPONENT, Amplitude, Option, Shape, UsualPrior, option_text
from cptlaw.laws.registry import Registry
from cptlaw.runs.table import Role

__all__ = ["EXPONENT", "LAWS", "LETTERS", "Amplitude", "Context", "Law", "Option", "RatioOf", "Role", "Shape", "Status"]


LAWS: Registry[Law] = Registry()
Given = TypeVar("Given", bound=Number)


class Law(Described):
    """Base of all laws. A subclass is one equation; see ``CONTRIBUTING.md`` for how to add one.

    A subclass with a ``name`` registers itself: from then on its name and its options say which law is meant, on the
    command line and in files. No subclass has a constructor; what users may set stands in `choices`.

    Parameters
    ----------
    **options
        Values of the options in `choices`; each is then an attribute of that name.

    Raises
    ------
    UsageError
        If an option is unknown or its value unusable.

    Attributes
    ----------
    name
        The name on the command line. What a law says of itself in words is `cptlaw.laws.described.Described`.
    inputs
        Columns that the law reads, out of n_params, tokens, replay, ptpp and what `inputs_of` adds.
    ratio_of
        Of which corpus the law's ratio is the share. ``None`` for laws without a ratio; they read
        replay as it stands.
    units
        Parameters and tokens per unit of N and D, raw where a law does not say. For laws whose exponents vary
        with an input the unit is part of the model.
    amplitudes
        Names of the non-negative linear coefficients, in the order of the terms; `Amplitude` where more is to be said.
    shapes
        The other parameters, with their ranges.
    choices
        The options that users may set, by name.
    delta
        Huber threshold of the published protocol, on log residuals.
    decreasing
        Inputs in which the law claims never to rise. `cptlaw.testing.check_law` tries to break the claim.
    vanishing
        Amplitudes whose terms vanish as an input grows without bound: the law's limits, also tested.
    diverges_at_zero
        Inputs at whose zero the law is infinite.
    ratio_margin
        How far the ratio is kept from 0 and 1.
    forecasts
        False for a bound that is fitted on the very rows to forecast: it is compared, and no forecast.
    on_base_models
        True for laws of the base models' own losses (rows with tokens = 0).
    correlated_along
        For laws of whole loss curves, the column along which the points of a run err together; ``None`` for laws of
        points, whose runs err as one.
    objects
        Columns that follow from a schedule and hold an array in each row, which files leave out.
    constants
        Parameters that the law holds at a published value.
    always_priors
        True for laws that are never fitted without their usual priors; or the parameters of which that holds.
    reads_base_rows
        True for laws that hold at tokens = 0 too, so that the base models' losses are fitted with the others.
    starts
        Starts of the global search where the user does not say.
    order
        Place in listings of laws; the built-in families come first.
    derived
        Parameters that a constraint mode computes from others, so that restraint cannot name them.
    from_source, in_doubt
        Parameters that a fit to the source loss gives, and those of them that come with the doubt about them.
    steady_inputs
        Inputs that may have one level: what counts is their ratio to another one.
    signed_inputs
        Inputs that may be negative.
    takes_columns
        Whether rows may be `cptlaw.laws.inputs.Columns`, which cost a tenth of a table: laws that override `bind` or
        `inputs_of` say so themselves.
    """

    version: ClassVar[int] = 1
    forecasts: ClassVar[bool] = True
    on_base_models: ClassVar[bool] = False
    correlated_along: ClassVar[str | None] = None
    objects: tuple[str, ...] = ()
    reads_base_rows: ClassVar[bool] = False
    always_priors: bool | tuple[str, ...] = False
    starts: ClassVar[int] = 64
    derived: tuple[str, ...] = ()
    from_source: tuple[str, ...] = ()
    in_doubt: ClassVar[tuple[str, ...]] = ()
    takes_columns: ClassVar[bool] = True  # its own inputs_of adds nothing

    def __init_subclass__(cls, **arguments: object) -> None:
        super().__init_subclass__(**arguments)
        if "name" in cls.__dict__:  # a class without a name of its own is what several laws share
            LAWS.add(cls)

    def __init__(self, /, **options: object) -> None:
        for key in options:
            if key not in self.choices:
                has = f"its options are {', '.join(self.choices)}" if self.choices else "it has no options"
                raise UsageError(f"law {self.name} has no option {key!r}; {has}.{did_you_mean(key, self.choices)}")
        for key, option in self.choices.items():
            setattr(self, key, option.value(key, options.get(key, option.default)))
        self.configure()

    # -- what a subclass writes ------------------------------------------------------------------------------------

    def terms(self, x: Letters, p: Letters) -> Sequence[Value]:
        """Return the terms, one per amplitude, then any that stand without an amplitude.

        Parameters
        ----------
        x
            Inputs in the law's units under their paper letters (``x.N``, ``x.D``, ``x.r``, ``x.P``), each (n,).
        p
            Shape parameters by name, each (s, 1).
        """
        raise NotImplementedError

    def configure(self) -> None:
        """Adapt what the class declares to the options that were chosen. Most laws have nothing to adapt."""

    def for_rows(self, frame: pd.DataFrame, damage: bool | None = None) -> Law:
        """Return the form of this law that reads what these rows have. Most laws have one form.

        Parameters
        ----------
        frame
            All rows of one eval, base models included.
        damage
            Whether the target loss has a term of the shift of the source loss; as the options say where absent.
        """
        return self

    def for_table(self, frame: pd.DataFrame) -> Law:
        """Return the law with the options that follow from all rows of one eval. Most laws have none."""
        return self

    def inputs_of(self, frame: pd.DataFrame, context: Context) -> pd.DataFrame:
        """Add the input columns that the law computes, to rows to fit or to forecast. Most laws need none.

        Parameters
        ----------
        frame
            Rows.
        context
            What they follow from: all rows of the eval in a fit, the fitted rows in a forecast, and schedules.
        """
        return frame

    def rows(self, frame: pd.DataFrame, context: Context) -> pd.DataFrame:
        """Choose the rows to fit on; baselines that are defined by their data override this.

        Parameters
        ----------
        frame
            Rows with the law's inputs.
        context
            The rows to forecast, where given, and schedules.
        """
        return frame

    def published(self, params: Mapping[str, Number]) -> dict[str, Number]:
        """Map the parameters that the terms use to the published ones; they differ only in a constraint mode."""
        return dict(params)

    def fitted(self, params: Mapping[str, Number]) -> dict[str, Number]:
        """Map published parameters to the ones that the terms use: the inverse of `published`."""
        return dict(params)

    def notes(self, params: Mapping[str, float], frame: pd.DataFrame) -> tuple[Finding, ...]:
        """Return law-specific findings about a fit; most laws have none."""
        return ()

    def usual_of(self, role: Role, frame: pd.DataFrame | None = None) -> dict[str, UsualPrior]:
        """Return the usual priors for an eval of this role, amplitudes included; rows give the scale of the inputs."""
        of_amplitudes = {str(a): a.usual for a in self.amplitudes if isinstance(a, Amplitude) and a.usual}
        return {**of_amplitudes, **self.usual}

    def shift_of_source(self, params: Mapping[str, Given]) -> dict[str, Given]:
        """Return the parameters of this law for the target loss that a fit to the source loss gives. Mostly none."""
        return {}

    @property
    def parameters(self) -> tuple[str, ...]:
        """All parameter names, amplitudes first."""
        return (*self.amplitudes, *self.shapes)

    @property
    def needs_schedules(self) -> bool:
        """Whether the law reads learning-rate schedules, as laws of whole loss curves do."""
        return False

    @property
    def computed(self) -> tuple[str, ...]:
        """The columns that follow from a schedule."""
        return ()

    @property
    def usual(self) -> dict[str, UsualPrior]:
        """Mean and standard deviation of the shapes for which they are known."""
        return {name: shape.usual for name, shape in self.shapes.items() if shape.usual is not None}

    def with_signs(self, params: Mapping[str, float], role: Role) -> dict[str, float]:
        """Return the parameters of a fit with the signs that the paper gives them: see `signed`."""
        # Searched as a magnitude: amplitudes are not negative. The sign is that of the role wherever a row has one;
        # published coefficients on a table without evals keep the sign that they were given.
        sign = -1.0 if role == "target" else 1.0
        return {name: sign * abs(value) if name in self.signed else value for name, value in params.items()}

    def options(self) -> dict[str, object]:
        """Return the options that differ from their default, enough to build this law again."""
        return {name: getattr(self, name) for name, one in self.choices.items() if getattr(self, name) != one.default}

    def with_options(self, **changes: object) -> Self:
        """Return the same law with some options changed."""
        return type(self)(**{**self.options(), **changes})

    @property
    def spec(self) -> str:
        """The name with its options, as ``--law`` takes it."""
        return ":".join([self.name, *(f"{key}={option_text(value)}" for key, value in self.options().items())])

    def check_params(self, params: Mapping[str, float]) -> dict[str, float]:
        """Return the parameters in canonical order, or say which are missing or unknown."""
        unknown = [name for name in params if name not in self.parameters and name not in self.constants]
        if unknown:
            raise UsageError(
                f"law {self.name} has no parameter {unknown[0]!r}; its parameters are {', '.join(self.parameters)}."
                f"{did_you_mean(unknown[0], self.parameters)}"
            )
        missing = [name for name in self.parameters if name not in params]
        if missing:
            raise UsageError(f"law {self.name} lacks a value for {', '.join(missing)}.")
        for name, fixed in self.constants.items():
            if name in params and not math.isclose(params[name], fixed, rel_tol=1e-12):
                raise UsageError(f"law {self.name} holds {name} at {fixed:g}; {params[name]:g} was given.")
        return {name: float(params[name]) for name in self.parameters}

    def evaluate(self, params: Mapping[str, Number], x: Letters) -> Computed:
        """Sum the law's terms.

        Parameters
        ----------
        params
            Values by name: numbers, or arrays of shape (s, 1) for several parameter vectors at once.
        x
            Inputs as `bind` returns them.

        Returns
        -------
        array of shape (n,) or (s, n), or a Jet of it where inputs or parameters are Jets
        """
        shape = Letters(**{name: params[name] for name in self.shapes})
        return weighted_sum(self.terms(x, shape), [params[name] for name in self.amplitudes])

    def predict(self, params: Mapping[str, float], frame: Points, role: Role | None = None) -> Array:
        """Return the loss of each row of `frame` in nats per token, shape (n,).

        Parameters
        ----------
        params
            All parameters by name, in the law's units.
        frame
            Rows with the columns of `inputs`, in raw parameters and raw tokens; whatever
            `cptlaw.runs.points.as_points` reads.
        role
            Role of the eval; from the column ``eval`` where absent, target where there is none.

        Examples
        --------
        >>> import pandas as pd
        >>> from cptlaw.laws import law
        >>> row = pd.DataFrame({"n_params": [70e9], "tokens": [1.4e12]})
        >>> epoch = {"E": 1.8172, "A": 477.83, "B": 2143.42, "alpha": 0.34731, "beta": 0.36717}
        >>> round(float(law("chinchilla").predict(epoch, row)[0]), 3)
        1.973
        """
        frame = as_rows(frame)
        x = self.bind(self.as_taken(frame), role)
        with np.errstate(over="ignore", divide="ignore"):
            loss = self.evaluate(self.fitted(self.check_params(params)), x)
        return np.broadcast_to(np.asarray(loss, dtype=float), (len(frame),)).copy()

    def predict_many(self, draws: NDArray[np.float64], frame: pd.DataFrame, role: Role | None = None) -> Array:
        """Return losses of shape (s, n) for parameter vectors of shape (s, parameters)."""
        x = self.bind(frame, role)
        params = {name: draws[:, i : i + 1] for i, name in enumerate(self.parameters)}
        with np.errstate(over="ignore", divide="ignore"):
            loss = self.evaluate(self.fitted(params), x)
        return np.broadcast_to(np.asarray(loss, dtype=float), (len(draws), len(frame)))

    def partials(
        self, params: Mapping[str, float], frame: pd.DataFrame, wrt: Sequence[str], role: Role | None = None
    ) -> Jet:
        """Return the loss with its exact first and second derivatives with respect to inputs.

        Derivatives are per raw parameter, raw token, and unit of replay; indices follow `wrt`.
        """
        x = self.bind(frame, role)
        for i, name in enumerate(wrt):
            column = getattr(x, LETTERS.get(name, name))
            if name == "replay":
                slope = np.where(self._replay_is_the_share(frame, role), 1.0, -1.0)
            else:
                slope = np.full(len(frame), 1.0 / self.units.get(name, 1.0))
            setattr(x, LETTERS.get(name, name), Jet(getattr(column, "value", column), {i: slope}, {}))
        loss = self.evaluate(self.fitted(self.check_params(params)), x)
        return loss if isinstance(loss, Jet) else Jet(loss, {}, {})

    def __repr__(self) -> str:
        return f"<law {self.spec}: {self.equation}>"
