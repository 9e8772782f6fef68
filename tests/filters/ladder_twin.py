"""A slow and obvious ladder of shadow filters, written from `docs/design/filters.md` §5.1 line by line.

Predictor 3 alone differs: its mean of the changes restarts at every outlier among them.
"""

RUNGS, PREDICTORS = 18, 6


def width_of(rung, unit):
    return unit * 2 ** ((rung - 9) / 2)


class Twin:
    """One item's ladder. `shadow[rung][p]` is (centre, slope) of predictor p's filter, the last the chosen one's."""

    def __init__(self, unit, value):
        self.unit, self.age = unit, 0
        self.value = self.mean = self.level = value
        self.slow = self.trend = 0.0
        self.fast = self.noise = 0.0
        self.run = 0
        self.shadow = {rung: [(value, 0.0)] * (PREDICTORS + 1) for rung in range(1, RUNGS)}
        self.counts = {rung: [0.0] * PREDICTORS for rung in range(1, RUNGS)}
        self.fired, self.lately, self.now = [0.0] * RUNGS, [0.0] * RUNGS, [0.0] * RUNGS

    def observe(self, value):
        change, before = value - self.value, self.level
        self.value, self.age = value, self.age + 1
        self.mean += 0.02 * (value - self.mean)
        self.slow += 0.05 * (change - self.slow)
        self._follow(change)
        self.level = 0.3 * value + 0.7 * (before + self.trend)
        self.trend = 0.1 * (self.level - before) + 0.9 * self.trend
        self.lately = [0.998 * count for count in self.lately]
        self.now = [0.97 * count for count in self.now]
        if change != 0:
            self._sent(0)
        for rung in self.shadow if self.unit > 0 else ():
            self._test(rung)

    def _follow(self, change):
        off = change - self.fast
        if self.run >= 2 and abs(off) > 3.75 * self.noise:
            self.fast, self.run = change, 1
        else:
            self.run += 1
            self.fast += max(1 / self.run, 0.2) * off
            self.noise += max(1 / self.run, 0.05) * (abs(off) - self.noise)

    def _test(self, rung):
        width, counts = width_of(rung, self.unit), self.counts[rung]
        self.shadow[rung] = [(centre + slope, slope) for centre, slope in self.shadow[rung]]
        left = [abs(self.value - centre) > width / 2 for centre, _ in self.shadow[rung]]
        if left[0]:
            counts[:] = [31 / 32 * count for count in counts]
        for predictor in range(PREDICTORS):
            counts[predictor] += left[predictor]
        for place, passes in enumerate(left):
            if passes:
                predictor = place if place < PREDICTORS else self.choice(rung)
                self.shadow[rung][place] = self.predict(predictor, width, self.shadow[rung][place][0])
        if left[PREDICTORS]:
            self._sent(rung)

    def _sent(self, rung):
        for counts in (self.fired, self.lately, self.now):
            counts[rung] += 1

    def choice(self, rung):
        best, counts = 0, self.counts[rung]
        for predictor in range(1, PREDICTORS):
            if counts[predictor] < 0.75 * counts[best] - 0.5:
                best = predictor
        return best

    def predict(self, predictor, width, centre):
        """(level, slope) of an update; `centre`: that of the filter which the value left."""
        side = 1 if self.value > centre else -1
        return {
            0: (self.value, 0.0),
            1: (self._clipped(self.mean, width), 0.0),
            2: (self.value, self.slow),
            3: (self.value, self.fast),
            4: (self._clipped(self.level, width), self.trend),
            5: (self.value + side * 0.15 * width, 0.0),
        }[predictor]

    def _clipped(self, level, width):
        return min(max(level, self.value - 0.45 * width), self.value + 0.45 * width)

    def report(self):
        """(life, now): updates per tick for every rung."""
        age = self.age
        h_s, h_f = (1 - 0.998**age) / 0.002, (1 - 0.97**age) / 0.03
        life, now = [], []
        n, s, f = [], [], []
        for k in range(RUNGS):
            if k == 0:
                n.append(self.fired[0] + 0.5)
                g_s = g_f = 1.0
            else:
                n.append(q(n[0] if k == 1 else n[k - 1] / 2, self.fired[k]))
                g_s = s[k - 1] * age / (n[k - 1] * h_s)
                g_f = (f[k - 1] / h_f) / (s[k - 1] / h_s)
            s.append(q(g_s * n[k] * h_s / age, self.lately[k]))
            f.append(q(g_f * s[k] / h_s * h_f, self.now[k]))
            life.append(min([n[k] / age, *life, 1.0]))
            now.append(min([f[k] / h_f, *now, 1.0]))
        return life, now


def q(m, x):
    """An expectation m worth 6 events, observed x."""
    return m * (6 + x) / (6 + m)
