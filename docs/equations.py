"""Equations as laws state them, in MathML: browsers draw it without a script, offline too.

    L = E + A/N^alpha + B r^nu/D^beta,  g = P^zeta/(1+P^zeta)

Names beside each other are multiplied, before and after a fraction bar alike; ``_`` begins an index; Greek letters are
written out. What is no equation, as words after the comma, stays text.
"""

from __future__ import annotations

import html
import re

# Letters and signs that are written out, as HTML names them.
GREEK = "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau".split()
NAMED = {name: f"&{name};" for name in (*GREEK, "sum", "prod")} | {"eps": "&epsilon;"}
LONGEST = 3  # letters of a name that is not among these: what is longer is a word of a sentence
WORDS = frozenset(("score", "sign", *NAMED))
TOKEN = re.compile(r"\s*(\+/-|[A-Za-z][A-Za-z0-9]*'?(?:_(?:\{[^}]*\}|\w+))?|\d+(?:\.\d+)?(?:e-?\d+)?|[-+*/^=()\[\]|,])")


class NoEquationError(Exception):
    """A text that is none."""


def mathml(text: str) -> str:
    """Return an equation, and what is said after it, as HTML; raise `NoEquationError` where it cannot be read."""
    first, *rest = re.split(r",\s+(?=[A-Za-z]\w*'? = )|,  |; ", text)
    parts = [_equation(first)]
    for part in rest:
        try:
            parts.append(_equation(part))
        except NoEquationError:
            parts.append(html.escape(part))
    return "".join(f'<p class="equation" tabindex="0">{part}</p>' for part in parts)


def _equation(text: str) -> str:
    reader = _Reader(text)
    body = reader.sides()
    return f'<math display="inline" alttext="{html.escape(text)}"><mrow>{body}</mrow></math>'


class _Reader:
    """Reads one equation, from sides down to names."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        place = 0
        while place < len(text.rstrip()):
            found = TOKEN.match(text, place)
            if found is None:
                raise NoEquationError(text)
            self.tokens.append(found[1])
            place = found.end()
        self.place = 0

    def next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1]

    def sides(self) -> str:
        body = self.sum()
        while self.next() == "=":
            body += f"<mo>{self.take()}</mo>{self.sum()}"
        if self.next():
            raise NoEquationError(self.next())
        return body

    def sum(self) -> str:
        body = ""
        if self.next() in ("-", "+"):
            body += _sign(self.take())
        body += self.fraction()
        while self.next() in ("+", "-", "+/-"):
            body += _sign(self.take()) + self.fraction()
        return body

    def fraction(self) -> str:
        above = self.product()
        while self.next() == "/":
            self.take()
            below = self.product(only_one=not self.next().startswith("sum"))
            above = [f"<mfrac><mrow>{_joined(above)}</mrow><mrow>{_joined(below)}</mrow></mfrac>"]
            if self.next() and self.next() not in "+-/=)]|," and self.next() != "+/-":
                above += self.product()
        return _joined(above)

    def product(self, only_one: bool = False) -> list[str]:
        factors = [self.power()]
        while self.next() and self.next() not in ("+", "-", "+/-", "/", "=", ")", "]", "|", "^", ","):
            # Below a bar stands one factor, or several of one letter: N^gamma_N e^(-x) is a factor beside the fraction.
            if only_one:
                break
            factors.append(self.power())
        return factors

    def power(self) -> str:
        base = self.atom()
        if self.next() != "^":
            return base
        self.take()
        sign = _sign(self.take()) if self.next() == "-" else ""
        bare = self.next() in ("(", "[")
        exponent = self.inside() if bare else self.atom()
        return f"<msup><mrow>{base}</mrow><mrow>{sign}{exponent}</mrow></msup>"

    def inside(self) -> str:
        closing = {"(": ")", "[": "]", "|": "|"}[self.take()]
        body = self.sum()
        while self.next() == ",":
            body += f"<mo>{self.take()}</mo>{self.sum()}"
        if self.next() != closing:
            raise NoEquationError(self.next())
        self.take()
        return body

    def atom(self) -> str:
        token = self.next()
        if token in ("(", "[", "|"):
            closing = {"(": ")", "[": "]", "|": "|"}[token]
            return f"<mo>{token}</mo>{self.inside()}<mo>{closing}</mo>"
        if not token or not token[0].isalnum():
            raise NoEquationError(token)
        self.take()
        if token[0].isdigit():
            return f"<mn>{token}</mn>"
        name, _, index = token.partition("_")
        letters = re.fullmatch(r"([A-Za-z]+?)(\d\w*|)('?)", name)
        if letters is None or (len(letters[1]) > LONGEST and letters[1] not in WORDS):
            raise NoEquationError(token)
        word, number, prime = letters.groups()
        tag = "mo" if word in ("sum", "prod") else "mi"
        shown = f"<{tag}>{NAMED.get(word, word)}{'&prime;' if prime else ''}</{tag}>"
        index = index.strip("{}") or number
        return f"<msub>{shown}<mrow>{_index(index)}</mrow></msub>" if index else shown


def _index(text: str) -> str:
    return f"<mtext>{html.escape(' '.join(NAMED.get(part, part) for part in text.split()))}</mtext>"


def _sign(text: str) -> str:
    return f"<mo>{ {'+/-': '&plusmn;', '-': '&minus;'}.get(text, text) }</mo>"


def _joined(factors: list[str]) -> str:
    return '<mo>&#x2062;</mo><mspace width="0.17em"/>'.join(factors)
